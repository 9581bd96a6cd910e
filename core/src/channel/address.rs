//! The text by which a channel is opened: its name, or its handle.

use std::sync::Arc;

use crate::descriptor::Descriptor;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::name::ArrayName;
use crate::segment::Segment;
use crate::shape::Layout;
use crate::sys::{Access, Lookup};

/// A channel's name or handle.
pub(super) enum Address {
    Name(ArrayName),
    /// The handle of the array that is the message in the first slot.
    Handle(Box<Descriptor>),
}

impl Address {
    pub(super) fn parse(text: &str) -> Result<Self> {
        if !text.trim_start().starts_with('{') {
            return Ok(Self::Name(text.parse()?));
        }
        let descriptor = Descriptor::parse(text)?;
        match (descriptor.ticket, descriptor.segment.cell) {
            (Some(_), _) => Err(Error::handle("ticket", "a channel's handle has none")),
            (_, Some(_)) => Err(Error::handle("segment", "it is an array's, not a channel's")),
            (None, None) => Ok(Self::Handle(Box::new(descriptor))),
        }
    }

    pub(super) fn lookup(&self) -> Lookup<'_> {
        match self {
            Self::Name(name) => Lookup::Name(name),
            Self::Handle(descriptor) => Lookup::Id(&descriptor.segment.id),
        }
    }

    pub(super) fn attach(&self) -> Result<Arc<Segment>> {
        match self {
            Self::Name(name) => Segment::attach_name(name, Access::ReadWrite),
            Self::Handle(descriptor) => Segment::attach(descriptor, Access::ReadWrite),
        }
    }

    /// Refuses a channel of another description or generation than the handle says.
    pub(super) fn check(&self, dtype: &DType, layout: &Layout, generation: u64) -> Result<()> {
        let Self::Handle(said) = self else { return Ok(()) };
        let differs = |field: &str| Err(Error::handle(field, "the channel has another"));
        match () {
            () if said.generation != generation => Err(Error::StaleHandle {
                segment: said.segment.to_string(),
                expected: said.generation,
                found: generation,
            }),
            () if said.dtype != *dtype => differs("dtype"),
            () if said.layout.shape != layout.shape => differs("shape"),
            () if said.layout.strides != layout.strides => differs("strides"),
            () if said.layout.offset != 0 => differs("offset"),
            () => Ok(()),
        }
    }
}
