//! Channels: a bounded queue of arrays between processes.
//!
//! PROTOCOL.md, "Channels", describes the protocol, FORMAT.md the bytes. What is lock-free and
//! shared is in `ring`; the rest is this process's.

mod ring;
mod wait;
mod slot;
mod end;
mod loan;
mod received;
mod options;

#[cfg(not(loom))]
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use crate::array::{Array, create_segment};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::{ChannelMode, Header, META_BYTES, Payload, WhenFull};
use crate::name::SegmentId;
use crate::process;
use crate::segment::Segment;
use crate::shape::{Layout, Order};
use crate::sweep;
use crate::sys::{Access, Directory};
use end::End;
pub use loan::{Loan, Loaned};
pub use options::ChannelOptions;
pub use received::{ReceivedFrom, View};

/// The most bytes of metadata beside a message.
pub const MAX_META_BYTES: usize = META_BYTES;

/// A bounded queue of arrays in shared memory. Any process opens it by its name.
///
/// A sender takes a slot on [`loan`](Self::loan), fills it in place and publishes it; a receiver
/// gets a view of the slot. Nothing is copied. A process that dies at any moment costs the others
/// the message that it had, and nothing else.
///
/// ```
/// use shmarray::{Channel, ChannelOptions, DType, Loaned, ReceivedFrom};
/// # let name = format!("doc-channel-{}", std::process::id());
/// let frames = Channel::create(&name, DType::parse("<f4")?, &[480, 640], &ChannelOptions::new())?;
/// let other = Channel::open(&name, true)?; // in another process
/// let Loaned::Loan(frame) = frames.loan(None)? else { panic!("no slot is free") };
/// frame.array().set(&[0, 0], 1.5f32)?;
/// frame.publish(b"left camera")?;
/// let ReceivedFrom::Message(frame) = other.receive(None)? else { panic!("no message") };
/// assert_eq!((frame.array().get::<f32>(&[0, 0])?, frame.meta()), (1.5, &b"left camera"[..]));
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Channel {
    /// The end of this process. A forked child replaces its parent's, which it never frees: another
    /// thread may be using it.
    end: AtomicPtr<End>,
    receives: bool,
}

impl Channel {
    /// Creates a channel whose messages are arrays of this dtype and shape, in C order.
    ///
    /// # Errors
    /// As [`Array::create`]; [`Error::InvalidArgument`] for a number of slots or ends that a
    /// channel cannot have, and for a dtype that is too long for the first page of a segment.
    pub fn create(
        name: &str,
        dtype: DType,
        shape: &[u64],
        options: &ChannelOptions,
    ) -> Result<Self> {
        let name = name.parse()?;
        let layout = Layout::contiguous(shape, dtype.itemsize(), Order::C)?;
        let (creation, channel) = options.check(&dtype, &layout, Some(name))?;
        let (id, page_bytes) = (SegmentId::random()?, Directory::current().page_bytes());
        let header =
            Header::of_channel(id, creation.name.clone(), (dtype, layout), channel, page_bytes)?;
        let segment = create_segment(header, &creation)?;
        Self::join(segment, false)
    }

    /// Opens the channel that has a name. With `receives`, a broadcast's messages are received from
    /// now on; otherwise from the first [`receive`](Self::receive) on.
    ///
    /// # Errors
    /// As [`Array::attach`]; [`Error::InvalidArgument`] when the name is not a channel's, and when
    /// all ends are in use.
    pub fn open(name: &str, receives: bool) -> Result<Self> {
        process::begin()?;
        sweep::at_first_use();
        let segment = Segment::attach_name(&name.parse()?, Access::ReadWrite)?;
        Self::join(segment, receives)
    }

    fn join(segment: Arc<Segment>, receives: bool) -> Result<Self> {
        let words = segment
            .channel_words()
            .ok_or_else(|| Error::argument("name", "it is an array's, not a channel's"))?;
        let receives = receives && words.layout().mode == ChannelMode::Broadcast;
        let end = Arc::new(End::join(segment, words, receives)?);
        Ok(Self { end: AtomicPtr::new(Arc::into_raw(end).cast_mut()), receives })
    }

    /// Returns this process's end. A forked child joins anew.
    #[allow(unsafe_code)]
    fn end(&self) -> Result<Arc<End>> {
        process::begin()?;
        loop {
            let pointer = self.end.load(Ordering::Acquire);
            // SAFETY: the count must be that of a living `Arc`: the pointer came from
            // `Arc::into_raw`, and its share is only given back by the drop of this channel.
            unsafe { Arc::increment_strong_count(pointer) };
            // SAFETY: the pointer came from `Arc::into_raw`, and the share is the one just added.
            let end = unsafe { Arc::from_raw(pointer.cast_const()) };
            if end.is_ours() {
                return end.check_open().map(|()| end);
            }
            let (segment, words) = (Arc::clone(&end.segment), end.words);
            let mine = Arc::into_raw(Arc::new(End::join(segment, words, self.receives)?)).cast_mut();
            let (order, failure) = (Ordering::AcqRel, Ordering::Acquire);
            if self.end.compare_exchange(pointer, mine, order, failure).is_err() {
                // SAFETY: the pointer came from `Arc::into_raw` above, and no one else has it.
                drop(unsafe { Arc::from_raw(mine.cast_const()) });
            }
        }
    }

    /// Takes a slot on loan, to be filled in place. Without a timeout it waits until one is free.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the channel is closed; [`Error::Os`], with `EINTR` when a
    /// signal ended the wait.
    pub fn loan(&self, timeout: Option<Duration>) -> Result<Loaned> {
        loan::loan(&self.end()?, until(timeout))
    }

    /// Sends a copy of private memory: the elements of `layout`, counted from `source`. Returns
    /// what [`loan`](Self::loan) would say if no slot was free, and otherwise `None`.
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
    ) -> Result<Option<Loaned>> {
        let end = self.end()?;
        let (expected, of) = end.segment.described();
        if dtype != expected {
            let (expected, found) = (expected.json().to_owned(), dtype.json().to_owned());
            return Err(Error::DTypeMismatch { expected, found });
        }
        if layout.shape != of.shape {
            let reason = format!("{:?} is not the channel's {:?}", layout.shape, of.shape);
            return Err(Error::argument("shape", reason));
        }
        slot::Meta::new(meta)?;
        match loan::loan(&end, until(timeout))? {
            Loaned::Loan(loan) => {
                // SAFETY: the caller promises that the elements can be read.
                unsafe { loan.array().fill_from(source, layout)? };
                loan.publish(meta).map(|_| None)
            }
            other => Ok(Some(other)),
        }
    }

    /// Receives a message. Without a timeout it waits until there is one, or the stream has ended.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan).
    pub fn receive(&self, timeout: Option<Duration>) -> Result<ReceivedFrom> {
        received::receive(&self.end()?, until(timeout))
    }

    /// Ends this process's part in the channel. Loans and views stay valid until they are dropped.
    pub fn close(&self) {
        if let Ok(end) = self.end() {
            end.close();
        }
    }

    /// Returns the dtype and the shape of a message.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the channel is closed.
    pub fn described(&self) -> Result<(DType, Vec<u64>)> {
        let end = self.end()?;
        let (dtype, layout) = end.segment.described();
        Ok((dtype.clone(), layout.shape.clone()))
    }
}

fn until(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

impl Drop for Channel {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Arc::into_raw`, and this gives back the channel's share,
        // once.
        drop(unsafe { Arc::from_raw(self.end.get_mut().cast_const()) });
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel").finish_non_exhaustive()
    }
}
