//! The messages that each thread is pickling, one within another, and what each has beside its bytes.

use std::cell::RefCell;

use pyo3::prelude::*;

thread_local! {
    static LEAVING: RefCell<Vec<Option<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// This thread begins a message.
#[pyfunction]
pub(crate) fn begin_message() {
    LEAVING.with_borrow_mut(|leaving| leaving.push(None));
}

/// This thread ends the message that it began last: what that has beside its bytes, if there is any.
#[pyfunction]
pub(crate) fn end_message() -> Option<Py<PyAny>> {
    LEAVING.with_borrow_mut(Vec::pop).flatten()
}

/// Whether this thread is pickling a message.
#[pyfunction]
pub(crate) fn is_in_message() -> bool {
    LEAVING.with_borrow(|leaving| !leaving.is_empty())
}

/// What the message has beside its bytes that this thread is pickling, made now if it had nothing; `None` when this
/// thread is pickling none.
#[pyfunction]
#[pyo3(signature = (make, /))]
pub(crate) fn luggage(make: &Bound<'_, PyAny>) -> PyResult<Option<Py<PyAny>>> {
    let py = make.py();
    let Some(found) =
        LEAVING.with_borrow(|leaving| leaving.last().map(|luggage| luggage.as_ref().map(|one| one.clone_ref(py))))
    else {
        return Ok(None);
    };
    if found.is_some() {
        return Ok(found);
    }
    let made = make.call0()?.unbind();
    LEAVING.with_borrow_mut(|leaving| {
        if let Some(last) = leaving.last_mut() {
            *last = Some(made.clone_ref(py));
        }
    });
    Ok(Some(made))
}
