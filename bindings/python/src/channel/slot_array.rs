//! The ndarrays of a channel's slots.
//!
//! The ndarray of a message is a view of another, *whole*, of the same elements. NumPy lets every
//! view that a program takes of it refer to *whole* in its place. So the references to *whole* tell
//! whether there are views, and the end of *whole* is the end of the last. When its message has
//! ended, the ndarray is empty; if nothing refers to it then, it shows a later message in that
//! slot.
#![allow(unsafe_code)] // the fields of an ndarray

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::dtypes;
use crate::first_use::FirstUse;
use crate::segment_memory;

use super::direct::{Counted, WithGil, told_pyo3};

/// The fields of an ndarray, which NumPy's macros access where they lie: they are part of its ABI.
///
/// Source: NumPy, `PyArrayObject_fields` in `ndarraytypes.h`.
#[repr(C)]
struct Fields {
    object: ffi::PyObject,
    data: *mut c_char,
    dimensions: c_int,
    shape: *mut isize,
    strides: *mut isize,
    base: *mut ffi::PyObject,
    descr: *mut c_void,
    flags: c_int,
}

const WRITEABLE: c_int = 0x400;

impl Fields {
    /// Returns the number of elements along each dimension.
    fn shape(&mut self) -> &mut [isize] {
        if self.dimensions <= 0 {
            return &mut [];
        }
        // SAFETY: there must be so many numbers, and nobody else may use them meanwhile. NumPy has
        // one for each dimension, and uses them with the GIL, or has copied them before it releases
        // it.
        unsafe { std::slice::from_raw_parts_mut(self.shape, self.dimensions as usize) }
    }

    /// Returns the bytes from one element to the next along each dimension.
    fn strides(&self) -> &[isize] {
        if self.dimensions <= 0 {
            return &[];
        }
        // SAFETY: there must be so many numbers, and nobody may change them meanwhile: as in
        // `shape`.
        unsafe { std::slice::from_raw_parts(self.strides, self.dimensions as usize) }
    }
}

/// Returns the fields of an ndarray of this module, which is no subclass.
#[allow(clippy::mut_from_ref, reason = "NumPy changes them behind a shared reference, too")]
fn fields_of<'a>(array: &'a Bound<'_, PyAny>) -> &'a mut Fields {
    // SAFETY: the fields must be there, and nobody else may use them meanwhile. The callers pass
    // ndarrays as `SlotArrays::view` made them, and no two references to one; NumPy uses the fields
    // with the GIL, which a `Bound` stands for, or has copied them before it releases it.
    unsafe { &mut *array.as_ptr().cast::<Fields>() }
}

/// The ndarrays of this process that will be emptied.
static BORROWED: AtomicUsize = AtomicUsize::new(0);

/// Returns whether this process has an array that is valid in its `with` or loop alone. What it
/// passes on to be pickled later may have it, too.
#[pyfunction]
pub(crate) fn has_borrowed() -> bool {
    BORROWED.load(Relaxed) != 0
}

/// One of [`BORROWED`].
struct Borrowed;

// It is made and dropped with the GIL, so one thread at a time changes the number.
impl Borrowed {
    fn new() -> Self {
        BORROWED.store(BORROWED.load(Relaxed) + 1, Relaxed);
        Self
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        BORROWED.store(BORROWED.load(Relaxed) - 1, Relaxed);
    }
}

/// The ndarray of a message or of a loan. It is dropped with the GIL.
pub(super) struct SlotArray {
    array: Counted<PyAny>,
    whole: Counted<PyAny>,
    /// In which the elements lie, if they lie in one.
    pub(super) slot: Option<u32>,
    _borrowed: Borrowed,
}

impl SlotArray {
    fn new(array: Bound<'_, PyAny>, whole: Bound<'_, PyAny>, slot: Option<u32>) -> Self {
        let (array, whole) = (Counted::new(array), Counted::new(whole));
        Self { array, whole, slot, _borrowed: Borrowed::new() }
    }

    pub(super) fn ndarray<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.array.bind(py).clone()
    }

    /// Makes the ndarray empty along each dimension, and read-only: what it showed will be another
    /// message's. One without dimensions only becomes read-only. It refers to the mapping from then
    /// on, in place of *whole*, whose references are then those of views.
    pub(super) fn empty(&self, py: Python<'_>) {
        let whole = self.whole.bind(py);
        let mapping = fields_of(whole).base;
        let fields = fields_of(self.array.bind(py));
        // Not `fill`, which calls a function for the usual one or two.
        for length in fields.shape() {
            *length = 0;
        }
        fields.flags &= !WRITEABLE;
        if fields.base == whole.as_ptr() {
            // SAFETY: it must be null or an object that lives. The base of `whole` lives with it.
            let mapping = unsafe { Bound::from_borrowed_ptr_or_opt(py, mapping) };
            fields.base = mapping.map_or(std::ptr::null_mut(), Bound::into_ptr);
            // SAFETY: the reference must be the caller's: it was the ndarray's, which has another
            // base now.
            drop(unsafe { Bound::<PyAny>::from_owned_ptr(py, whole.as_ptr()) });
        }
    }

    /// Returns whether the program has views of the ndarray, which was emptied. `arrays` are those
    /// that it came from.
    pub(super) fn has_views(&self, py: Python<'_>, arrays: &SlotArrays) -> bool {
        let is_cached = self.slot.is_some_and(|slot| arrays.has(py, slot)); // it has *whole*, too
        // SAFETY: the object lives, since `self` has a reference to it.
        let references = unsafe { ffi::Py_REFCNT(self.whole.bind(py).as_ptr()) };
        references > 1 + ffi::Py_ssize_t::from(is_cached) // the 1 is `self`'s
    }

    /// Lets the ndarray and its views keep the slot of a delivery or a loan.
    pub(super) fn keep(self, py: Python<'_>, kept: Kept) -> PyResult<()> {
        static FINALIZE: FirstUse<Py<PyAny>> = FirstUse::new();
        let import = || Ok(py.import("weakref")?.getattr("finalize")?.unbind());
        let finalize = FINALIZE.get_or_try_make(py, import)?.bind(py);
        let kept = KeptSlot(Mutex::new(Some(kept)));
        let registered = finalize.call1((self.whole.bind(py), Bound::new(py, kept)?))?;
        registered.setattr("atexit", false) // arrays that live at the exit keep it to the end
    }
}

/// What has a slot that ndarrays keep. It gives the slot back when it is dropped.
#[allow(dead_code, reason = "they are only dropped")]
pub(super) enum Kept {
    Delivery(shmarray::Delivery),
    Loan(shmarray::Loan),
}

/// A slot whose arrays keep it. It is called when the last of them has gone.
#[pyclass(frozen, module = "shmarray._core")]
struct KeptSlot(Mutex<Option<Kept>>);

#[pymethods]
impl KeptSlot {
    fn __call__(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// *Whole* of each slot and ndarrays of its messages, where all have one shape: to make them takes
/// longer than the rest of a message.
pub(super) struct SlotArrays {
    made: WithGil<Vec<MadeForSlot>>,
}

#[derive(Default)]
struct MadeForSlot {
    whole: Option<Counted<PyAny>>,
    /// Two, because a program's variable still has the one of the last message when it gets that of
    /// the next.
    of_messages: [Option<OfMessages>; 2],
}

/// An ndarray of one message after the other. It is used again when nothing else refers to it.
struct OfMessages {
    array: Counted<PyAny>,
    /// Those of a new view.
    flags: c_int,
}

impl OfMessages {
    /// Shows the elements of *whole* again. `false` if something refers to the ndarray, or the
    /// program has changed more of it than [`SlotArray::empty`] does.
    fn show_again(&self, whole: &Bound<'_, PyAny>) -> bool {
        let array = self.array.bind(whole.py());
        // SAFETY: the object lives, since `self` has a reference to it.
        if unsafe { ffi::Py_REFCNT(array.as_ptr()) } != 1 {
            return false;
        }
        let (fields, whole_fields) = (fields_of(array), fields_of(whole));
        if fields.dimensions != whole_fields.dimensions
            || fields.data != whole_fields.data
            || fields.descr != whole_fields.descr
            || !fields.strides().iter().eq(whole_fields.strides())
            || fields.base == whole.as_ptr()
            || fields.base.is_null()
        {
            return false;
        }
        for (shown, length) in fields.shape().iter_mut().zip(whole_fields.shape()) {
            *shown = *length;
        }
        fields.flags = self.flags;
        let mapping = std::mem::replace(&mut fields.base, whole.clone().into_ptr());
        // SAFETY: the reference must be the caller's: it was the ndarray's. It is not the last one,
        // which *whole* has.
        drop(unsafe { Bound::<PyAny>::from_owned_ptr(whole.py(), mapping) });
        true
    }
}

fn view_of<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static VIEW: FirstUse<Py<PyAny>> = FirstUse::new();
    let py = array.py();
    let method = || py.import("numpy")?.getattr("ndarray")?.getattr("view").map(Bound::unbind);
    // To look the method up in each ndarray takes longer.
    VIEW.get_or_try_make(py, method)?.bind(py).call1((array,))
}

impl SlotArrays {
    pub(super) fn of(channel: &shmarray::Channel) -> Self {
        let slots = if channel.varies() || channel.has_handles() { 0 } else { channel.slots() };
        Self { made: WithGil::new((0..slots).map(|_| MadeForSlot::default()).collect()) }
    }

    /// Returns an ndarray of a message's elements, for the time that the message is held. `slot` is
    /// where they lie, if they lie in one.
    #[inline]
    pub(super) fn view(
        &self,
        py: Python<'_>,
        slot: Option<u32>,
        array: &shmarray::Array,
    ) -> PyResult<SlotArray> {
        match slot.and_then(|slot| self.show_again(py, slot)) {
            Some(again) => Ok(again),
            None => told_pyo3(|| self.new_view(py, slot, array)),
        }
    }

    /// Returns an ndarray of an earlier message of the slot that nothing refers to, which shows the
    /// elements again.
    fn show_again(&self, py: Python<'_>, slot: u32) -> Option<SlotArray> {
        let made = self.made.borrow(py);
        let made = made.get(slot as usize)?;
        let whole = made.whole.as_ref()?.bind(py);
        let again = made.of_messages.iter().flatten().find(|kept| kept.show_again(whole))?;
        Some(SlotArray::new(again.array.bind(py).clone(), whole.clone(), Some(slot)))
    }

    fn new_view(
        &self,
        py: Python<'_>,
        slot: Option<u32>,
        array: &shmarray::Array,
    ) -> PyResult<SlotArray> {
        let whole = match slot.and_then(|slot| self.get(py, slot)) {
            Some(earlier) => earlier,
            None => {
                let dtype = dtypes::to_numpy(py, array.dtype())?;
                let made = segment_memory::to_ndarray(&dtype, array.without_slot())?;
                if let Some(slot) = slot {
                    self.set(slot, &made);
                }
                made
            }
        };
        let new = view_of(&whole)?;
        if let Some(slot) = slot {
            self.keep_for_messages(slot, &new);
        }
        Ok(SlotArray::new(new, whole, slot))
    }

    fn get<'py>(&self, py: Python<'py>, slot: u32) -> Option<Bound<'py, PyAny>> {
        let made = self.made.borrow(py);
        made.get(slot as usize)?.whole.as_ref().map(|whole| whole.bind(py).clone())
    }

    fn set(&self, slot: u32, whole: &Bound<'_, PyAny>) {
        let mut made = self.made.borrow(whole.py());
        let whole = Some(Counted::new(whole.clone()));
        let new = MadeForSlot { whole, ..MadeForSlot::default() };
        let before = made.get_mut(slot as usize).map(|made| std::mem::replace(made, new));
        drop(made);
        drop(before);
    }

    /// Keeps a new ndarray for later messages of the slot, in place of the one that was kept first.
    fn keep_for_messages(&self, slot: u32, array: &Bound<'_, PyAny>) {
        let flags = fields_of(array).flags;
        let kept = OfMessages { array: Counted::new(array.clone()), flags };
        let mut made = self.made.borrow(array.py());
        let given_up = made.get_mut(slot as usize).and_then(|made| {
            made.of_messages.swap(0, 1);
            made.of_messages[1].replace(kept)
        });
        drop(made);
        drop(given_up);
    }

    /// Returns whether it has the ndarray of this slot.
    fn has(&self, py: Python<'_>, slot: u32) -> bool {
        self.made.borrow(py).get(slot as usize).is_some_and(|made| made.whole.is_some())
    }

    /// Gives one up: the next message in that slot has another.
    pub(super) fn forget(&self, py: Python<'_>, slot: u32) {
        let mut made = self.made.borrow(py);
        let given_up = made.get_mut(slot as usize).map(std::mem::take);
        drop(made);
        drop(given_up);
    }

    /// Gives all up, and with them the mapping.
    pub(super) fn clear(&self, py: Python<'_>) {
        let given_up = std::mem::take(&mut *self.made.borrow(py));
        drop(given_up);
    }
}
