//! What CPython calls as it calls C, where pyo3's way there takes longer than the work.
//!
//! * G1 CPython calls with the GIL.
//! * G2 It calls with an object of the class that the function was given to, or of a subclass.
//!
//! pyo3 is not told of the call: it counts the calls that have the GIL, which takes time. Only
//! what [`told_pyo3`] runs needs the count.
#![allow(unsafe_code)] // Python's C API

use std::cell::{RefCell, RefMut};
use std::ffi::{CStr, c_int, c_uint, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// Returns a result to CPython. No panic passes through its frames.
#[inline]
pub(super) fn answer(
    py: Python<'_>,
    run: impl FnOnce() -> PyResult<*mut ffi::PyObject>,
) -> *mut ffi::PyObject {
    let error = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(object)) => return object,
        Ok(Err(error)) => error,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied());
            PanicException::new_err(text.unwrap_or("a panic of Rust").to_owned())
        }
    };
    error.restore(py);
    ptr::null_mut()
}

pub(super) fn slot(number: c_int, value: *mut c_void) -> ffi::PyType_Slot {
    ffi::PyType_Slot { slot: number, pfunc: value }
}

/// Makes a class.
pub(super) fn class_of<'py, const N: usize>(
    py: Python<'py>,
    name: &'static CStr,
    bytes: usize,
    flags: c_ulong,
    mut slots: [ffi::PyType_Slot; N],
) -> PyResult<Bound<'py, PyType>> {
    let mut spec = ffi::PyType_Spec {
        name: name.as_ptr(),
        basicsize: bytes as c_int,
        itemsize: 0,
        flags: flags as c_uint,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the name must live as long as the class, which it does: it is static. The slots must
    // be as CPython expects those of their numbers, and end with an empty one: the callers make
    // them so. CPython copies them, the members and the text.
    let class = unsafe { ffi::PyType_FromSpec(&raw mut spec) };
    // SAFETY: the reference must be the caller's or null: a new class, or null for an error.
    let class = unsafe { Bound::<PyAny>::from_owned_ptr_or_err(py, class) }?;
    Ok(class.cast_into::<PyType>()?)
}

/// Runs what may come back to pyo3 without a [`Python`]: what waits, and errors.
#[cold]
pub(super) fn told_pyo3<R>(run: impl FnOnce() -> R) -> R {
    let mut run = Some(run);
    let ran = Python::try_attach(|_| run.take().map(|run| run()));
    match (ran.flatten(), run) {
        (Some(ran), _) => ran,
        (None, Some(run)) => run(), // the interpreter ends
        (None, None) => unreachable!("it was run"),
    }
}

/// A reference to an object, which is dropped with the GIL alone.
///
/// A `Py` that is dropped looks whether pyo3 knows of the GIL, and otherwise keeps the object until
/// pyo3 is called the next time.
pub(super) struct Counted<T>(ManuallyDrop<Py<T>>);

impl<T> Counted<T> {
    /// What has it must be dropped with the GIL: it is part of a Python object, or of what only
    /// lives in a call.
    pub(super) fn new(object: Bound<'_, T>) -> Self {
        Self(ManuallyDrop::new(object.unbind()))
    }

    pub(super) fn bind<'py>(&self, py: Python<'py>) -> &Bound<'py, T> {
        self.0.bind(py)
    }
}

impl<T: pyo3::PyClass<Frozen = pyo3::pyclass::boolean_struct::True> + Sync> Counted<T> {
    pub(super) fn get(&self) -> &T {
        self.0.get()
    }
}

impl<T> Drop for Counted<T> {
    fn drop(&mut self) {
        // SAFETY: the reference must be the caller's, and the GIL held: `new` asks for that, and
        // this reference is not used again.
        unsafe { ffi::Py_DECREF(self.0.as_ptr()) };
    }
}

/// A value that is read and written with the GIL alone. No Python code runs meanwhile.
pub(super) struct WithGil<T>(RefCell<T>);

// SAFETY: no two threads may use the `RefCell` at the same time. `borrow` needs the GIL, which
// the module is declared to use; a thread that had borrowed it and lost the GIL makes the next one
// panic.
unsafe impl<T: Send> Sync for WithGil<T> {}

impl<T> WithGil<T> {
    pub(super) fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    pub(super) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    #[inline]
    pub(super) fn borrow(&self, _py: Python<'_>) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }
}
