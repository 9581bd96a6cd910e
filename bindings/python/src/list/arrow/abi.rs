//! The structs of Arrow's C data interface, and the capsules they travel in.
//!
//! A struct is owned by whoever holds it while its `release` is not null. To move one is to copy
//! its bytes and to set the `release` of the original to null.
//! <https://arrow.apache.org/docs/format/CDataInterface.html>
#![allow(unsafe_code)] // structs of C

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

type Release<T> = Option<unsafe extern "C" fn(*mut T)>;

/// That an item may be None.
pub(super) const NULLABLE: i64 = 2;

/// What the items of an array are.
#[repr(C)]
pub(super) struct ArrowSchema {
    pub(super) format: *const c_char,
    pub(super) name: *const c_char,
    pub(super) metadata: *const c_char,
    pub(super) flags: i64,
    pub(super) n_children: i64,
    pub(super) children: *mut *mut ArrowSchema,
    pub(super) dictionary: *mut ArrowSchema,
    pub(super) release: Release<ArrowSchema>,
    pub(super) private_data: *mut c_void,
}

/// Items: `length` of them, from number `offset` of the buffers and children on.
#[repr(C)]
pub(super) struct ArrowArray {
    pub(super) length: i64,
    pub(super) null_count: i64,
    pub(super) offset: i64,
    pub(super) n_buffers: i64,
    pub(super) n_children: i64,
    pub(super) buffers: *mut *const c_void,
    pub(super) children: *mut *mut ArrowArray,
    pub(super) dictionary: *mut ArrowArray,
    pub(super) release: Release<ArrowArray>,
    pub(super) private_data: *mut c_void,
}

/// Arrays of one schema, one after another. The functions return an errno.
#[repr(C)]
pub(super) struct ArrowArrayStream {
    pub(super) get_schema: Option<unsafe extern "C" fn(*mut Self, *mut ArrowSchema) -> c_int>,
    pub(super) get_next: Option<unsafe extern "C" fn(*mut Self, *mut ArrowArray) -> c_int>,
    pub(super) get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    pub(super) release: Release<Self>,
    pub(super) private_data: *mut c_void,
}

/// One of the structs.
///
/// # Safety
/// The struct may have all bytes zero, and is released by its `release`, from any thread.
pub(super) unsafe trait CStruct: Sized {
    /// The name of a capsule with it.
    const NAME: &CStr;
    fn release(&self) -> Release<Self>;
}

// SAFETY: Arrow's C data interface says so of its structs, and these are numbers and pointers.
unsafe impl CStruct for ArrowSchema {
    const NAME: &CStr = c"arrow_schema";
    fn release(&self) -> Release<Self> {
        self.release
    }
}

// SAFETY: as for `ArrowSchema`.
unsafe impl CStruct for ArrowArray {
    const NAME: &CStr = c"arrow_array";
    fn release(&self) -> Release<Self> {
        self.release
    }
}

// SAFETY: as for `ArrowSchema`.
unsafe impl CStruct for ArrowArrayStream {
    const NAME: &CStr = c"arrow_array_stream";
    fn release(&self) -> Release<Self> {
        self.release
    }
}

/// A struct that is released when this is dropped, unless it was moved. Many of them are the
/// pointers that `children` of a struct leads to.
#[repr(transparent)]
pub(super) struct Owned<T: CStruct>(NonNull<T>);

// SAFETY: nobody writes to the struct but its owner, and `CStruct` lets any thread release it.
unsafe impl<T: CStruct> Send for Owned<T> {}
// SAFETY: the same; a shared reference only reads.
unsafe impl<T: CStruct> Sync for Owned<T> {}

impl<T: CStruct> Owned<T> {
    pub(super) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// A struct for a function to fill, which is as if released.
    pub(super) fn released() -> Self {
        Self::new(zeros())
    }

    pub(super) fn get(&self) -> &T {
        // SAFETY: the struct lives until this is dropped, and nobody else writes to it.
        unsafe { self.0.as_ref() }
    }

    pub(super) fn is_released(&self) -> bool {
        self.get().release().is_none()
    }

    pub(super) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Returns a capsule that owns the struct.
    pub(super) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let pointer = self.as_ptr().cast();
        let (name, drop) = (T::NAME.as_ptr(), drop_capsule::<T> as ffi::PyCapsule_Destructor);
        // SAFETY: the call needs the GIL, which `py` shows, a pointer that is not null, and a name
        // that lives as long as the capsule.
        let capsule = unsafe { ffi::PyCapsule_New(pointer, name, Some(drop)) };
        // SAFETY: the pointer is a new reference, or null with an exception set.
        let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) }?;
        std::mem::forget(self);
        Ok(capsule)
    }

    /// Takes the struct out of a capsule.
    pub(super) fn taken(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let original = in_capsule::<T>(capsule)?;
        // SAFETY: the struct is in the capsule. It is moved, and what is left there is as if
        // released, as the interface wants it.
        Ok(Self::new(unsafe { original.replace(zeros()) }))
    }
}

fn zeros<T: CStruct>() -> T {
    // SAFETY: `CStruct` lets all bytes be zero.
    unsafe { std::mem::zeroed() }
}

impl<T: CStruct> Drop for Owned<T> {
    fn drop(&mut self) {
        if let Some(release) = self.get().release() {
            // SAFETY: the struct was not released, and its owner is dropped.
            unsafe { release(self.0.as_ptr()) };
        }
        // SAFETY: `new` leaked a box, and `into_capsule` one that comes back by `drop_capsule`.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Drops the struct of a capsule.
///
/// # Safety
/// The capsule was made by [`Owned::into_capsule`] of this `T`, and the thread has the GIL.
unsafe extern "C" fn drop_capsule<T: CStruct>(capsule: *mut ffi::PyObject) {
    // SAFETY: the caller promises a capsule, with that name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()) };
    drop(NonNull::new(pointer.cast::<T>()).map(Owned));
}

/// Returns the struct that is in a capsule, which was not released.
pub(super) fn in_capsule<T: CStruct>(capsule: &Bound<'_, PyAny>) -> PyResult<NonNull<T>> {
    let name = T::NAME.to_string_lossy();
    // SAFETY: the call needs the GIL, which `capsule` shows, and takes any object.
    if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), T::NAME.as_ptr()) } == 0 {
        return Err(PyTypeError::new_err(format!("no capsule {name:?} was returned")));
    }
    // SAFETY: it is a capsule of that name, as was found just now.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), T::NAME.as_ptr()) };
    let Some(pointer) = NonNull::new(pointer.cast::<T>()) else {
        return Err(PyErr::fetch(capsule.py()));
    };
    // SAFETY: by the interface the capsule with that name has such a struct.
    if unsafe { pointer.as_ref() }.release().is_none() {
        return Err(PyValueError::new_err(format!("{name} was released already")));
    }
    Ok(pointer)
}

/// Returns so many pointers, each of which may be null, or `None` if there is no place with them.
///
/// # Safety
/// If `start` is not null, so many pointers lie there, and stay for `'a`.
pub(super) unsafe fn pointers<'a, T>(
    start: *const *mut T,
    count: i64,
) -> Option<&'a [Option<NonNull<T>>]> {
    let count = usize::try_from(count).ok()?;
    if count == 0 {
        return Some(&[]);
    }
    if start.is_null() || !start.is_aligned() {
        return None;
    }
    // SAFETY: the caller promises the pointers, and `Option<NonNull<T>>` is one of them or null.
    Some(unsafe { std::slice::from_raw_parts(start.cast(), count) })
}
