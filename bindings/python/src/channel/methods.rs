//! The methods of a channel that a message takes: `loan`, `receive`, `receive_message`, `poll`.
//!
//! CPython calls a method of C straight from its loop if the object is exactly of the class that
//! the method was made for. `shmarray.Channel` is a class of Python's, so [`give_methods`] makes
//! methods for it, too.
//!
//! G1 and G2 are those of [`direct`](super::direct).
#![allow(unsafe_code)] // methods by Python's C API

use std::cell::RefCell;
use std::ffi::CStr;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTuple, PyType};

use super::direct::{Counted, answer, told_pyo3};
use super::{ArrayContext, Channel, DeliveryContext, Loan, check_meta, context, shape_of};
use crate::error::to_py;
use crate::wait::wait_in_steps;

/// A method with `N` parameters.
struct Method<const N: usize> {
    name: &'static CStr,
    /// With the signature, which CPython takes off.
    doc: &'static CStr,
    parameters: [&'static str; N],
    /// How many of them need no name.
    positional: usize,
    run: for<'py> fn(Bound<'py, Channel>, Given<'py, N>) -> Returned<'py>,
}

/// The argument of each parameter.
type Given<'py, const N: usize> = [Option<Bound<'py, PyAny>>; N];
type Returned<'py> = PyResult<Bound<'py, PyAny>>;

const LOAN: Method<3> = Method {
    name: c"loan",
    doc: c"loan($self, timeout=None, *, shape=None, meta=None)\n--\n\n\
        Returns a context manager: the array of a free slot, published at the end.",
    parameters: ["timeout", "shape", "meta"],
    positional: 1,
    run: loan,
};

const RECEIVE: Method<1> = Method {
    name: c"receive",
    doc: c"receive($self, timeout=None)\n--\n\n\
        Returns a context manager: the array of the next message, in its slot.",
    parameters: ["timeout"],
    positional: 1,
    run: receive,
};

const RECEIVE_MESSAGE: Method<1> = Method {
    name: c"receive_message",
    doc: c"receive_message($self, timeout=None)\n--\n\n\
        Returns a context manager: the next message.",
    parameters: ["timeout"],
    positional: 1,
    run: receive_message,
};

const POLL: Method<1> = Method {
    name: c"poll",
    doc: c"poll($self, timeout=0.0)\n--\n\n\
        Returns whether a receive would not wait, and waits for that at most so many seconds.",
    parameters: ["timeout"],
    positional: 1,
    run: poll,
};

fn loan<'py>(channel: Bound<'py, Channel>, [timeout, shape, meta]: Given<'py, 3>) -> Returned<'py> {
    let py = channel.py();
    let timeout = seconds(timeout)?;
    let shape = shape.map_or(Ok(None), |shape| shape_of(shape.extract()?))?;
    let meta = meta.map_or(Ok(None), |meta| meta.extract::<Option<Vec<u8>>>())?.unwrap_or_default();
    check_meta(&meta)?;
    let channel = Counted::new(channel);
    context::new(py, Loan { channel, shape, timeout, meta, lent: RefCell::new(None) })
}

fn receive<'py>(channel: Bound<'py, Channel>, [timeout]: Given<'py, 1>) -> Returned<'py> {
    let py = channel.py();
    let timeout = seconds(timeout)?;
    let channel = Counted::new(channel);
    context::new(py, ArrayContext { channel, timeout, held: RefCell::new(None) })
}

fn receive_message<'py>(channel: Bound<'py, Channel>, [timeout]: Given<'py, 1>) -> Returned<'py> {
    let py = channel.py();
    let timeout = seconds(timeout)?;
    let channel = Counted::new(channel);
    context::new(py, DeliveryContext { channel, timeout, delivery: RefCell::new(None) })
}

fn poll<'py>(channel: Bound<'py, Channel>, [timeout]: Given<'py, 1>) -> Returned<'py> {
    let py = channel.py();
    let is_ready = match timeout {
        None => channel.get().channel.is_ready().map_err(to_py)?,
        Some(timeout) => poll_for(&channel, timeout.extract()?)?,
    };
    Ok(PyBool::new(py, is_ready).to_owned().into_any())
}

fn poll_for(channel: &Bound<'_, Channel>, timeout: Option<f64>) -> PyResult<bool> {
    let core = &channel.get().channel;
    if timeout == Some(0.0) {
        return core.is_ready().map_err(to_py);
    }
    let attempt = |left| core.wait_until_ready(left);
    told_pyo3(|| wait_in_steps(channel.py(), timeout, |is_ready| !is_ready, attempt))
}

fn seconds(timeout: Option<Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    timeout.map_or(Ok(None), |timeout| timeout.extract())
}

/// The arguments of a call, as CPython passes them.
struct Arguments {
    /// Those without a name, and then the named ones.
    values: *const *mut ffi::PyObject,
    without_name: usize,
    names: *mut ffi::PyObject,
}

impl Arguments {
    /// Returns the argument of each parameter.
    #[inline]
    fn of<'py, const N: usize>(
        &self,
        py: Python<'py>,
        method: &Method<N>,
    ) -> PyResult<Given<'py, N>> {
        if self.without_name == 0 && self.names.is_null() {
            return Ok([const { None }; N]);
        }
        told_pyo3(|| self.some_of(py, method))
    }

    fn some_of<'py, const N: usize>(
        &self,
        py: Python<'py>,
        method: &Method<N>,
    ) -> PyResult<Given<'py, N>> {
        let refused =
            |why: String| PyTypeError::new_err(format!("Channel.{}() {why}", method.name()));
        if self.without_name > method.positional {
            return Err(refused(format!(
                "takes at most {} arguments without a name, but {} were given",
                method.positional, self.without_name,
            )));
        }
        // SAFETY: it must be an object or null: CPython passes the names, or null.
        let names = unsafe { Bound::<PyAny>::from_borrowed_ptr_or_opt(py, self.names) };
        let names = names.map(Bound::cast_into::<PyTuple>).transpose()?;
        let count = self.without_name + names.as_ref().map_or(0, |names| names.len());
        let mut found = [const { None }; N];
        if count == 0 {
            return Ok(found);
        }
        // SAFETY: there must be as many arguments, which live and do not change meanwhile: CPython
        // passes them.
        let values = unsafe { std::slice::from_raw_parts(self.values, count) };
        // SAFETY: it must be an object, which each of the arguments is.
        let value = |index: usize| unsafe { Bound::from_borrowed_ptr(py, values[index]) };
        for (index, found) in found.iter_mut().enumerate().take(self.without_name) {
            *found = Some(value(index));
        }
        for (index, name) in names.iter().flatten().enumerate() {
            let name = name.cast::<PyString>()?.to_str()?;
            let parameter = method.parameters.iter().position(|parameter| *parameter == name);
            let parameter = parameter
                .ok_or_else(|| refused(format!("got an unexpected keyword argument '{name}'")))?;
            if found[parameter].is_some() {
                return Err(refused(format!("got multiple values for argument '{name}'")));
            }
            found[parameter] = Some(value(self.without_name + index));
        }
        Ok(found)
    }
}

impl<const N: usize> Method<N> {
    fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    /// # Safety
    /// CPython calls it: G1 and G2, of the class [`Channel`].
    #[inline]
    unsafe fn call(&self, this: *mut ffi::PyObject, arguments: &Arguments) -> *mut ffi::PyObject {
        // SAFETY: the GIL must be held: G1.
        let py = unsafe { Python::assume_attached() };
        answer(py, || {
            // SAFETY: it must be an object: G2.
            let channel = unsafe { Bound::<PyAny>::from_borrowed_ptr(py, this) };
            // SAFETY: it must be a `Channel`: G2.
            let channel = unsafe { channel.cast_into_unchecked::<Channel>() };
            (self.run)(channel, arguments.of(py, self)?).map(Bound::into_ptr)
        })
    }

    /// Gives a class this method. `call` is a function that calls it.
    fn give_to(
        &self,
        class: &Bound<'_, PyType>,
        call: ffi::PyCFunctionFastWithKeywords,
    ) -> PyResult<()> {
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: self.name.as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: call },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: self.doc.as_ptr(),
        }));
        // SAFETY: the definition must live as long as the method, which it does: it is leaked.
        let method = unsafe { ffi::PyDescr_NewMethod(class.as_type_ptr(), definition) };
        // SAFETY: the reference must be the caller's or null, for an error.
        let method = unsafe { Bound::<PyAny>::from_owned_ptr_or_err(class.py(), method) }?;
        class.setattr(self.name(), method)
    }
}

/// The function that CPython calls for a method.
macro_rules! function {
    ($method:ident) => {{
        unsafe extern "C" fn call(
            this: *mut ffi::PyObject,
            values: *const *mut ffi::PyObject,
            without_name: isize,
            names: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject {
            let arguments = Arguments { values, without_name: without_name as usize, names };
            // SAFETY: CPython must call it, with a `Channel`: `give_methods` gave it to such a
            // class.
            unsafe { $method.call(this, &arguments) }
        }
        call
    }};
}

/// Gives a class of channels its own methods of messages: those that it inherits are slower.
#[pyfunction]
pub(crate) fn give_methods(class_: &Bound<'_, PyType>) -> PyResult<()> {
    if !class_.is_subclass_of::<Channel>()? {
        return Err(PyTypeError::new_err("it is no class of channels"));
    }
    LOAN.give_to(class_, function!(LOAN))?;
    RECEIVE.give_to(class_, function!(RECEIVE))?;
    RECEIVE_MESSAGE.give_to(class_, function!(RECEIVE_MESSAGE))?;
    POLL.give_to(class_, function!(POLL))
}
