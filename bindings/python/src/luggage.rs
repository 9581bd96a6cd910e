//! The messages that each thread is pickling now, which may be nested, and the descriptors that go with each.

use std::cell::RefCell;

use pyo3::prelude::*;

thread_local! {
    /// The innermost message is last.
    static LEAVING: RefCell<Vec<Option<Py<PyAny>>>> = const { RefCell::new(Vec::new()) };
}

/// Has a function pickle an object for a message of this thread: what it returns, and the luggage, if there is any.
#[pyfunction]
#[pyo3(signature = (pack, object, pickler, /))]
pub(crate) fn pack_message<'py>(
    pack: &Bound<'py, PyAny>,
    object: &Bound<'py, PyAny>,
    pickler: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Option<Py<PyAny>>)> {
    LEAVING.with_borrow_mut(|leaving| leaving.push(None));
    let packed = pack.call1((object, pickler));
    let luggage = LEAVING.with_borrow_mut(Vec::pop).flatten();
    Ok((packed?, luggage))
}

/// Whether this thread is pickling a message.
#[pyfunction]
pub(crate) fn is_in_message() -> bool {
    LEAVING.with_borrow(|leaving| !leaving.is_empty())
}

/// The luggage of the message that this thread is pickling, made by `make` if there was none; `None` outside a message.
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
