//! Creating a segment with one array.

use std::sync::Arc;

use super::held::Segment;
use super::hold::{Hold, enter};
use crate::header::control;
use crate::header::format::Header;
use crate::memory::mapping::{Fill, Mapped};
use crate::memory::operation::Awaited;
use crate::system::{self, Access, Directory};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, random_generation};

/// The options of a new array that its segment needs.
#[derive(Debug, Clone, Default)]
pub(crate) struct CreationOptions {
    pub(crate) name: Option<ArrayName>,
    pub(crate) persist: bool,
    pub(crate) mode: u32,
}

impl CreationOptions {
    /// Readers that may not write the header cannot take an entry, so a mode that admits readers
    /// makes the segment LOCK_ONLY.
    fn flags(&self, header: &Header) -> u64 {
        // Those who read a channel without an end hold nothing.
        let readers = self.mode & 0o044 != 0 && header.channel.is_none();
        if readers { control::LOCK_ONLY } else { 0 }
    }

    /// Whether the array cannot lie in a cell.
    pub(crate) fn needs_own_segment(&self) -> bool {
        self.name.is_some() || self.persist || self.mode != 0o600
    }
}

/// Makes a file for a segment, with its memory reserved unless `fill` writes it in pieces. No other
/// process can see it.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Os`]; [`Error::Unsupported`] for an array that persists, if the
/// backend cannot.
pub(crate) fn reserve(
    directory: &Directory,
    header: &Header,
    options: &CreationOptions,
    fill: &Fill<'_>,
) -> Result<system::SegmentFile> {
    if options.persist && !system::CAN_PERSIST {
        return Err(Error::Unsupported { what: "an array that persists, on this platform" });
    }
    let bytes = header.segment_bytes();
    let reserved = if fill.is_in_pieces() { header.header_bytes } else { bytes };
    system::SegmentFile::create(directory.clone(), &header.id, bytes, reserved, options.mode)
}

impl Segment {
    /// Makes a segment from a file that [`reserve`] made. No other process sees it before it is
    /// complete.
    ///
    /// # Safety
    /// The elements of `fill` can be read, and are as many as the header's layout has.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn create(
        _operation: &Awaited,
        file: system::SegmentFile,
        header: Header,
        options: &CreationOptions,
        fill: &Fill<'_>,
    ) -> Result<Arc<Self>> {
        // SAFETY: the elements can be read, as the caller promises, and the file has room for them,
        // since `reserve` made it as large as the header says.
        let is_filled = unsafe { fill.write(&file, header.header_bytes)? };
        let mapped = Mapped::map(&file, header, Access::ReadWrite)?;
        mapped.write_header();
        if !is_filled {
            mapped.prepare_stores(if fill.stores(true) { mapped.header.data_bytes } else { 0 });
            // SAFETY: the data is mapped writable, is as large as the array, and is used by no
            // other thread, because the segment is not published yet. The elements can be read, as
            // the caller promises.
            unsafe { fill.apply(mapped.data(None), mapped.header.data_bytes, true)? };
        }
        let generation = random_generation()?;
        let leases = mapped.leases();
        leases.control.set_generation(generation);
        leases.set_live(options.flags(&mapped.header));
        // No other process has seen the segment, so it is alive.
        let hold = enter(&leases, &mapped, None).unwrap_or(Hold::LockOnly);
        file.publish(&mapped.header.id)?;
        let linked = mapped.header.name.as_ref().map_or(Ok(()), |name| {
            file.link_name(name)?;
            // PERSIST is set last, so that a crash before it leaves nothing that persists without a
            // name.
            let persist = || leases.control.flags().set(control::PERSIST);
            if options.persist { file.mark_named(name, persist) } else { Ok(()) }
        });
        // The open file holds the segment as well. It is closed first, so that if the name was
        // taken, dropping the segment finds no other holder.
        drop(file);
        let data_bytes = mapped.header.data_bytes;
        let segment = Self::new(Arc::new(mapped), None, data_bytes, generation, hold);
        linked.map(|()| segment)
    }
}
