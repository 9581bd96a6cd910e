//! The memory that one message is offered, and what it takes of it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::{PyException, PyIndexError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyDict, PyList, PyMemoryView, PyType, PyWeakrefReference};
use shmarray::allocator::{self, Offer};

use super::numpy::was_sent;
use crate::error::to_py;
use crate::first_use::{FirstUse, interned};
use crate::memory::{Facts, LARGE_BYTES, ndarray};
use crate::segment_memory::SegmentMemory;

/// Why memory that was allocated here is copied and not moved.
#[derive(Clone, Copy)]
enum Reason {
    /// Something in this process still refers to it, or a fork has frozen it.
    Held,
    /// Dropping the object may run code of the program.
    Finalizer,
    /// The array has gaps, or elements that overlap.
    Gaps,
    /// The elements are not aligned.
    Alignment,
    /// Another array of the message has some of the same elements.
    Shared,
    /// The message needs less than half of it.
    Part,
}

const REASONS: [(Reason, &str); 6] = [
    (Reason::Held, "held"),
    (Reason::Finalizer, "finalizer"),
    (Reason::Gaps, "gaps"),
    (Reason::Alignment, "alignment"),
    (Reason::Shared, "shared"),
    (Reason::Part, "part"),
];

/// How many times each reason held.
static COPIED: [AtomicU64; REASONS.len()] = [const { AtomicU64::new(0) }; REASONS.len()];

fn count(reason: Reason) {
    COPIED[reason as usize].fetch_add(1, Ordering::Relaxed);
}

/// Returns how many times memory was copied for each reason.
pub(super) fn copied(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let copied = PyDict::new(py);
    for (reason, name) in REASONS {
        copied.set_item(name, COPIED[reason as usize].load(Ordering::Relaxed))?;
    }
    Ok(copied)
}

/// An allocation that is offered, and the arrays of the message in it.
struct Part {
    offer: Offer,
    /// The byte behind an array, by its first byte.
    ends: BTreeMap<usize, usize>,
}

impl Part {
    fn has(&self, low: usize, high: usize) -> bool {
        let start = self.offer.start();
        start <= low && high <= start + self.offer.bytes()
    }

    /// Adds an array's bytes. Returns `false` if another array has some of them.
    fn add(&mut self, low: usize, high: usize) -> bool {
        let before = self.ends.range(..high).next_back();
        let is_free = before.is_none_or(|(_, end)| *end <= low);
        if is_free {
            self.ends.insert(low, high);
        }
        is_free
    }

    /// Returns how many bytes from its start the message needs.
    fn used(&self) -> usize {
        self.ends.last_key_value().map_or(0, |(_, end)| end - self.offer.start())
    }

    fn is_mostly_used(&self) -> bool {
        let used: usize = self.ends.iter().map(|(low, high)| high - low).sum();
        used >= self.offer.bytes() / 16 * 7 // of half an array, since an eighth may be unused
    }
}

/// The memory that a message is offered: allocations that its arrays lie in. It is the message's if
/// all who referred to it have dropped it.
#[pyclass(module = "shmarray._core")]
pub(crate) struct Offers {
    parts: Vec<Option<Part>>,
}

impl Offers {
    fn part(&self, number: usize) -> PyResult<&Part> {
        let part = self.parts.get(number).and_then(Option::as_ref);
        part.ok_or_else(|| PyIndexError::new_err("no such offer"))
    }

    /// Returns the number of the offer that has some bytes. `None` if there can be none.
    fn part_of(&mut self, low: usize, high: usize) -> Option<usize> {
        let known = |part: &Option<Part>| part.as_ref().is_some_and(|part| part.has(low, high));
        if let Some(number) = self.parts.iter().rposition(known) {
            return Some(number);
        }
        let Some(offer) = Offer::at(low) else {
            count(Reason::Held); // by another message, or a fork has frozen it
            return None;
        };
        self.parts.push(Some(Part { offer, ends: BTreeMap::new() }));
        Some(self.parts.len() - 1)
    }

    /// Offers the memory of one array.
    fn offer_one(&mut self, array: &Bound<'_, PyAny>) -> PyResult<Option<(usize, usize)>> {
        let facts = Facts::of(array)?;
        let first = facts.address() as usize;
        if facts.bytes() == 0 || !allocator::has(first) {
            return Ok(None);
        }
        if let Some(reason) = refusal(array, &facts)? {
            count(reason);
            return Ok(None);
        }
        let (below, above) = facts.layout().span(facts.itemsize()).map_err(to_py)?;
        let low = (first as i128 + below) as usize;
        let high = (first as i128 + above) as usize;
        let Some(number) = self.part_of(low, high) else { return Ok(None) };
        let Some(part) = &mut self.parts[number] else { return Ok(None) };
        if !part.add(low, high) {
            count(Reason::Shared);
            return Ok(None);
        }
        Ok(Some((number, first - part.offer.start())))
    }
}

/// Returns why the memory of an array that lies in an allocation is copied in any case.
fn refusal(array: &Bound<'_, PyAny>, facts: &Facts<'_>) -> PyResult<Option<Reason>> {
    let layout = facts.layout();
    let is_dense = facts.is_contiguous()
        || layout
            .without_gaps(facts.itemsize())
            .is_some_and(|dense| dense.strides == layout.strides);
    Ok(if !is_dense {
        Some(Reason::Gaps)
    } else if !facts.is_aligned() {
        Some(Reason::Alignment)
    } else if keeps_finalizer(array)? {
        Some(Reason::Finalizer)
    } else {
        None
    })
}

#[pymethods]
impl Offers {
    #[new]
    fn new() -> Self {
        Self { parts: Vec::new() }
    }

    /// Offers the memory of all ndarrays of a message. Returns for each the number of its offer and
    /// the offset of its first element there, or `None` if it is to be copied.
    #[pyo3(signature = (arrays, /))]
    fn offer(&mut self, arrays: Vec<Bound<'_, PyAny>>) -> PyResult<Vec<Option<(usize, usize)>>> {
        let mut offered =
            arrays.iter().map(|array| self.offer_one(array)).collect::<PyResult<Vec<_>>>()?;
        for (number, part) in self.parts.iter_mut().enumerate() {
            if part.as_ref().is_some_and(|part| !part.is_mostly_used()) {
                *part = None;
                let refused =
                    offered.iter_mut().filter(|one| one.is_some_and(|one| one.0 == number));
                refused.for_each(|one| {
                    count(Reason::Part);
                    *one = None;
                });
            }
        }
        Ok(offered)
    }

    /// Tells that nothing is offered, since the object has a finalizer.
    #[staticmethod]
    fn refuse() {
        count(Reason::Finalizer);
    }

    /// Returns the bytes of all offers whose memory is still referred to.
    fn held_bytes(&self) -> usize {
        let offers = self.parts.iter().flatten().map(|part| &part.offer);
        offers.filter(|offer| !offer.is_dropped()).map(Offer::bytes).sum()
    }

    /// Withdraws all offers.
    fn withdraw(&mut self) {
        self.parts.clear();
    }

    /// Returns the memory of an offer, for the message alone. Returns `None` if it is still
    /// referred to, or if a fork has frozen it.
    #[pyo3(signature = (number, /))]
    fn take(&mut self, number: usize) -> PyResult<Option<SegmentMemory>> {
        self.part(number)?;
        let taken = self.parts[number].as_mut().and_then(|part| part.offer.take());
        match &taken {
            Some(array) => was_sent(array.segment_data().1 as usize),
            None => count(Reason::Held),
        }
        Ok(taken.map(SegmentMemory::new))
    }

    /// Returns a copy of what the message needs of an offer, from its start on. Other threads of
    /// Python run meanwhile.
    #[pyo3(signature = (number, /))]
    fn copy(&self, py: Python<'_>, number: usize) -> PyResult<SegmentMemory> {
        let part = self.part(number)?;
        let bytes = part.used();
        was_sent(bytes);
        let copy = || part.offer.copy(bytes);
        let copied = if bytes as u64 >= LARGE_BYTES { py.detach(copy) } else { copy() };
        Ok(SegmentMemory::new(copied.map_err(to_py)?))
    }

    /// Returns what the message needs of an offer, from its start on.
    #[pyo3(signature = (number, /))]
    fn read<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyByteArray>> {
        let part = self.part(number)?;
        PyByteArray::new_with(py, part.used(), |room| part.offer.read(room).map_err(to_py))
    }

    /// Tells that a private array of so many bytes was copied to be sent, whoever allocated it.
    #[staticmethod]
    #[pyo3(signature = (count, /))]
    fn was_copied(count: usize) {
        was_sent(count);
    }
}

/// Returns the memory of an ndarray that was allocated here, for a message, and the offset of the
/// first element. Returns `None` if it is to be copied. The array is read-only already. Raises
/// ValueError if a message has the memory.
#[pyfunction]
#[pyo3(signature = (array, /))]
#[allow(unsafe_code)]
pub(crate) fn move_in_use(array: &Bound<'_, PyAny>) -> PyResult<Option<(SegmentMemory, usize)>> {
    let first = Facts::of(array)?.address() as usize;
    // SAFETY: nothing must write to it from now on; the program was told so by `move`, which has
    // made its array read-only, and a store of the program can only change numbers.
    let moved = unsafe { allocator::move_in_use(first) }.map_err(to_py)?;
    Ok(moved.map(|array| {
        let (start, bytes) = array.segment_data();
        was_sent(bytes as usize);
        (SegmentMemory::new(array), first - start.as_ptr() as usize)
    }))
}

/// Returns whether dropping an object may run code of the program, which could see or change what
/// was sent already: it has a finalizer, or a weak reference with a callback. An object that does
/// not say, such as one with a metaclass of its own, may.
pub(crate) fn has_finalizer(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if object.is_instance_of::<PyType>() {
        return Ok(false); // others refer to it, too
    }
    match finds_finalizer(object) {
        Err(error) if error.is_instance_of::<PyException>(object.py()) => Ok(true),
        found => found,
    }
}

fn finds_finalizer(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    if object.get_type().hasattr(interned!(py, "__del__"))? {
        return Ok(true);
    }
    static COUNT: FirstUse<Py<PyAny>> = FirstUse::new();
    static REFERENCES: FirstUse<Py<PyAny>> = FirstUse::new();
    let count = COUNT.import(py, "weakref", "getweakrefcount")?.call1((object,))?;
    if count.extract::<usize>()? == 0 {
        return Ok(false);
    }
    let references = REFERENCES.import(py, "weakref", "getweakrefs")?.call1((object,))?;
    for reference in references.cast_into::<PyList>()? {
        let kind = reference.get_type();
        // A proxy hands every question on to its object, and does not tell of its callback.
        if !kind.is(py.get_type::<PyWeakrefReference>())
            || !reference.getattr(interned!(py, "__callback__"))?.is_none()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether an object that an array keeps, and that is not pickled, has a finalizer; or
/// whether NumPy does not free the memory by the functions that we have replaced.
fn keeps_finalizer(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    static HANDLER_NAME: FirstUse<Py<PyAny>> = FirstUse::new();
    let py = array.py();
    let ndarray = ndarray(py)?;
    // A subclass may have a `base` of its own.
    let base_of = ndarray.getattr(interned!(py, "base"))?;
    let base_of = base_of.getattr(interned!(py, "__get__"))?;
    let mut object = array.clone();
    loop {
        if object.get_type().is_subclass(ndarray)? {
            let base = base_of.call1((&object,))?;
            if base.is_none() {
                let name_of = HANDLER_NAME.get_or_try_make(py, || handler_name(py))?.bind(py);
                let name = name_of.call1((object,))?;
                return Ok(!name.eq(interned!(py, "default_allocator"))?);
            }
            object = base;
        } else if object.is_instance_of::<PyMemoryView>() {
            object = object.getattr(interned!(py, "obj"))?;
        } else {
            return Ok(true); // who knows what it does
        }
        if has_finalizer(&object)? {
            return Ok(true);
        }
    }
}

fn handler_name(py: Python<'_>) -> PyResult<Py<PyAny>> {
    Ok(super::numpy::multiarray(py)?.getattr("get_handler_name")?.unbind())
}
