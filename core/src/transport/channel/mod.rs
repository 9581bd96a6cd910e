//! Channels: a bounded queue of arrays between processes.
//!
//! CHANNELS.md describes the protocol, FORMAT.md the bytes. What is lock-free and
//! shared is in `ring`; the rest is this process's.

// Each module uses only those before it.
mod handle_or_name;
mod ends;
mod sole;
mod ring;
mod head;
mod wait;
mod opened;
mod handle_text;
mod recovery;
mod event;
mod slot;
mod unreceived;
mod end;
mod loan;
mod received;
mod reader;
mod options;
mod follower;
mod hand_over;
mod stats;
mod open;
mod create;

use std::ffi::c_int;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::array::{Array, Options};
use crate::header::format::{ChannelLayout, ChannelMode, META_BYTES, Payload, WhenFull};
use crate::memory::operation::Operation;
use crate::system::{self, Mutex};
use crate::value::descriptor::Descriptor;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::name::ArrayName;
use crate::value::shape::Layout;
use end::{End, SegmentUse};
pub use event::ChannelEvent;
use event::Readiness;
use follower::Follower;
pub use hand_over::HandedOver;
pub use loan::{Loan, Loaned, Posted};
use opened::Opened;
pub use options::{ChannelOptions, Receives};
pub use received::{Delivered, Delivery, WaitOutcome};
pub use stats::{ChannelStats, EndStats};

const CHANNELS: &str = "channels, on this platform";

/// The most bytes of metadata beside a message.
pub const MAX_META_BYTES: usize = META_BYTES;

/// A bounded queue of arrays in shared memory. Any process opens it by its name or its handle.
///
/// A sender takes a slot on [`loan`](Self::loan), fills it in place and publishes it; a receiver
/// gets a view of the slot. Nothing is copied. A process that dies at any moment costs the others
/// the message that it had, and nothing else. Only on Linux: elsewhere a channel can be neither
/// created nor opened, which fails with [`Error::Unsupported`].
///
/// ```
/// use shmarray::{Channel, ChannelOptions, DType, Delivered, Loaned, Receives};
/// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
/// # let name = format!("doc-channel-{}", std::process::id());
/// let frames = Channel::create(&name, DType::parse("<f4")?, &[480, 640], &ChannelOptions::new())?;
/// let other = Channel::open(&name, Receives::Now)?; // in another process
/// let Loaned::Loan(frame) = frames.loan(None)? else { panic!("no slot is free") };
/// frame.array().set(&[0, 0], 1.5f32)?;
/// frame.publish(b"left camera")?;
/// let Delivered::Message(frame) = other.receive(None)? else { panic!("no message") };
/// assert_eq!((frame.array().get::<f32>(&[0, 0])?, frame.meta()), (1.5, &b"left camera"[..]));
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Channel {
    name: ArrayName,
    /// Of the first slot's message.
    descriptor: Descriptor,
    layout: ChannelLayout,
    side: Side,
}

/// The part that this process has in a channel.
enum Side {
    Member {
        /// The end of this process, until the channel is closed. A forked child replaces its
        /// parent's, which it never frees. Locked where no fork can be: a child uses it.
        end: Mutex<Option<Arc<End>>>,
        joined: Joined,
        /// Locked while a child joins.
        joining: Mutex<()>,
        /// Whether it receives a broadcast from when it joined.
        receives: bool,
    },
    Follower(Arc<Follower>),
}

/// The way to the end of a process, which locks nothing. It leads nowhere once that was closed.
struct Joined {
    end: Weak<End>,
    fork: u32,
    /// That of a forked child. Set where no fork can be.
    child: OnceLock<Box<Self>>,
}

impl Joined {
    fn to(end: &Arc<End>) -> Self {
        Self { end: Arc::downgrade(end), fork: system::forks(), child: OnceLock::new() }
    }

    /// Returns that of this process, or the last of its parents'.
    fn last(&self) -> &Self {
        let mut last = self;
        while let Some(child) = last.child.get() {
            last = child;
        }
        last
    }

    fn is_ours(&self) -> bool {
        self.fork == system::forks()
    }

    fn end(&self) -> Result<Arc<End>> {
        let end = self.end.upgrade().ok_or_else(closed)?;
        end.check_open().map(|()| end)
    }

    /// Returns the end if it is this process's, and not closed.
    #[inline]
    fn open_end(&self) -> Option<Arc<End>> {
        let is_last = self.child.get().is_none() && self.is_ours();
        is_last.then(|| self.end.upgrade()).flatten().filter(|end| !end.is_closed())
    }
}

impl Channel {
    /// Returns this process's end. A forked child joins anew.
    #[inline]
    fn end(&self) -> Result<Arc<End>> {
        if let Side::Member { joined, .. } = &self.side
            && let Some(end) = joined.open_end()
        {
            return Ok(end);
        }
        self.end_or_join(None)
    }

    /// As [`end`](Self::end). A forked child joins with the end that has a ticket.
    fn end_or_join(&self, ticket: Option<u64>) -> Result<Arc<End>> {
        let _operation = Operation::enter()?;
        let (end, joined, joining, receives) = match &self.side {
            Side::Member { end, joined, joining, receives } => (end, joined, joining, *receives),
            Side::Follower(follower) => return Err(follower.refuse_to_send()),
        };
        if joined.last().is_ours() {
            return joined.last().end();
        }
        let _joining = joining.lock();
        let last = joined.last();
        if last.is_ours() {
            return last.end(); // another thread has joined
        }
        let inherited = system::without_fork(|| end.lock().clone()).ok_or_else(closed)?;
        let opened = Opened::clone(&inherited);
        std::mem::forget(inherited); // the parent's
        let segment_use = SegmentUse::begin(&opened.segment).ok_or_else(closed)?;
        let history = receives.then_some(0);
        let child = Arc::new(End::join(opened, segment_use, history, ticket)?);
        let is_open = system::without_fork(|| {
            let mut end = end.lock();
            let is_open = end.is_some();
            if is_open {
                std::mem::forget(end.replace(Arc::clone(&child))); // the parent's
                let _ = last.child.set(Box::new(Joined::to(&child))); // no other thread joins
            }
            is_open
        });
        if !is_open {
            return Err(closed());
        }
        child.segment.remove_end(); // the parent's, which this one replaces
        Ok(child)
    }

    /// Takes a slot on loan, to be filled in place. Without a timeout it waits until one is free.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the channel is closed; [`Error::Os`], with `EINTR` when a
    /// signal ended the wait.
    pub fn loan(&self, timeout: Option<Duration>) -> Result<Loaned> {
        loan::loan(self.end()?, None, timeout)
    }

    /// Takes a slot on loan for an array of this shape, in a channel of varying shapes.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan); [`Error::InvalidArgument`] when the shape does not fit.
    pub fn loan_shape(&self, shape: &[u64], timeout: Option<Duration>) -> Result<Loaned> {
        loan::loan(self.end()?, Some(shape), timeout)
    }

    /// Waits until a [`loan`](Self::loan) need not wait. Returns whether that is so. For event
    /// loops, which wait in another thread than the one that sends. It may drop the oldest message
    /// where a loan would.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn wait_until_free(&self, timeout: Option<Duration>) -> Result<bool> {
        loan::wait_until_free(self.end()?, timeout)
    }

    /// Sends a copy of private memory: the elements of `layout`, counted from `source`. A channel
    /// of handles sends a shared copy.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan); [`Error::InvalidArgument`] when the shape is not the channel's,
    /// or the metadata is too long; [`Error::DTypeMismatch`].
    ///
    /// # Safety
    /// Every element of `layout`, from `source` on, can be read.
    #[allow(unsafe_code)]
    pub unsafe fn send(
        &self,
        source: *const u8,
        dtype: &DType,
        layout: &Layout,
        meta: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Posted> {
        let end = self.end()?;
        if end.words.layout().payload == Payload::Handle {
            // SAFETY: the caller promises that the elements can be read.
            let shared = unsafe { Array::share(source, dtype.clone(), layout, &Options::new())? };
            return loan::send_handle(end, &shared, meta, timeout);
        }
        let (expected, _) = end.segment.described();
        if dtype != expected {
            let expected = expected.json().to_owned();
            let found = dtype.json().to_owned();
            return Err(Error::DTypeMismatch { expected, found });
        }
        head::check_meta(meta)?;
        match loan::loan(end, Some(&layout.shape), timeout)? {
            Loaned::Loan(loan) => {
                // SAFETY: the caller promises that the elements can be read.
                unsafe { loan.array().fill_from(source, layout)? };
                loan.publish(meta).map(Posted::Posted)
            }
            Loaned::TimedOut => Ok(Posted::TimedOut),
            Loaned::Full => Ok(Posted::Full),
        }
    }

    /// Sends a shared array: a copy of its elements, or in a channel of handles the array itself.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    #[allow(unsafe_code)]
    pub fn send_array(
        &self,
        array: &Array,
        meta: &[u8],
        timeout: Option<Duration>,
    ) -> Result<Posted> {
        let end = self.end()?;
        if end.words.layout().payload == Payload::Handle && !array.is_in_slot() {
            return loan::send_handle(end, array, meta, timeout);
        }
        let source = array.segment_data().0;
        let layout = array.layout();
        // SAFETY: the elements lie in memory that `array` keeps mapped.
        unsafe { self.send(source.as_ptr(), array.dtype(), layout, meta, timeout) }
    }

    /// Receives a message. Without a timeout it waits until there is one, or the stream has ended.
    ///
    /// The stream ends when no other process has the channel open to send, and one had it so since
    /// this channel was opened. A process that has neither sent nor received counts as a sender.
    /// Messages that this channel sent are received, too, and do not end the stream.
    ///
    /// Of the latest value it receives the value as it is now, as often as it is called, and waits
    /// only for the first one: [`wait_newer`](Self::wait_newer) waits for the next.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Delivered> {
        match &self.side {
            Side::Follower(follower) => {
                let _operation = Operation::enter()?;
                follower.receive(timeout)
            }
            Side::Member { .. } => received::receive(self.end()?, timeout),
        }
    }

    /// Waits until the latest value is newer than the one with a sequence number, or than none.
    ///
    /// The stream ends as for [`receive`](Self::receive); the last value stays.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan); [`Error::InvalidArgument`] if the channel's mode is not
    /// [`ChannelMode::Latest`].
    ///
    /// ```
    /// # use shmarray::{Array, Channel, ChannelMode, ChannelOptions, DType, Options, Receives};
    /// # use shmarray::{WaitOutcome, Delivered};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-newer-{}", std::process::id());
    /// # let f8 = || DType::parse("<f8");
    /// let options = ChannelOptions::new().mode(ChannelMode::Latest);
    /// let pose = Channel::create(&name, f8()?, &[3], &options)?;
    /// let viewer = Channel::open(&name, Receives::Now)?; // in another process
    /// pose.send_array(&Array::create(f8()?, &[3], &Options::new())?, b"", None)?;
    /// let Delivered::Message(first) = viewer.receive(None)? else { panic!("it was sent") };
    /// let Delivered::Message(again) = viewer.receive(None)? else { panic!("it is still there") };
    /// assert_eq!(first.sequence(), again.sequence());
    /// pose.close();
    /// let awaited = viewer.wait_newer(Some(first.sequence()), None)?;
    /// assert!(matches!(awaited, WaitOutcome::Ended { .. }));
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn wait_newer(
        &self,
        sequence: Option<u64>,
        timeout: Option<Duration>,
    ) -> Result<WaitOutcome> {
        if self.layout.mode != ChannelMode::Latest {
            let reason = "the channel has no latest value: receive waits for the next message";
            return Err(Error::argument("channel", reason));
        }
        let _operation = Operation::enter()?;
        match &self.side {
            Side::Follower(follower) => follower.wait_newer(sequence, timeout),
            Side::Member { .. } => received::wait_newer(&self.end()?, sequence, timeout),
        }
    }

    /// Receives until the stream has ended: [`Error::Os`] with `EINTR` when a signal ended a wait.
    /// Of the latest value it receives each that is newer than the one before.
    ///
    /// ```
    /// # use shmarray::{Channel, ChannelOptions, DType, Receives};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-iter-{}", std::process::id());
    /// # let numbers = Channel::create(&name, DType::parse("<i4")?, &[], &ChannelOptions::new())?;
    /// # let other = Channel::open(&name, Receives::Now)?;
    /// # use shmarray::{Array, Options};
    /// # let array = Array::create(DType::parse("<i4")?, &[], &Options::new())?;
    /// numbers.send_array(&array, b"", None)?;
    /// numbers.close();
    /// for message in other.messages() {
    ///     assert_eq!(message?.array().get::<i32>(&[])?, 0);
    /// }
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn messages(&self) -> impl Iterator<Item = Result<Delivery>> + '_ {
        let mut last = None;
        std::iter::from_fn(move || {
            if self.layout.mode == ChannelMode::Latest {
                match self.wait_newer(last, None) {
                    Ok(WaitOutcome::Newer) => {}
                    Ok(WaitOutcome::Ended { .. } | WaitOutcome::TimedOut) => return None,
                    Err(error) => return Some(Err(error)),
                }
            }
            match self.receive(None) {
                Ok(Delivered::Message(delivery)) => {
                    last = Some(delivery.sequence());
                    Some(Ok(delivery))
                }
                Ok(Delivered::Ended { .. } | Delivered::TimedOut) => None,
                Err(error) => Some(Err(error)),
            }
        })
    }

    /// Whether a receive need not wait now. Of the latest value: whether this channel has not
    /// received it yet. So it is for [`wait_until_ready`](Self::wait_until_ready) and
    /// [`event`](Self::event), too.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn is_ready(&self) -> Result<bool> {
        match &self.side {
            Side::Follower(follower) => follower.is_ready(true),
            Side::Member { .. } => {
                let end = self.end()?;
                end.become_receiver();
                end.is_ready(true)
            }
        }
    }

    /// Waits until a receive need not wait. Returns whether that is so.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn wait_until_ready(&self, timeout: Option<Duration>) -> Result<bool> {
        match &self.side {
            Side::Follower(follower) => event::wait_until_ready(&**follower, timeout),
            Side::Member { .. } => {
                let end = self.end()?;
                end.become_receiver();
                event::wait_until_ready(&*end, timeout)
            }
        }
    }

    /// Returns the event of this channel for `poll`, epoll and event loops. Its fd is readable
    /// while [`receive`](Self::receive) need not wait. A receive that finds nothing makes it
    /// unreadable, so receive until nothing is left. A thread of this library sets it.
    ///
    /// ```
    /// # use shmarray::{Channel, ChannelOptions, DType};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # #[cfg(target_os = "linux")] {
    /// use std::os::fd::{AsFd, AsRawFd};
    ///
    /// # let name = format!("doc-event-{}", std::process::id());
    /// let numbers = Channel::create(&name, DType::parse("<i4")?, &[3], &ChannelOptions::new())?;
    /// let event = numbers.event()?;
    /// let fd = event.as_fd(); // for poll, epoll, mio; or tokio's AsyncFd takes the event
    /// # assert_eq!(fd.as_raw_fd(), numbers.event()?.as_raw_fd());
    /// # }
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn event(&self) -> Result<ChannelEvent> {
        let event = match &self.side {
            Side::Follower(follower) => follower.event()?,
            Side::Member { .. } => self.end()?.event()?,
        };
        Ok(ChannelEvent::of(event))
    }

    /// Returns the number of [`event`](Self::event)'s fd, which the channel owns: for bindings.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    #[doc(hidden)]
    pub fn fd(&self) -> Result<c_int> {
        Ok(self.event()?.number())
    }

    /// The name of the channel.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the handle of the channel, a line of text by which any process opens it. A handle
    /// holds nothing: the channel ends when no process has it open, unless it persists.
    ///
    /// ```
    /// # use shmarray::{Channel, ChannelOptions, DType, Receives};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-handle-{}", std::process::id());
    /// let numbers = Channel::create(&name, DType::parse("<i4")?, &[3], &ChannelOptions::new())?;
    /// let other = Channel::open(&numbers.handle(), Receives::Now)?; // in another process
    /// assert_eq!(other.name(), numbers.name());
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    #[must_use]
    pub fn handle(&self) -> String {
        self.descriptor.to_handle()
    }

    /// Returns the channel's descriptor, which is that of the first slot's message.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Ends this process's part in the channel. Loans and deliveries stay valid until they are
    /// dropped.
    pub fn close(&self) {
        match &self.side {
            Side::Follower(follower) => follower.close(),
            Side::Member { end, .. } => match system::without_fork(|| end.lock().take()) {
                Some(end) if end.is_ours() => {
                    end.close();
                    let kept = Arc::downgrade(&end);
                    drop(end);
                    kept.upgrade().inspect(|end| end.remove_name_if_closed());
                }
                Some(inherited) => {
                    inherited.segment.remove_end();
                    std::mem::forget(inherited); // the parent's
                }
                None => {}
            },
        }
    }

    /// Returns the dtype of a message; `|u1` if messages are handles.
    #[must_use]
    pub fn dtype(&self) -> &DType {
        &self.descriptor.dtype
    }

    /// Returns the shape of a message; of varying shapes the largest.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.descriptor.layout.shape
    }

    /// Whether each message has a shape of its own.
    #[must_use]
    pub fn varies(&self) -> bool {
        self.layout.payload == Payload::Varying
    }

    /// Whether messages are handles of shared arrays.
    #[must_use]
    pub fn has_handles(&self) -> bool {
        self.layout.payload == Payload::Handle
    }

    /// Returns the number of slots.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.layout.slots
    }

    /// Returns who receives a message.
    #[must_use]
    pub fn mode(&self) -> ChannelMode {
        self.layout.mode
    }

    /// Returns what a sender does when all slots are taken.
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        self.layout.when_full
    }

    /// Whether the channel is another user's, whose messages are copied.
    #[must_use]
    pub fn is_follower(&self) -> bool {
        matches!(self.side, Side::Follower(_))
    }
}

fn closed() -> Error {
    Error::argument("channel", "it is closed")
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.name)
    }
}
