//! Channels: loans and deliveries as context managers, iteration, and the fd for event loops.
//!
//! An array of a slot is an ndarray as any other. When its `with` ends, it is emptied and the slot
//! goes back, unless there are views of it: they keep the slot of a delivery.
#![allow(unsafe_code)] // a copy from memory that NumPy describes

mod context;
mod delivery;
mod direct;
mod methods;
mod options;
mod slot_array;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::os::fd::IntoRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use pyo3::exceptions::{PyEOFError, PyRuntimeError, PyStopIteration};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use shmarray::{ChannelMode, Delivered, Loaned, Posted, Receives, WaitOutcome};

use crate::dimensions;
use crate::dtypes;
use crate::error::{Full, expected, timed_out, to_py, value_error};
use crate::first_use::interned;
use crate::handles::Handle;
use crate::memory::{LARGE_BYTES, Memory, is_ndarray};
use crate::text_of;
use crate::wait::{at_once_or_in_steps, then_in_steps, wait_in_steps};

use context::{Context, Made};
pub(crate) use delivery::Delivery;
use delivery::Held;
use direct::{Counted, WithGil, told_pyo3};
pub(crate) use methods::give_methods;
use options::Options;
pub(crate) use slot_array::has_borrowed;
use slot_array::{Kept, SlotArray, SlotArrays};

/// A bounded queue of arrays between processes.
#[pyclass(frozen, subclass, weakref, module = "shmarray._core")]
pub(crate) struct Channel {
    channel: shmarray::Channel,
    receives: bool,
    sender_died: AtomicBool,
    arrays: SlotArrays,
}

impl Channel {
    fn new(channel: shmarray::Channel, receives: bool) -> Self {
        let arrays = SlotArrays::of(&channel);
        Self { channel, receives, sender_died: AtomicBool::new(false), arrays }
    }

    fn open(
        py: Python<'_>,
        handle_or_name: &str,
        receives: Receives,
        timeout: Option<f64>,
    ) -> PyResult<Self> {
        let channel = match timeout {
            Some(0.0) => Some(shmarray::Channel::open(handle_or_name, receives).map_err(to_py)?),
            _ => wait_in_steps(py, timeout, Option::is_none, |left| {
                shmarray::Channel::open_within(handle_or_name, receives, left)
            })?,
        };
        let Some(channel) = channel else {
            let text = format!("there was no channel {handle_or_name} in that time");
            return Err(timed_out(&text));
        };
        Ok(Self::new(channel, receives != Receives::Later))
    }

    /// Takes a slot, at first without releasing the GIL.
    #[inline]
    fn lend(
        &self,
        py: Python<'_>,
        shape: Option<&[u64]>,
        timeout: Option<f64>,
    ) -> PyResult<shmarray::Loan> {
        match self.attempt_loan(shape, Some(Duration::ZERO)) {
            Ok(Loaned::Loan(loan)) => Ok(loan),
            first => told_pyo3(|| self.wait_for_loan(py, first, shape, timeout)),
        }
    }

    fn attempt_loan(
        &self,
        shape: Option<&[u64]>,
        left: Option<Duration>,
    ) -> shmarray::Result<Loaned> {
        match shape {
            Some(shape) => self.channel.loan_shape(shape, left),
            None => self.channel.loan(left),
        }
    }

    fn wait_for_loan(
        &self,
        py: Python<'_>,
        first: shmarray::Result<Loaned>,
        shape: Option<&[u64]>,
        timeout: Option<f64>,
    ) -> PyResult<shmarray::Loan> {
        let attempt = |left| self.attempt_loan(shape, left);
        let is_timeout = |loaned: &_| matches!(loaned, Loaned::TimedOut);
        match then_in_steps(py, first, timeout, is_timeout, attempt)? {
            Loaned::Loan(loan) => Ok(loan),
            ref outcome @ Loaned::TimedOut => Err(timed_out(&self.no_slot(outcome, timeout))),
            ref outcome @ Loaned::Full => Err(Full::new_err(self.no_slot(outcome, timeout))),
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }

    /// Returns the text of an error about slots: after a wait also who has them.
    fn no_slot(&self, outcome: &impl ToString, timeout: Option<f64>) -> String {
        let said = outcome.to_string();
        if timeout == Some(0.0) {
            return said; // whoever asks again and again need not wait for the reason
        }
        let stats = shmarray::ChannelStats::read(&self.channel.handle());
        match stats.map(|stats| stats.who_has_slots()) {
            Ok(who) if !who.is_empty() => format!("{said}: {who}"),
            _ => said,
        }
    }

    /// Waits for a message after a first attempt, unless that had an outcome.
    fn wait_for_message(
        &self,
        py: Python<'_>,
        first: shmarray::Result<Delivered>,
        timeout: Option<f64>,
    ) -> PyResult<shmarray::Delivery> {
        let attempt = |left| self.channel.receive(left);
        let is_timeout = |delivered: &_| matches!(delivered, Delivered::TimedOut);
        match then_in_steps(py, first, timeout, is_timeout, attempt)? {
            Delivered::Message(delivery) => Ok(delivery),
            ref outcome @ Delivered::TimedOut => Err(timed_out(outcome)),
            ref outcome @ Delivered::Ended { died, .. } => {
                self.sender_died.store(died, Relaxed);
                Err(PyEOFError::new_err(outcome.to_string()))
            }
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }

    /// Returns whether the latest value is newer than one with a sequence number, after at most so
    /// many seconds.
    fn is_newer(
        &self,
        py: Python<'_>,
        sequence: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let attempt = |left| self.channel.wait_newer(sequence, left);
        let is_timeout = |awaited: &_| *awaited == WaitOutcome::TimedOut;
        match at_once_or_in_steps(py, timeout, is_timeout, attempt)? {
            WaitOutcome::Newer => Ok(true),
            WaitOutcome::TimedOut => Ok(false),
            outcome @ WaitOutcome::Ended { died, .. } => {
                self.sender_died.store(died, Relaxed);
                Err(PyEOFError::new_err(outcome.to_string()))
            }
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }

    /// Receives the next message of a loop. Of the latest value it is newer than the last.
    fn receive_next(&self, py: Python<'_>, last: &WithGil<Option<u64>>) -> PyResult<Held> {
        if self.channel.mode() == ChannelMode::Latest {
            let sequence = *last.borrow(py);
            self.is_newer(py, sequence, None).map_err(|error| stops(py, error))?;
        }
        let held = self.receive_held(py, None).map_err(|error| stops(py, error))?;
        *last.borrow(py) = Some(held.delivery.sequence());
        Ok(held)
    }

    /// Receives a message, at first without releasing the GIL.
    #[inline]
    fn receive_held(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Held> {
        let delivery = match self.channel.receive(Some(Duration::ZERO)) {
            Ok(Delivered::Message(delivery)) => delivery,
            first => told_pyo3(|| self.wait_for_message(py, first, timeout))?,
        };
        let array = self.arrays.view(py, delivery.slot(), delivery.array())?;
        Ok(Held { delivery, array })
    }
}

/// Adds the classes of the context managers to the module, and methods to its class.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Loan", context::make_class::<Loan>(py)?)?;
    module.add("ArrayContext", context::make_class::<ArrayContext>(py)?)?;
    module.add("DeliveryContext", context::make_class::<DeliveryContext>(py)?)?;
    give_methods(&py.get_type::<Channel>())
}

/// Leaves all channels of this process, which ends without running exit handlers.
#[pyfunction]
pub(crate) fn leave_channels(py: Python<'_>) {
    py.detach(shmarray::leave_channels);
}

fn shape_of(shape: Option<Vec<Bound<'_, PyAny>>>) -> PyResult<Option<Vec<u64>>> {
    shape.map(|shape| dimensions(&shape)).transpose()
}

/// Returns the text of a handle, or a text as it is.
fn text_to_open<'a>(name: &'a Bound<'_, PyAny>) -> PyResult<Cow<'a, str>> {
    match name.cast::<Handle>() {
        Ok(handle) => Ok(handle.get().descriptor().to_handle().into()),
        Err(_) => Ok(text_of(name)?.into()),
    }
}

#[pymethods]
impl Channel {
    /// Makes a channel, with options, or opens one, also by its handle. `shape` is None for a
    /// channel of handles, `history` for one that receives from its first receive on.
    #[new]
    fn of(
        py: Python<'_>,
        name: &Bound<'_, PyAny>,
        shape: Option<Vec<Bound<'_, PyAny>>>,
        dtype: &Bound<'_, PyAny>,
        options: Option<Options>,
        history: Option<u32>,
        timeout: Option<f64>,
    ) -> PyResult<Self> {
        let Some(options) = options else {
            let receives = match history {
                None => Receives::Later,
                Some(0) => Receives::Now,
                Some(history) => Receives::WithHistory(history),
            };
            return Self::open(py, &text_to_open(name)?, receives, timeout);
        };
        let name: &str = name.extract()?;
        let options = options.to_core()?;
        let channel = match shape_of(shape)? {
            Some(shape) => {
                let dtype = dtypes::from_numpy(dtype)?;
                py.detach(|| shmarray::Channel::create(name, dtype, &shape, &options))
            }
            None => py.detach(|| shmarray::Channel::create_by_handle(name, &options)),
        };
        channel.map(|channel| Self::new(channel, false)).map_err(to_py)
    }

    /// Sends an array: a copy, or in a channel of handles the array itself.
    #[pyo3(signature = (array, *, timeout=None, meta=None))]
    fn send(
        &self,
        array: &Bound<'_, PyAny>,
        timeout: Option<f64>,
        meta: Option<&[u8]>,
    ) -> PyResult<()> {
        let py = array.py();
        if !is_ndarray(array)? {
            return Err(expected("a numpy.ndarray", array));
        }
        let memory = Memory::of(array)?;
        let meta = meta.unwrap_or_default();
        let dtype = dtypes::from_numpy(&array.getattr(interned!(py, "dtype"))?)?;
        let handed_over =
            if self.channel.has_handles() { memory.in_segment(dtype.clone()) } else { None };
        let address = memory.address();
        let layout = memory.layout();
        let attempt = |left| match &handed_over {
            Some(shared) => self.channel.send_array(shared, meta, left),
            // SAFETY: `send` reads all elements of `layout` from `address` on. They can be read
            // while the ndarray lives (M1 of `memory`), which is borrowed until the copy is done.
            None => unsafe { self.channel.send(address as *const u8, &dtype, layout, meta, left) },
        };
        let bytes = layout.len() * dtype.itemsize();
        let is_timeout = |posted: &_| matches!(posted, Posted::TimedOut);
        let posted = match bytes {
            0..LARGE_BYTES => at_once_or_in_steps(py, timeout, is_timeout, attempt)?,
            _ => wait_in_steps(py, timeout, is_timeout, attempt)?,
        };
        match posted {
            Posted::Posted(_) => Ok(()),
            Posted::TimedOut => Err(timed_out(&self.no_slot(&posted, timeout))),
            Posted::Full => Err(Full::new_err(self.no_slot(&posted, timeout))),
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Arrays {
        Arrays { channel: slf.unbind(), held: WithGil::new(None), last: WithGil::new(None) }
    }

    fn _deliveries(slf: Bound<'_, Self>) -> Deliveries {
        Deliveries { channel: slf.unbind(), delivery: WithGil::new(None), last: WithGil::new(None) }
    }

    /// Returns whether the latest value is newer than one, and waits for that.
    #[pyo3(signature = (sequence=None, timeout=None))]
    fn wait_newer(
        &self,
        py: Python<'_>,
        sequence: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        self.is_newer(py, sequence, timeout)
    }

    /// Returns the handle of an end that is handed over, and the fd that holds it, which is the
    /// caller's.
    fn _hand_over(&self) -> PyResult<(String, c_int)> {
        let handed_over = self.channel.hand_over().map_err(to_py)?;
        Ok((handed_over.handle().to_owned(), handed_over.into_fd().into_raw_fd()))
    }

    /// Joins, in a forked child, with an end that its parent handed over.
    fn _adopt(&self, handle: &str) -> PyResult<()> {
        self.channel.adopt(handle).map_err(to_py)
    }

    fn fileno(&self) -> PyResult<c_int> {
        self.channel.fd().map_err(to_py)
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.channel.close());
        self.arrays.clear(py);
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*error))]
    fn __exit__(&self, error: &Bound<'_, PyTuple>) {
        self.close(error.py());
    }

    #[getter]
    fn name(&self) -> &str {
        self.channel.name()
    }

    /// What any process opens the channel by, also if its name was removed.
    #[getter]
    fn handle(&self) -> Handle {
        Handle::new(self.channel.descriptor().clone())
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        if self.channel.has_handles() {
            Ok(None)
        } else {
            PyTuple::new(py, self.channel.shape()).map(Some)
        }
    }

    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.channel.has_handles() {
            Ok(None)
        } else {
            dtypes::to_numpy(py, self.channel.dtype()).map(Some)
        }
    }

    #[getter]
    fn slots(&self) -> u32 {
        self.channel.slots()
    }

    #[getter]
    fn mode(&self) -> &'static str {
        self.channel.mode().name()
    }

    /// Whether it receives a broadcast from when it was opened.
    #[getter]
    fn receives(&self) -> bool {
        self.receives
    }

    /// Whether the stream, when its end was seen, had ended because the last sender died.
    #[getter]
    fn sender_died(&self) -> bool {
        self.sender_died.load(Relaxed)
    }

    /// Whether the channel is another user's.
    #[getter]
    fn is_follower(&self) -> bool {
        self.channel.is_follower()
    }
}

fn check_meta(meta: &[u8]) -> PyResult<()> {
    let most = shmarray::MAX_META_BYTES;
    match meta.len() {
        bytes if bytes > most => Err(value_error(format!(
            "invalid meta: {bytes} bytes are more than the {most} of a message"
        ))),
        _ => Ok(()),
    }
}

/// A slot that is filled in a ``with``, and published at its end.
pub(crate) struct Loan {
    channel: Counted<Channel>,
    shape: Option<Vec<u64>>,
    timeout: Option<f64>,
    meta: Vec<u8>,
    lent: RefCell<Option<(shmarray::Loan, SlotArray)>>,
}

impl Context for Loan {
    const NAME: &'static CStr = c"shmarray._core.Loan";
    const DOC: &'static CStr = c"A slot that is filled in a ``with``, and published at its end.";

    fn made() -> &'static Made {
        static MADE: Made = Made::nothing();
        &MADE
    }

    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        refuse_twice(self.lent.borrow().is_some())?;
        let channel = self.channel.get();
        let loan = channel.lend(py, self.shape.as_deref(), self.timeout)?;
        let array = channel.arrays.view(py, Some(loan.slot()), loan.array())?;
        let ndarray = array.ndarray(py);
        drop(self.lent.replace(Some((loan, array))));
        Ok(ndarray)
    }

    fn exit(&self, py: Python<'_>, has_raised: bool) -> PyResult<()> {
        let Some((loan, array)) = self.lent.take() else { return Ok(()) };
        array.empty(py);
        let channel = self.channel.get();
        if array.has_views(py, &channel.arrays) {
            return told_pyo3(|| {
                let published = if has_raised { Ok(()) } else { self.publish_copy(&loan) };
                channel.arrays.forget(py, loan.slot());
                array.keep(py, Kept::Loan(loan)).and(published)
            });
        }
        if has_raised {
            loan.cancel();
            Ok(())
        } else {
            loan.publish(&self.meta).map(drop).map_err(to_py)
        }
    }
}

impl Loan {
    /// Publishes a copy in another slot: the program has views of this one, and may write to them.
    fn publish_copy(&self, loan: &shmarray::Loan) -> PyResult<()> {
        let at_once = Some(Duration::ZERO);
        let channel = &self.channel.get().channel;
        match channel.send_array(loan.array(), &self.meta, at_once).map_err(to_py)? {
            Posted::Posted(_) => Ok(()),
            Posted::TimedOut | Posted::Full => Err(value_error(
                "views of the loan's array keep its slot, and no other is free for the message: \
                 drop them before the `with` ends",
            )),
            _ => Err(to_py(shmarray::Error::UNKNOWN_OUTCOME)),
        }
    }
}

fn refuse_twice(is_entered: bool) -> PyResult<()> {
    if is_entered { Err(PyRuntimeError::new_err("it is entered already")) } else { Ok(()) }
}

/// The array of a message, for a ``with``.
pub(crate) struct ArrayContext {
    channel: Counted<Channel>,
    timeout: Option<f64>,
    held: RefCell<Option<Held>>,
}

impl Context for ArrayContext {
    const NAME: &'static CStr = c"shmarray._core.ArrayContext";
    const DOC: &'static CStr = c"The array of a message, for a ``with``.";

    fn made() -> &'static Made {
        static MADE: Made = Made::nothing();
        &MADE
    }

    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        refuse_twice(self.held.borrow().is_some())?;
        let held = self.channel.get().receive_held(py, self.timeout)?;
        let array = held.array.ndarray(py);
        drop(self.held.replace(Some(held)));
        Ok(array)
    }

    fn exit(&self, py: Python<'_>, _has_raised: bool) -> PyResult<()> {
        self.held.take().map_or(Ok(()), |held| held.end(py, self.channel.get()))
    }
}

/// A message, for a ``with``.
pub(crate) struct DeliveryContext {
    channel: Counted<Channel>,
    timeout: Option<f64>,
    delivery: RefCell<Option<Counted<Delivery>>>,
}

impl Context for DeliveryContext {
    const NAME: &'static CStr = c"shmarray._core.DeliveryContext";
    const DOC: &'static CStr = c"A message, for a ``with``.";

    fn made() -> &'static Made {
        static MADE: Made = Made::nothing();
        &MADE
    }

    fn enter<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        refuse_twice(self.delivery.borrow().is_some())?;
        let held = self.channel.get().receive_held(py, self.timeout)?;
        let channel = self.channel.bind(py).clone().unbind();
        let delivery = Bound::new(py, Delivery::new(py, channel, held))?;
        drop(self.delivery.replace(Some(Counted::new(delivery.clone()))));
        Ok(delivery.into_any())
    }

    fn exit(&self, py: Python<'_>, _has_raised: bool) -> PyResult<()> {
        self.delivery.take().map_or(Ok(()), |delivery| delivery.get().end(py))
    }
}

/// The end of the stream ends a loop.
fn stops(py: Python<'_>, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyEOFError>(py) { PyStopIteration::new_err(()) } else { error }
}

/// Runs what a loop leaves to do when it is dropped, perhaps by an exception on its way.
fn finish(finish: impl FnOnce(Python<'_>) -> PyResult<()>) {
    let _ = Python::try_attach(|py| {
        let raised = PyErr::take(py);
        if let Err(error) = finish(py) {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    });
}

/// The arrays of a channel's messages, each valid until the next. The last one of a loop that is
/// left keeps its slot.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Arrays {
    channel: Py<Channel>,
    held: WithGil<Option<Held>>,
    /// The sequence number of the last message.
    last: WithGil<Option<u64>>,
}

#[pymethods]
impl Arrays {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let channel = self.channel.get();
        let before = self.held.borrow(py).take();
        if let Some(before) = before {
            before.end(py, channel)?;
        }
        let held = channel.receive_next(py, &self.last)?;
        let array = held.array.ndarray(py);
        let before = self.held.borrow(py).replace(held);
        drop(before); // that of another thread
        Ok(array)
    }
}

impl Drop for Arrays {
    fn drop(&mut self) {
        if let Some(held) = self.held.get_mut().take() {
            finish(|py| held.outlive(py, self.channel.get()));
        }
    }
}

/// The messages of a channel, each valid until the next. The last one of a loop that is left keeps
/// its slot.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Deliveries {
    channel: Py<Channel>,
    delivery: WithGil<Option<Py<Delivery>>>,
    /// The sequence number of the last message.
    last: WithGil<Option<u64>>,
}

#[pymethods]
impl Deliveries {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Delivery>> {
        let before = self.delivery.borrow(py).take();
        if let Some(before) = before {
            before.get().end(py)?;
        }
        let held = self.channel.get().receive_next(py, &self.last)?;
        let delivery = Bound::new(py, Delivery::new(py, self.channel.clone_ref(py), held))?;
        let before = self.delivery.borrow(py).replace(delivery.clone().unbind());
        drop(before); // that of another thread
        Ok(delivery)
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        if let Some(delivery) = self.delivery.get_mut().take() {
            finish(|py| delivery.get().outlive(py));
        }
    }
}
