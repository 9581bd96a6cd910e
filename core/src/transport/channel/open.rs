//! Opening a channel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::check_system;
use super::end::{End, SegmentUse};
use super::follower::Follower;
use super::handle_or_name::HandleOrName;
use super::opened::Opened;
use super::options::Receives;
use super::reader::not_a_channel;
use super::{CHANNELS, Channel, Joined, Side};
use crate::memory::operation::Operation;
use crate::system::{self, Appearances, Directory, Mutex};
use crate::value::error::{Error, ErrorKind, Result};

/// How long one wait for a name takes at the most.
const LONG: Duration = Duration::from_secs(3600);

impl Channel {
    /// Opens the channel that has a name or a handle. `receives` says from when on it receives a
    /// broadcast: `true` stands for [`Receives::Now`], `false` for [`Receives::Later`]. One that
    /// receives and never does so stops the senders of a broadcast, and itself if it sends.
    ///
    /// # Errors
    /// As [`Array::attach`](crate::Array::attach); [`Error::InvalidArgument`] and
    /// [`Error::InvalidHandle`] when the name or the handle is not a channel's,
    /// [`Error::InvalidArgument`] when all ends are in use, and for a history of another channel
    /// than a broadcast.
    ///
    /// A broadcast of another user whose file mode allows it is *followed*: each message is copied,
    /// and whoever sends does not wait for this process. So is one on a mount for reading.
    ///
    /// ```
    /// use shmarray::{Array, Channel, ChannelMode, ChannelOptions, DType, Options, Receives};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-history-{}", std::process::id());
    /// # let i4 = || DType::parse("<i4");
    /// let options = ChannelOptions::new().mode(ChannelMode::Broadcast);
    /// let scores = Channel::create(&name, i4()?, &[], &options)?;
    /// for score in [3, 5, 8] {
    ///     let array = Array::create(i4()?, &[], &Options::new())?;
    ///     array.set(&[], score)?;
    ///     scores.send_array(&array, b"", None)?;
    /// }
    /// let late = Channel::open(&name, Receives::WithHistory(2))?; // in another process
    /// scores.close();
    /// for (message, score) in late.messages().zip([5, 8]) {
    ///     assert_eq!(message?.array().get::<i32>(&[])?, score);
    /// }
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn open(handle_or_name: &str, receives: Receives) -> Result<Self> {
        Self::open_at_once(handle_or_name, receives)
    }

    fn open_at_once(handle_or_name: &str, receives: Receives) -> Result<Self> {
        check_system(CHANNELS)?;
        let sought = HandleOrName::parse(handle_or_name)?;
        match Self::open_segment(&sought) {
            Ok((opened, segment_use)) => {
                Self::join_existing(&sought, opened, segment_use, receives)
            }
            Err(error) if is_for_followers(&error) => {
                let _operation = Operation::enter()?;
                let directory = Directory::current();
                system::is_usable(&directory)?; // a follower asks for locks, too
                Self::follow(Follower::open(&directory, &sought, receives)?)
            }
            Err(error) => Err(error),
        }
    }

    fn follow(follower: Follower) -> Result<Self> {
        let reader = &follower.reader;
        Ok(Self {
            name: reader.header.name.clone().ok_or_else(not_a_channel)?,
            descriptor: reader.descriptor()?,
            layout: reader.layout,
            side: Side::Follower(Arc::new(follower)),
        })
    }

    /// Opens a channel as [`open`](Self::open) does, and waits until there is one of that name.
    /// `None` if there was none in that time.
    ///
    /// # Errors
    /// As for [`open`](Self::open); [`Error::Os`] with `EINTR` when a signal ended the wait.
    pub fn open_within(
        handle_or_name: &str,
        receives: Receives,
        timeout: Option<Duration>,
    ) -> Result<Option<Self>> {
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut appearances = None;
        loop {
            match Self::open_at_once(handle_or_name, receives) {
                Err(Error::NameNotFound { .. }) => {}
                opened => return opened.map(Some),
            }
            let now = Instant::now();
            let left = until.map_or(LONG, |until| until.saturating_duration_since(now).min(LONG));
            if left.is_zero() {
                return Ok(None);
            }
            match &appearances {
                None => appearances = Some(Appearances::watch(&Directory::current())?),
                Some(appearances) => appearances.wait(left)?,
            }
        }
    }

    pub(super) fn open_segment(sought: &HandleOrName) -> Result<(Opened, SegmentUse)> {
        loop {
            let operation = Operation::enter_to_attach()?;
            let opened = Opened::new(sought.attach(operation)?).ok_or_else(not_a_channel)?;
            sought.check(&opened.descriptor())?;
            if let Some(segment_use) = SegmentUse::begin(&opened.segment) {
                return Ok((opened, segment_use));
            }
            std::thread::yield_now(); // another thread has closed the last end here
        }
    }

    /// Joins a channel that others have made, unless all of them have closed it.
    pub(super) fn join_existing(
        sought: &HandleOrName,
        opened: Opened,
        segment_use: SegmentUse,
        receives: Receives,
    ) -> Result<Self> {
        let ticket = sought.ticket();
        let channel = Self::join(opened, segment_use, receives, ticket)?;
        let end = channel.end()?;
        if let Some(ticket) = ticket {
            end.segment.release_ticket(ticket); // the end that has it was open until now
        } else if end.have_others_closed() {
            return Err(sought.not_found());
        }
        Ok(channel)
    }

    pub(super) fn join(
        opened: Opened,
        segment_use: SegmentUse,
        receives: Receives,
        ticket: Option<u64>,
    ) -> Result<Self> {
        let name = opened.segment.name().cloned().ok_or_else(not_a_channel)?;
        let descriptor = opened.descriptor();
        let layout = *opened.words.layout();
        let history = receives.history(layout.mode)?;
        let end = Arc::new(End::join(opened, segment_use, history, ticket)?);
        let receives = history.is_some();
        let joined = Joined::to(&end);
        let end = Mutex::new(Some(end));
        let joining = Mutex::new(());
        let side = Side::Member { end, joined, joining, receives };
        Ok(Self { name, descriptor, layout, side })
    }
}

/// Whether a channel that could not be opened may be followed: it is another user's, or its mount
/// is for reading.
fn is_for_followers(error: &Error) -> bool {
    let kinds = [ErrorKind::PermissionDenied];
    let is_for_reading = std::io::ErrorKind::ReadOnlyFilesystem;
    kinds.contains(&error.kind())
        || matches!(error, Error::Os { source, .. } if source.kind() == is_for_reading)
}
