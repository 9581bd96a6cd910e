//! Creating a channel.

use super::super::check_system;
use super::end::SegmentUse;
use super::handle_or_name::HandleOrName;
use super::opened::Opened;
use super::options::{ChannelOptions, Receives};
use super::reader::not_a_channel;
use super::{CHANNELS, Channel, closed};
use crate::array::create_segment;
use crate::element::Element;
use crate::header::format::{Header, Payload};
use crate::memory::segment::CreationOptions;
use crate::system::Directory;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId};
use crate::value::shape::{Layout, Order};

/// The size of a slot for a handle, in bytes.
const HANDLE_SLOT_BYTES: u64 = 4096;

impl Channel {
    /// Creates a channel whose messages are arrays of this dtype and shape, in C order.
    ///
    /// # Errors
    /// As [`Array::create`](crate::Array::create); [`Error::InvalidArgument`] for a number of slots
    /// or ends that a channel cannot have, for a dtype that is too long for the first page of a
    /// segment, and with `exist_ok` for another description than that of the existing channel.
    pub fn create(
        name: &str,
        dtype: DType,
        shape: &[u64],
        options: &ChannelOptions,
    ) -> Result<Self> {
        let payload = if options.varying { Payload::Varying } else { Payload::Fixed };
        Self::create_or_open(&name.parse()?, &dtype, shape, payload, options)
    }

    /// Creates a channel whose messages are shared arrays outside of the channel: a message
    /// is the handle of one, with a ticket that holds it until it was received.
    ///
    /// # Errors
    /// As [`create`](Self::create); [`Error::InvalidArgument`] for a channel that persists, since
    /// nobody would hold its arrays when no process has it open.
    pub fn create_by_handle(name: &str, options: &ChannelOptions) -> Result<Self> {
        options.check_for_handles()?;
        let dtype = u8::dtype();
        let shape = [HANDLE_SLOT_BYTES];
        Self::create_or_open(&name.parse()?, &dtype, &shape, Payload::Handle, options)
    }

    fn create_or_open(
        name: &ArrayName,
        dtype: &DType,
        shape: &[u64],
        payload: Payload,
        options: &ChannelOptions,
    ) -> Result<Self> {
        check_system(CHANNELS)?;
        loop {
            let created = Self::create_new(name, dtype, shape, payload, options);
            if !options.exist_ok || !matches!(created, Err(Error::NameExists { .. })) {
                return created;
            }
            let sought = HandleOrName::Name(name.clone());
            let existing = Self::open_segment(&sought).and_then(|(opened, segment_use)| {
                check_same(&opened, dtype, shape, payload, options)?;
                Self::join_existing(&sought, opened, segment_use, Receives::Later)
            });
            match existing {
                Err(Error::NameNotFound { .. }) => {} // it ended meanwhile
                existing => return existing,
            }
        }
    }

    fn create_new(
        name: &ArrayName,
        dtype: &DType,
        shape: &[u64],
        payload: Payload,
        options: &ChannelOptions,
    ) -> Result<Self> {
        let layout = Layout::contiguous(shape, dtype.itemsize(), Order::C)?;
        let channel = options.layout(payload, layout.len() * dtype.itemsize())?;
        let creation = options.creation()?;
        let creation = CreationOptions { name: Some(name.clone()), ..creation };
        let id = SegmentId::random()?;
        let page_bytes = Directory::current().page_bytes();
        let array = (dtype.clone(), layout);
        let header = Header::of_channel(id, creation.name.clone(), array, channel, page_bytes)?;
        let segment = create_segment(header, &creation)?;
        let opened = Opened::new(segment).ok_or_else(not_a_channel)?;
        let segment_use = SegmentUse::begin(&opened.segment).ok_or_else(closed)?;
        Self::join(opened, segment_use, Receives::Later, None)
    }
}

/// Refuses an existing channel that differs from the one that was to be created.
fn check_same(
    opened: &Opened,
    dtype: &DType,
    shape: &[u64],
    payload: Payload,
    options: &ChannelOptions,
) -> Result<()> {
    let layout = opened.words.layout();
    let described = opened.segment.described();
    let creation = options.creation()?;
    let refuse = |reason: String| Err(Error::argument("name", reason));
    let differs = |what: &str| refuse(format!("the channel of this name has another {what}"));
    match () {
        () if described.0 != dtype => differs("dtype"),
        () if described.1.shape != shape => differs("shape"),
        () if layout.payload != payload => differs("kind of message"),
        () if layout.mode != options.mode => differs("mode"),
        () if layout.when_full != options.when_full => differs("`when_full`"),
        () if layout.slots != options.slots => differs("number of slots"),
        () if layout.ends != options.ends => differs("number of ends"),
        () if opened.segment.file_mode()? != creation.mode => differs("file mode"),
        () if opened.segment.persists() != creation.persist => refuse(format!(
            "the channel of this name {}",
            if creation.persist { "does not persist" } else { "persists" }
        )),
        () => Ok(()),
    }
}
