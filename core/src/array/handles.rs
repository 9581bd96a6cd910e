//! Handles: the text by which another process finds an array, and what messages hold.

use super::Array;
use crate::memory::operation::Operation;
use crate::memory::segment;
use crate::system::{self, Directory, Owner};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};

impl Array {
    /// Returns the handle: one line of text by which any process of the machine finds the array.
    ///
    /// A handle holds nothing: some process must hold the array until the other has attached it. To
    /// hand an array over, send it through a `Pipe` or use
    /// [`handle_to_send`](Self::handle_to_send).
    #[must_use]
    pub fn handle(&self) -> String {
        self.descriptor().to_handle()
    }

    /// Returns the descriptor, of which the handle is the text.
    #[must_use]
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            segment: self.segment().text(),
            generation: self.segment().generation(),
            dtype: self.dtype.clone(),
            layout: self.layout().clone(),
            ticket: None,
        }
    }

    /// Returns a handle to be sent out of band: through a socket, a file or a database.
    ///
    /// From now on a ticket holds the array, even after this process ends: until the handle is
    /// attached or [`discard`]ed, or until the last process of this process's family ends. A family
    /// is the first process that uses the library and all processes that are forked from it
    /// afterwards; a program that is started by exec has a family of its own. Each call makes a
    /// ticket of its own.
    ///
    /// ```
    /// use shmarray::{Access, Array, DType, Options, discard};
    /// # if cfg!(any(shmarray_portable, not(target_os = "linux"))) { return Ok(()); }
    /// let a = Array::create(DType::parse("<i4")?, &[3], &Options::default())?;
    /// let (first, second) = (a.handle_to_send()?, a.handle_to_send()?);
    /// drop(a); // two messages hold it
    /// let a = Array::attach(&first, Access::ReadWrite)?;
    /// discard(&second)?;
    /// assert!(Array::attach(&first, Access::ReadOnly).is_ok()); // as long as somebody has it
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::Unsupported`] on the portable backend.
    pub fn handle_to_send(&self) -> Result<String> {
        self.descriptor_to_send().map(|descriptor| descriptor.to_handle())
    }

    /// Returns the descriptor of [`handle_to_send`](Self::handle_to_send), with its ticket.
    ///
    /// # Errors
    /// As for [`handle_to_send`](Self::handle_to_send).
    pub fn descriptor_to_send(&self) -> Result<Descriptor> {
        let operation = Operation::enter()?;
        loop {
            let ticket = system::family_message(self.segment().directory())?;
            if self.hold_for_message(operation, ticket)? {
                return Ok(Descriptor { ticket: Some(ticket.id), ..self.descriptor() });
            }
        }
    }

    /// Gives back what the message of a descriptor holds, without attaching the array. Returns
    /// whether the message held it until now.
    pub(crate) fn discard_descriptor(descriptor: &Descriptor) -> Result<bool> {
        let Some(ticket) = descriptor.ticket else { return Ok(false) };
        let operation = Operation::enter()?;
        segment::discard(operation, &Directory::current(), descriptor, ticket)
    }

    /// Makes a message hold the array. `false` when such a ticket exists already.
    pub(crate) fn hold_for_message(&self, operation: Operation, ticket: Owner) -> Result<bool> {
        if self.is_in_slot() {
            return Err(Error::argument("array", "it lies in a slot of a channel: send a copy"));
        }
        if self.segment().is_kept() {
            return Err(Error::argument("array", "it is private to this process: send a copy"));
        }
        self.segment().hold_for_message(operation, ticket)
    }

    pub(crate) fn release_ticket(&self, ticket: u64) {
        self.segment().release_ticket(ticket);
    }

    /// Makes memory that was attached [`CopyOnWrite`](crate::Access::CopyOnWrite)
    /// [`Owned`](crate::Access::Owned), if no page of it was stored to. Returns whether it is now.
    /// For a process that has learned, after it attached, that nobody else has the memory or
    /// attaches it.
    #[must_use]
    pub fn own(&self) -> bool {
        self.segment().own()
    }

    /// Begins to move an array that is [`Owned`](crate::Access::Owned): a message may have its
    /// memory, and whoever receives it owns it. To be called before it is sent, and dropped after
    /// that. Returns `false` if it must be copied, because another array of this process has its
    /// memory, or because a fork has frozen it.
    ///
    /// # Safety
    /// Nothing in this process reads or writes its elements any more.
    #[must_use]
    #[allow(unsafe_code)]
    pub unsafe fn begin_move(&self) -> bool {
        self.is_last_in_process() && self.segment().begin_move()
    }

    /// The same for memory that this process goes on to read.
    pub(crate) fn begin_move_in_use(&self) -> bool {
        self.segment().begin_move()
    }
}

/// Gives back what an unwanted message holds: a handle that [`Array::handle_to_send`] made and that
/// no process will attach. A second call has no effect. For an array that is gone, and for a plain
/// handle, there is nothing to give back.
///
/// # Errors
/// [`Error::InvalidHandle`], [`Error::InvalidSegment`], [`Error::NotOwner`].
pub fn discard(handle: &str) -> Result<()> {
    take_ticket(handle).map(drop)
}

/// Does the same as [`discard`]. Returns whether the message held anything until now: one of
/// several calls does, in whatever processes.
///
/// # Errors
/// As for [`discard`].
pub fn take_ticket(handle: &str) -> Result<bool> {
    match Array::discard_descriptor(&Descriptor::parse(handle)?) {
        Err(Error::SegmentNotFound { .. }) => Ok(false),
        discarded => discarded,
    }
}
