//! The text by which a channel is opened: its handle or its name.

use std::sync::Arc;

use crate::memory::operation::Operation;
use crate::memory::segment::Segment;
use crate::system::{Access, Directory, Lookup};
use crate::value::descriptor::Descriptor;
use crate::value::error::{Error, Result};
use crate::value::name::ArrayName;

/// A channel's handle or name.
pub(super) enum HandleOrName {
    /// The descriptor of the first slot's message.
    Handle(Box<Descriptor>),
    Name(ArrayName),
}

impl HandleOrName {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if !Descriptor::is_handle(text) {
            return Ok(Self::Name(text.parse()?));
        }
        let descriptor = Descriptor::parse(text)?;
        match descriptor.segment.cell {
            Some(_) => Err(Error::handle("segment", "it is an array's, not a channel's")),
            None => Ok(Self::Handle(Box::new(descriptor))),
        }
    }

    /// Returns the ticket of an end that was handed over.
    pub(super) fn ticket(&self) -> Option<u64> {
        match self {
            Self::Handle(descriptor) => descriptor.ticket,
            Self::Name(_) => None,
        }
    }

    /// Returns the error for a channel that is not there.
    pub(super) fn not_found(&self) -> Error {
        let directory = Directory::current().path().to_owned();
        match self {
            Self::Handle(descriptor) => {
                Error::SegmentNotFound { segment: descriptor.segment.to_string(), directory }
            }
            Self::Name(name) => Error::NameNotFound { name: name.to_string(), directory },
        }
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        match self {
            Self::Handle(descriptor) => Lookup::OwnId(&descriptor.segment.id),
            Self::Name(name) => Lookup::Name(name),
        }
    }

    /// Attaches the segment if it is this user's. The owner of a file may truncate it, which kills
    /// whoever has mapped it; the channels of other users are read by calls.
    pub(super) fn attach(&self, operation: Operation) -> Result<Arc<Segment>> {
        match self {
            Self::Handle(descriptor) => {
                Segment::attach_own(operation, descriptor, Access::ReadWrite)
            }
            Self::Name(name) => Segment::attach_name(operation, name, Access::ReadWrite),
        }
    }

    /// Refuses a channel that is not the one of the handle.
    pub(super) fn check(&self, found: &Descriptor) -> Result<()> {
        let Self::Handle(expected) = self else { return Ok(()) };
        let differs = |field: &str| Err(Error::handle(field, "the channel has another"));
        match () {
            () if expected.segment != found.segment => differs("segment"),
            () if expected.generation != found.generation => Err(Error::StaleHandle {
                segment: expected.segment.to_string(),
                expected: expected.generation,
                found: found.generation,
            }),
            () if expected.dtype != found.dtype => differs("dtype"),
            () if expected.layout.shape != found.layout.shape => differs("shape"),
            () if expected.layout.strides != found.layout.strides => differs("strides"),
            () if expected.layout.offset != found.layout.offset => differs("offset"),
            () => Ok(()),
        }
    }
}
