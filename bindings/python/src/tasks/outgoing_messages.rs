//! The messages that each thread is pickling now, which may be nested, and the fds that go with
//! each.

use std::cell::RefCell;

use pyo3::prelude::*;

/// A message that a thread is pickling.
struct Leaving {
    /// The address of the object that names it.
    name: usize,
    outgoing_fds: Option<Py<PyAny>>,
}

thread_local! {
    /// The innermost message is last.
    static LEAVING: RefCell<Vec<Leaving>> = const { RefCell::new(Vec::new()) };
}

/// Begins a message of this thread. The object names it until it ends.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn begin_message(name: &Bound<'_, PyAny>) {
    LEAVING.with_borrow_mut(|leaving| {
        leaving.push(Leaving { name: name.as_ptr().addr(), outgoing_fds: None })
    });
}

/// Ends that message, if it has begun: a signal may have come before. Returns its outgoing fds, or
/// `None`.
#[pyfunction]
#[pyo3(signature = (name, /))]
pub(crate) fn end_message(name: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
    let ended = LEAVING.with_borrow_mut(|leaving| {
        let at = leaving.iter().rposition(|message| message.name == name.as_ptr().addr())?;
        Some(leaving.split_off(at))
    });
    ended?.swap_remove(0).outgoing_fds
}

/// Returns whether this thread is pickling a message.
#[pyfunction]
pub(crate) fn is_in_message() -> bool {
    LEAVING.with_borrow(|leaving| !leaving.is_empty())
}

/// Returns the outgoing fds of the message that this thread is pickling, made by `make` if there
/// were none. Returns `None` outside a message.
#[pyfunction]
#[pyo3(signature = (make, /))]
pub(crate) fn outgoing_fds(make: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let py = make.py();
    let fds_of = |message: &Leaving| {
        message.outgoing_fds.as_ref().map(|outgoing_fds| outgoing_fds.clone_ref(py))
    };
    let Some(found) = LEAVING.with_borrow(|leaving| leaving.last().map(fds_of)) else {
        return Ok(None);
    };
    if found.is_some() {
        return Ok(found);
    }
    let made = make.call0()?.unbind();
    LEAVING.with_borrow_mut(|leaving| {
        if let Some(message) = leaving.last_mut() {
            message.outgoing_fds = Some(made.clone_ref(py));
        }
    });
    Ok(Some(made))
}
