//! Handing an end over to another process: CHANNELS.md, *hand over*.

use super::handle_or_name::HandleOrName;
use super::{Channel, Side};
use crate::memory::operation::Operation;
use crate::system::{self, AsFd, BorrowedFd, OwnedFd};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};

/// An end that is under way to another process. It counts as an end of the channel until that
/// process has opened it, or until all copies of its fd are closed.
#[derive(Debug)]
pub struct HandedOver {
    handle: String,
    lock: OwnedFd,
}

impl HandedOver {
    /// Returns the handle by which one process [opens](Channel::open) the end.
    #[must_use]
    pub fn handle(&self) -> &str {
        &self.handle
    }

    /// Returns the fd that holds the end, as the caller's. The other process has a copy of it until
    /// it has opened the end: it inherits the fd, or receives it.
    #[must_use]
    pub fn into_fd(self) -> OwnedFd {
        self.lock
    }
}

impl AsFd for HandedOver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }
}

impl Channel {
    /// Hands an end over to another process, as one hands an end of a pipe to a child. Without it,
    /// a channel that this process closes before the other one has opened it has ended.
    ///
    /// # Errors
    /// As for [`loan`](Self::loan); [`Error::InvalidArgument`] when all ends are in use;
    /// [`Error::Unsupported`] for a channel that is followed: its handle is enough.
    ///
    /// ```
    /// # use shmarray::{Channel, ChannelOptions, DType, Delivered, Receives};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// # let name = format!("doc-hand-over-{}", std::process::id());
    /// # let options = ChannelOptions::new();
    /// let viewer = Channel::create(&name, DType::parse("<i4")?, &[3], &options)?;
    /// let sender = Channel::open(&name, Receives::Later)?;
    /// let handed_over = sender.hand_over()?; // its handle and its fd go to a child
    /// sender.close();
    /// assert!(!viewer.is_ready()?, "the stream has not ended");
    /// let child = Channel::open(handed_over.handle(), Receives::Later)?; // in the child
    /// child.close();
    /// assert!(matches!(viewer.receive(None)?, Delivered::Ended { died: false, .. }));
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn hand_over(&self) -> Result<HandedOver> {
        let Side::Member { receives, .. } = &self.side else {
            return Err(Error::Unsupported { what: "handing over a channel that is followed" });
        };
        let end = self.end()?;
        let operation = Operation::enter()?;
        let (ticket, lock) = loop {
            let (ticket, lock) = system::message(end.segment.directory())?;
            if end.segment.hold_for_message(operation, ticket)? {
                break (ticket, lock);
            }
        };
        end.hand_over(*receives, ticket).inspect_err(|_| end.segment.release_ticket(ticket.id))?;
        let descriptor = Descriptor { ticket: Some(ticket.id), ..self.descriptor.clone() };
        Ok(HandedOver { handle: descriptor.to_handle(), lock })
    }

    /// Joins, in a forked child, with the end that its parent handed over before the fork.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn adopt(&self, handle: &str) -> Result<()> {
        let sought = HandleOrName::parse(handle)?;
        sought.check(&self.descriptor)?;
        let end = self.end_or_join(sought.ticket())?;
        sought.ticket().into_iter().for_each(|ticket| end.segment.release_ticket(ticket));
        Ok(())
    }
}
