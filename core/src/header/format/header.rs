//! The header of a segment: written by its creator, validated by every reader.
//!
//! The invariants I1 to I3 are those of the module above.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::channel::ChannelLayout;
use super::constants::{
    DESCRIPTION_BYTES, DESCRIPTION_OFFSET, KIND_ARRAY, KIND_CHANNEL, KIND_SLAB, LAYOUT_MAJOR,
    LAYOUT_MINOR, LEASE_BYTES, LEASES_OFFSET, MAGIC, MAX_LEASES, NEEDED_OFFSET, PAGE_BYTES,
    POOL_LEASES,
};
use super::features::{self, Features};
use super::preamble::{Preamble, invalid};
use super::slab::SlabLayout;
use crate::value::dtype::{DType, MAX_DTYPE_BYTES};
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, MAX_NAME_BYTES, SegmentId};
use crate::value::shape::{Layout, MAX_NDIM, Order, size_bytes};

/// The description of the segment's array. The text of its dtype follows the struct.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Description {
    ndim: U32,
    dtype_bytes: U32,
    itemsize: U64,
    offset: U64,
    name_bytes: U32,
    reserved: U32,
    name: [u8; MAX_NAME_BYTES],
    shape: [U64; MAX_NDIM],
    strides: [I64; MAX_NDIM],
}

const _: () = {
    assert!(offset_of!(Description, name) == 32);
    assert!(offset_of!(Description, shape) == 96);
    assert!(offset_of!(Description, strides) == 608);
    assert!(size_of::<Description>() == 1120);
    assert!(size_of::<Description>() < DESCRIPTION_BYTES);
    assert!(LEASES_OFFSET.is_multiple_of(LEASE_BYTES) && LEASES_OFFSET < PAGE_BYTES as usize);
};

/// A validated header, copied out of shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: SegmentId,
    pub(crate) header_bytes: u64,
    /// The number of entries in the lease table; 0 where segments are held by lock alone.
    pub(crate) leases_count: u32,
    pub(crate) data_bytes: u64,
    pub(crate) creator_pid: u32,
    pub(crate) created_ns: u64,
    pub(crate) name: Option<ArrayName>,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    /// The layout of a slab. The array that a slab's header describes is its data as bytes.
    pub(crate) slab_layout: Option<SlabLayout>,
    /// The layout of a channel. The array that a channel's header describes is its first slot's.
    pub(crate) channel: Option<ChannelLayout>,
}

impl Header {
    /// Makes the header of a new segment for one array. It takes whole pages of the system, so that
    /// the data can have another protection.
    pub(crate) fn new(
        id: SegmentId,
        name: Option<ArrayName>,
        dtype: DType,
        layout: Layout,
        page_bytes: u64,
    ) -> Result<Self> {
        let data_bytes = size_bytes(&layout.shape, dtype.itemsize())?;
        let needed = size_of::<Description>() + dtype.json().len();
        let extra = if needed > DESCRIPTION_BYTES { needed as u64 } else { 0 };
        let header_bytes = (PAGE_BYTES + extra).next_multiple_of(page_bytes.max(PAGE_BYTES));
        if header_bytes.checked_add(data_bytes).is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(Error::argument("shape", format!("{data_bytes} bytes cannot be mapped")));
        }
        let creator_pid = std::process::id();
        let created_ns = now_ns();
        Ok(Self {
            id,
            header_bytes,
            leases_count: MAX_LEASES,
            data_bytes,
            creator_pid,
            created_ns,
            name,
            dtype,
            layout,
            slab_layout: None,
            channel: None,
        })
    }

    /// Makes the header of a new slab.
    pub(crate) fn of_slab(id: SegmentId, layout: SlabLayout, page_bytes: u64) -> Result<Self> {
        let dtype = DType::parse("|u1")?;
        let data_bytes = layout.cell_bytes * u64::from(layout.cells);
        let header = Self::new(
            id,
            None,
            dtype,
            Layout::contiguous(&[data_bytes], 1, Order::C)?,
            page_bytes,
        )?;
        let header_bytes =
            (PAGE_BYTES + layout.heads_bytes()).next_multiple_of(page_bytes.max(PAGE_BYTES));
        Ok(Self { header_bytes, leases_count: POOL_LEASES, slab_layout: Some(layout), ..header })
    }

    /// Makes the header of a new channel, whose messages are of this dtype and layout at most.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the channel cannot be mapped, or the dtype is too long.
    pub(crate) fn of_channel(
        id: SegmentId,
        name: Option<ArrayName>,
        (dtype, layout): (DType, Layout),
        channel: ChannelLayout,
        page_bytes: u64,
    ) -> Result<Self> {
        if size_of::<Description>() + dtype.json().len() > DESCRIPTION_BYTES {
            return Err(Error::argument("dtype", "it is too long for a channel"));
        }
        let data_bytes = channel.slot_bytes.checked_mul(u64::from(channel.slots));
        let header = Self::new(id, name, dtype, layout, page_bytes)?;
        let header_bytes = channel.end().next_multiple_of(page_bytes.max(PAGE_BYTES));
        let whole = data_bytes.and_then(|data| data.checked_add(header_bytes));
        match (data_bytes, whole) {
            (Some(data_bytes), Some(whole)) if whole <= isize::MAX as u64 => {
                Ok(Self { header_bytes, data_bytes, channel: Some(channel), ..header })
            }
            _ => Err(Error::argument("slots", "so many slots of this size cannot be mapped")),
        }
    }

    /// Returns the size of the whole segment in bytes.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.header_bytes + self.data_bytes
    }

    /// Returns the header's bytes. The control words and the lease table are zero.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.header_bytes as usize];
        let long = size_of::<Description>() + self.dtype.json().len() > DESCRIPTION_BYTES;
        let start = if long { PAGE_BYTES as usize } else { DESCRIPTION_OFFSET };
        let room = if long { self.header_bytes as usize - start } else { DESCRIPTION_BYTES };
        let features = features::of_new_segments();
        put(&mut bytes, 0, self.preamble(start, room, &features).as_bytes());
        put(&mut bytes, NEEDED_OFFSET, &features.needed.0.to_le_bytes());
        put(&mut bytes, start, self.description().as_bytes());
        put(&mut bytes, start + size_of::<Description>(), self.dtype.json().as_bytes());
        if let Some(channel) = &self.channel {
            channel.write(&mut bytes);
        }
        bytes
    }

    fn preamble(
        &self,
        description_offset: usize,
        description_bytes: usize,
        features: &Features,
    ) -> Preamble {
        let (kind, (cell_bytes, cells, head_bytes)) = match (self.slab_layout, self.channel) {
            (Some(slab), _) => (KIND_SLAB, (slab.cell_bytes, slab.cells, slab.head_bytes)),
            (_, Some(channel)) => (KIND_CHANNEL, channel.cells()),
            (None, None) => (KIND_ARRAY, (0, 0, 0)),
        };
        Preamble {
            magic: MAGIC,
            layout_major: LAYOUT_MAJOR.into(),
            layout_minor: LAYOUT_MINOR.into(),
            required_features: features.required.into(),
            optional_features: features.optional.into(),
            id: *self.id.as_bytes(),
            header_bytes: self.header_bytes.into(),
            segment_bytes: self.segment_bytes().into(),
            data_bytes: self.data_bytes.into(),
            kind: kind.into(),
            creator_pid: self.creator_pid.into(),
            created_ns: self.created_ns.into(),
            description_offset: (description_offset as u32).into(),
            description_bytes: (description_bytes as u32).into(),
            leases_offset: (LEASES_OFFSET as u32).into(),
            leases_count: self.leases_count.into(),
            cell_bytes: cell_bytes.into(),
            cells: cells.into(),
            head_bytes: head_bytes.into(),
        }
    }

    fn description(&self) -> Description {
        let mut description = Description::new_zeroed();
        let name = self.name.as_ref().map_or("", ArrayName::as_str);
        description.ndim = (self.layout.ndim() as u32).into();
        description.dtype_bytes = (self.dtype.json().len() as u32).into();
        description.itemsize = self.dtype.itemsize().into();
        description.offset = self.layout.offset.into();
        description.name_bytes = (name.len() as u32).into();
        description.name[..name.len()].copy_from_slice(name.as_bytes());
        for (dim, (&count, &stride)) in
            self.layout.shape.iter().zip(&self.layout.strides).enumerate()
        {
            description.shape[dim] = count.into();
            description.strides[dim] = stride.into();
        }
        description
    }

    /// Returns the number of bytes that [`Header::read`] needs, from the first page of a file of
    /// `file_bytes`.
    pub(crate) fn bytes_needed(label: &str, first: &[u8], file_bytes: u64) -> Result<u64> {
        let preamble = Preamble::read(label, first, file_bytes)?;
        let end = u64::from(preamble.description_offset.get())
            + u64::from(preamble.description_bytes.get());
        let is_channel = preamble.kind.get() == KIND_CHANNEL;
        let end = if is_channel { end.max(ChannelLayout::FIELDS_END) } else { end };
        Ok(end.clamp(PAGE_BYTES, preamble.header_bytes.get()))
    }

    /// Validates all of a copied header.
    pub(crate) fn read(label: &str, bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let preamble = Preamble::read(label, bytes, file_bytes)?;
        let description = described(&preamble, label, bytes)?;
        let channel = ChannelLayout::read(label, &preamble, bytes)?;
        let room = channel.map_or(preamble.data_bytes.get(), |channel| channel.slot_bytes);
        let fits = description.layout.check(description.dtype.itemsize(), room);
        fits.map_err(|error| invalid(label, "shape", "an array inside the data", error))?;
        if channel.is_some() {
            description.check_fills_a_slot(label)?;
        }
        let header_bytes = preamble.header_bytes.get();
        debug_assert!(header_bytes + preamble.data_bytes.get() <= file_bytes, "I1");
        debug_assert!(header_bytes >= PAGE_BYTES && header_bytes % PAGE_BYTES == 0, "I2");
        Ok(Self {
            id: preamble.checked_id(label)?,
            header_bytes,
            leases_count: preamble.leases_count.get(),
            data_bytes: preamble.data_bytes.get(),
            creator_pid: preamble.creator_pid.get(),
            created_ns: preamble.created_ns.get(),
            name: description.name,
            dtype: description.dtype,
            layout: description.layout,
            slab_layout: preamble.slab_layout(),
            channel,
        })
    }
}

fn described(preamble: &Preamble, label: &str, bytes: &[u8]) -> Result<Described> {
    let start = preamble.description_offset.get();
    let room = preamble.description_bytes.get();
    let end = u64::from(start) + u64::from(room);
    if start < DESCRIPTION_OFFSET as u32 || end > preamble.header_bytes.get() {
        return Err(invalid(label, "description_offset", "an offset in the header", start));
    }
    let area = bytes.get(start as usize..end as usize);
    Description::read(label, area.unwrap_or_default())
}

/// The values of a [`Description`].
struct Described {
    name: Option<ArrayName>,
    dtype: DType,
    layout: Layout,
}

impl Described {
    /// Checks that the elements of a channel's message lie side by side from the start of its slot.
    /// If they overlapped, a message of another shape could be larger than a slot.
    fn check_fills_a_slot(&self, label: &str) -> Result<()> {
        if self.layout.offset != 0 {
            return Err(invalid(label, "offset", "0 in a channel", self.layout.offset));
        }
        if !self.layout.is_contiguous(self.dtype.itemsize(), Order::C) {
            let found = format!("{:?}", self.layout.strides);
            return Err(invalid(label, "strides", "those of C order in a channel", found));
        }
        Ok(())
    }
}

impl Description {
    fn read(label: &str, area: &[u8]) -> Result<Described> {
        let (description, rest) = Self::read_from_prefix(area)
            .map_err(|_| invalid(label, "description_bytes", "at least 1120", area.len()))?;
        Ok(Described {
            name: description.checked_name(label)?,
            dtype: description.checked_dtype(label, rest)?,
            layout: description.checked_layout(label)?,
        })
    }

    fn checked_layout(&self, label: &str) -> Result<Layout> {
        let ndim = self.ndim.get() as usize;
        if ndim > MAX_NDIM {
            return Err(invalid(label, "ndim", "at most 64", ndim));
        }
        let shape = self.shape[..ndim].iter().map(|count| count.get()).collect();
        let strides = self.strides[..ndim].iter().map(|stride| stride.get()).collect();
        Ok(Layout { shape, strides, offset: self.offset.get() })
    }

    fn checked_dtype(&self, label: &str, text: &[u8]) -> Result<DType> {
        let dtype_bytes = self.dtype_bytes.get() as usize;
        if dtype_bytes > text.len().min(MAX_DTYPE_BYTES + 64) {
            return Err(invalid(
                label,
                "dtype_bytes",
                format!("at most {}", text.len()),
                dtype_bytes,
            ));
        }
        let text = std::str::from_utf8(&text[..dtype_bytes])
            .map_err(|error| invalid(label, "dtype", "UTF-8", error))?;
        let dtype =
            DType::from_json(text).map_err(|error| invalid(label, "dtype", "a dtype", error))?;
        if dtype.itemsize() == self.itemsize.get() {
            Ok(dtype)
        } else {
            Err(invalid(label, "itemsize", dtype.itemsize().to_string(), self.itemsize))
        }
    }

    fn checked_name(&self, label: &str) -> Result<Option<ArrayName>> {
        let name_bytes = self.name_bytes.get() as usize;
        if name_bytes == 0 {
            return Ok(None);
        }
        let name = self.name.get(..name_bytes).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.and_then(|name| name.parse().ok());
        name.map(Some).ok_or_else(|| invalid(label, "name", "a name", self.name.escape_ascii()))
    }
}

fn put(bytes: &mut [u8], offset: usize, part: &[u8]) {
    bytes[offset..offset + part.len()].copy_from_slice(part);
}

/// Returns the time in nanoseconds since 1970.
fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(dtype: &str) -> Header {
        let dtype = DType::parse(dtype).unwrap();
        let layout = Layout::contiguous(&[2, 3], dtype.itemsize(), Order::C).unwrap();
        let id = SegmentId::from_bytes(b"abcdefghijklmnopqrstuvwx").unwrap();
        Header::new(id, Some("camera".parse().unwrap()), dtype, layout, 4096).unwrap()
    }

    fn long_dtype() -> String {
        let fields: Vec<_> = (0..40).map(|n| format!(r#"["field_{n:0>90}","<i4"]"#)).collect();
        format!(r#"{{"descr":[{}],"itemsize":160}}"#, fields.join(","))
    }

    #[test]
    fn a_header_reads_back_whatever_its_dtype() {
        for dtype in ["<i4", "<c16", &long_dtype()] {
            let header = header(dtype);
            let bytes = header.write();
            assert_eq!(
                Header::bytes_needed("x", &bytes[..4096], header.segment_bytes()).unwrap(),
                bytes.len() as u64
            );
            assert_eq!(Header::read("x", &bytes, header.segment_bytes()).unwrap(), header);
        }
        assert!(header(&long_dtype()).header_bytes > PAGE_BYTES);
    }

    /// Breaks some bytes and returns the field that the error names.
    fn broken(offset: usize, bytes: &[u8]) -> &'static str {
        let header = header("<i4");
        let mut written = header.write();
        put(&mut written, offset, bytes);
        match Header::read("x", &written, header.segment_bytes()) {
            Err(Error::InvalidSegment { field, .. }) => field,
            Err(Error::UnknownLayout { .. }) => "layout",
            other => panic!("byte {offset}: {other:?}"),
        }
    }

    #[test]
    fn a_layout_and_a_kind_of_a_later_version_are_named() {
        for (offset, number, what) in [(8, 2, "layout 2.0"), (80, 9, "kind 9")] {
            let header = header("<i4");
            let mut written = header.write();
            put(&mut written, offset, &[number, 0, 0, 0]);
            put(&mut written, NEEDED_OFFSET, &(2 << 32 | 5 << 16 | 1u64).to_le_bytes());
            let read = Header::read("x", &written, header.segment_bytes());
            let error = read.unwrap_err().to_string();
            let expected = format!("needs {what} of shmarray 2.5.1, which shmarray 0");
            assert!(error.contains(&expected), "{error}");
        }
    }

    #[test]
    fn each_hostile_field_is_named() {
        let max = [0xff; 8];
        let cases: [(usize, &[u8], &str); 20] = [
            (0, b"SHMARRAY", "magic"),
            (8, &[2, 0, 0, 0], "layout"),
            (16, &[1], "layout"),
            (32, b"../../etc/passwd", "id"),
            (56, &[1], "header_bytes"),
            (56, &max, "header_bytes"),
            (64, &max, "segment_bytes"),
            (64, &[0; 8], "data_bytes"),
            (72, &max, "data_bytes"),
            (72, &[23], "shape"),
            (80, &[9], "kind"),
            (96, &[0, 0, 0, 0], "description_offset"),
            (96, &[0xff, 0xff, 0xff, 0xff], "description_offset"),
            (100, &[8, 0, 0, 0], "description_bytes"),
            (256, &[65], "ndim"),
            (260, &max[..4], "dtype_bytes"),
            (264, &[5], "itemsize"),
            (280, &[65], "name"),
            (352, &max, "shape"),
            (864, &max, "shape"),
        ];
        for (offset, bytes, field) in cases {
            assert_eq!(broken(offset, bytes), field, "byte {offset}");
        }
    }

    #[test]
    fn a_truncated_segment_is_refused() {
        let header = header("<i4");
        let bytes = header.write();
        for file_bytes in [0, 1, 127, 4095, header.segment_bytes() - 1] {
            let there = &bytes[..bytes.len().min(file_bytes as usize)];
            assert!(Header::read("x", there, file_bytes).is_err(), "{file_bytes}");
        }
    }
}
