//! Context managers that a `with` calls without making objects.
//!
//! A `with` gets `__enter__` and `__exit__` as bound methods, before Python 3.14 as two new
//! objects, which take longer than a message does. Here both names are of a descriptor that returns
//! the context manager itself, and that is called in their place:
//!
//! | call | is |
//! |---|---|
//! | `context()` | `__enter__()` |
//! | `context(type, value, traceback)` | `__exit__(type, value, traceback)` |
//!
//! `type(context).__enter__(context)`, as `contextlib.ExitStack` calls it, does the same.
//!
//! G1 and G2 are those of [`direct`](super::direct).
#![allow(unsafe_code)] // classes by Python's C API

use std::ffi::{CStr, c_char, c_ulong, c_void};
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

use super::direct::{answer, class_of, slot};
use crate::first_use::FirstUse;

// Python 3.12 made these part of the stable ABI; they are as in 3.11.
const HAVE_VECTORCALL: c_ulong = 1 << 11;
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// A context manager. Its class is made by [`make_class`], its objects by [`new`].
pub(super) trait Context: Sized + 'static {
    const NAME: &'static CStr;
    const DOC: &'static CStr;

    /// Returns what there is of the kind.
    fn made() -> &'static Made;

    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>>;

    /// `has_raised` says if the body was left by an exception.
    fn exit(&self, py: Python<'_>, has_raised: bool) -> PyResult<()>;
}

/// What there is of a kind of context managers: its class, which lives as long as the process, and
/// the memory of the last one that was dropped, for the next: to allocate it takes longer. Both are
/// read and changed with the GIL.
pub(super) struct Made {
    class: AtomicPtr<ffi::PyTypeObject>,
    free: AtomicPtr<c_void>,
}

impl Made {
    pub(super) const fn nothing() -> Self {
        Self { class: AtomicPtr::new(ptr::null_mut()), free: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns memory for a context manager of so many bytes, or null.
    fn allocate(&self, bytes: usize) -> *mut c_void {
        let free = self.free.load(Relaxed);
        if free.is_null() {
            // SAFETY: it has no requirement.
            return unsafe { ffi::PyObject_Malloc(bytes) };
        }
        self.free.store(ptr::null_mut(), Relaxed);
        free
    }

    /// # Safety
    /// `allocate` returned the memory, and nobody uses it any more.
    unsafe fn free(&self, memory: *mut c_void) {
        let before = self.free.load(Relaxed);
        self.free.store(memory, Relaxed);
        // SAFETY: it must be memory that `PyObject_Malloc` returned, which nobody uses, or null: it
        // was given to this function before.
        unsafe { ffi::PyObject_Free(before) };
    }
}

/// A context manager as CPython sees it.
#[repr(C)]
struct Object<T> {
    object: ffi::PyObject,
    vectorcall: VectorCall,
    context: T,
}

type VectorCall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Returns a new object of a class.
pub(super) fn new<T: Context>(py: Python<'_>, context: T) -> PyResult<Bound<'_, PyAny>> {
    let memory = T::made().allocate(size_of::<Object<T>>()).cast::<Object<T>>();
    if memory.is_null() {
        return Err(PyMemoryError::new_err(()));
    }
    let object = Object { object: ffi::PyObject_HEAD_INIT, vectorcall: call::<T>, context };
    // SAFETY: the memory must have room for it: it was allocated with this size, and CPython aligns
    // to 16 bytes.
    unsafe { memory.write(object) };
    // SAFETY: the object must be of the size that the class says, which must be made: `make_class`
    // did that when the module was imported.
    unsafe { ffi::PyObject_Init(memory.cast(), T::made().class.load(Relaxed)) };
    // SAFETY: the reference must be the caller's: it is the first one.
    Ok(unsafe { Bound::from_owned_ptr(py, memory.cast()) })
}

/// Makes the class of a context manager.
pub(super) fn make_class<T: Context>(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    let vectorcall = ffi::PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: ffi::Py_T_PYSSIZET,
        offset: offset_of!(Object<T>, vectorcall) as isize,
        flags: ffi::Py_READONLY,
        doc: ptr::null(),
    };
    let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION | HAVE_VECTORCALL;
    let members = [vectorcall, ffi::PyMemberDef::default()];
    let slots = [
        slot(ffi::Py_tp_doc, T::DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_call, call_by_tuple::<T> as *mut c_void),
        slot(ffi::Py_tp_dealloc, drop_object::<T> as *mut c_void),
        slot(ffi::Py_tp_members, members.as_ptr().cast_mut().cast()),
        ffi::PyType_Slot::default(),
    ];
    let class = class_of(py, T::NAME, size_of::<Object<T>>(), flags, slots)?;
    class.setattr("__enter__", ToItself::of(&class, c"__enter__")?)?;
    class.setattr("__exit__", ToItself::of(&class, c"__exit__")?)?;
    T::made().class.store(class.clone().into_ptr().cast(), Relaxed);
    Ok(class)
}

unsafe extern "C" fn call<T: Context>(
    this: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: usize,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let count = count & !ARGUMENTS_OFFSET;
    let first = || {
        // SAFETY: there must be an argument: `called` asks for it only if there is one.
        unsafe { *arguments }
    };
    // SAFETY: G1 and G2.
    unsafe { called::<T>(this, count, first, names.is_null()) }
}

unsafe extern "C" fn call_by_tuple<T: Context>(
    this: *mut ffi::PyObject,
    arguments: *mut ffi::PyObject,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: it must be a tuple, which CPython passes here.
    let count = unsafe { ffi::PyTuple_Size(arguments) } as usize;
    let first = || {
        // SAFETY: it must be a tuple; without an item there is an error.
        unsafe { ffi::PyTuple_GetItem(arguments, 0) }
    };
    // SAFETY: G1 and G2.
    unsafe { called::<T>(this, count, first, names.is_null()) }
}

/// # Safety
/// The GIL is held, and the object is one that [`new`] made for this `T`.
#[inline]
unsafe fn called<T: Context>(
    this: *mut ffi::PyObject,
    count: usize,
    first: impl FnOnce() -> *mut ffi::PyObject,
    has_no_names: bool,
) -> *mut ffi::PyObject {
    // SAFETY: the GIL must be held: the caller promises it.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: it must be an `Object` of this type, which lives meanwhile: the caller promises it,
    // and has a reference to it.
    let context = unsafe { &(*this.cast::<Object<T>>()).context };
    answer(py, || match count {
        _ if !has_no_names => Err(refused()),
        0 => context.enter(py).map(Bound::into_ptr),
        1..=3 => {
            // SAFETY: it has no requirement.
            let has_raised = first() != unsafe { ffi::Py_None() };
            context.exit(py, has_raised).map(|()| py.None().into_ptr())
        }
        _ => Err(refused()),
    })
}

#[cold]
fn refused() -> PyErr {
    PyTypeError::new_err("__enter__ takes no arguments, and __exit__ takes three without names")
}

unsafe extern "C" fn drop_object<T: Context>(this: *mut ffi::PyObject) {
    // SAFETY: it must be an object, which it is until it is freed below.
    let class = unsafe { ffi::Py_TYPE(this) };
    let object = this.cast::<Object<T>>();
    // SAFETY: it must be an `Object` of this type, which nobody uses: G2, and CPython calls this
    // when the last reference has gone.
    let context = unsafe { &raw mut (*object).context };
    // A panic of it cannot be told to anybody.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: it must be dropped only once: its memory is freed next.
        unsafe { ptr::drop_in_place(context) }
    }));
    // SAFETY: `new` got the memory from `allocate`, and its object is dropped.
    unsafe { T::made().free(this.cast()) };
    // SAFETY: the reference must be the caller's: the object had it.
    unsafe { ffi::Py_DECREF(class.cast()) };
}

/// A descriptor that returns the object itself, of which it is an attribute.
#[repr(C)]
struct ToItself {
    object: ffi::PyObject,
    /// Of the class that has the descriptor, and lives as long as the process.
    class: *mut ffi::PyTypeObject,
    /// For `help`.
    name: *const c_char,
}

impl ToItself {
    fn of<'py>(class: &Bound<'py, PyType>, name: &'static CStr) -> PyResult<Bound<'py, PyAny>> {
        let py = class.py();
        let descriptors = Self::class(py)?;
        let bytes = size_of::<Self>();
        // SAFETY: it has no requirement.
        let memory = unsafe { ffi::PyObject_Malloc(bytes) }.cast::<Self>();
        if memory.is_null() {
            return Err(PyMemoryError::new_err(()));
        }
        let class = class.as_type_ptr();
        let object = Self { object: ffi::PyObject_HEAD_INIT, class, name: name.as_ptr() };
        // SAFETY: the memory must have room for it, which was allocated with this size.
        unsafe { memory.write(object) };
        // SAFETY: the object must be of the size that the class says, as `class` made it.
        unsafe { ffi::PyObject_Init(memory.cast(), descriptors.as_type_ptr()) };
        // SAFETY: the reference must be the caller's: it is the first one.
        Ok(unsafe { Bound::from_owned_ptr(py, memory.cast()) })
    }

    fn class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
        static CLASS: FirstUse<Py<PyType>> = FirstUse::new();
        let make = || {
            let name = ffi::PyMemberDef {
                name: c"__name__".as_ptr(),
                type_code: ffi::Py_T_STRING,
                offset: offset_of!(Self, name) as isize,
                flags: ffi::Py_READONLY,
                doc: ptr::null(),
            };
            let flags = ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION;
            let members = [name, ffi::PyMemberDef::default()];
            let slots = [
                slot(ffi::Py_tp_descr_get, Self::get as *mut c_void),
                slot(ffi::Py_tp_call, Self::call as *mut c_void),
                slot(ffi::Py_tp_members, members.as_ptr().cast_mut().cast()),
                ffi::PyType_Slot::default(),
            ];
            let name = c"shmarray._core.method";
            class_of(py, name, size_of::<Self>(), flags, slots).map(Bound::unbind)
        };
        CLASS.get_or_try_make(py, make).map(|class| class.bind(py))
    }

    unsafe extern "C" fn get(
        this: *mut ffi::PyObject,
        object: *mut ffi::PyObject,
        _class: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        let got = if object.is_null() { this } else { object };
        // SAFETY: it must be an object: CPython has a reference to both.
        unsafe { ffi::Py_INCREF(got) };
        got
    }

    /// Calls the context manager that comes first, with what comes after it.
    unsafe extern "C" fn call(
        this: *mut ffi::PyObject,
        arguments: *mut ffi::PyObject,
        names: *mut ffi::PyObject,
    ) -> *mut ffi::PyObject {
        // SAFETY: the GIL must be held: G1.
        let py = unsafe { Python::assume_attached() };
        // SAFETY: it must be an object of this class: G2.
        let class = unsafe { (*this.cast::<Self>()).class };
        answer(py, || {
            // SAFETY: it must be an object, which CPython passes here.
            let arguments = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, arguments) };
            let arguments = arguments.cast_into::<PyTuple>()?;
            let context = arguments.get_item(0).ok();
            let context = context.filter(|first| first.get_type().as_type_ptr() == class);
            let context = context.ok_or_else(|| {
                PyTypeError::new_err("its first argument is not the context manager")
            })?;
            let rest = arguments.get_slice(1, arguments.len());
            // SAFETY: they must be objects, and a `dict` or null: CPython passed the last here.
            let got = unsafe { ffi::PyObject_Call(context.as_ptr(), rest.as_ptr(), names) };
            // SAFETY: the reference must be the caller's or null, as it is of a result.
            unsafe { Bound::from_owned_ptr_or_err(py, got) }.map(Bound::into_ptr)
        })
    }
}
