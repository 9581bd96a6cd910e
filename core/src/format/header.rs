//! The header of a segment: written by its creator, validated by every reader.
//!
//! The invariants I1 to I3 are those of the module above.

use std::mem::{offset_of, size_of};

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::constants::{
    CONTROL_WORDS_OFFSET, DESCRIPTION_BYTES, DESCRIPTION_OFFSET, KIND_ARRAY, KIND_SLAB,
    KNOWN_FEATURES, LAYOUT_MAJOR, LAYOUT_MINOR, LEASE_BYTES, LEASES_OFFSET, MAGIC,
    MAX_HEADER_BYTES, MAX_LEASES, PAGE_BYTES, POOL_LEASES,
};
use super::slab::{HEADS_OFFSET, LARGE_HEAD_BYTES, MAX_CELLS, SMALL_HEAD_BYTES, SlabLayout};
use crate::dtype::{DType, MAX_DTYPE_BYTES};
use crate::error::{Error, Result};
use crate::name::{ArrayName, ID_BYTES, MAX_NAME_BYTES, SegmentId};
use crate::shape::{Layout, MAX_NDIM, Order, size_bytes};

/// Bytes 0 to 127: the identity and the sizes of the segment. They never change.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone)]
#[repr(C)]
struct Preamble {
    magic: [u8; 8],
    layout_major: U32,
    layout_minor: U32,
    required_features: U64,
    optional_features: U64,
    id: [u8; ID_BYTES],
    header_bytes: U64,
    segment_bytes: U64,
    data_bytes: U64,
    kind: U32,
    creator_pid: U32,
    created_ns: U64,
    description_offset: U32,
    description_bytes: U32,
    leases_offset: U32,
    leases_count: U32,
    cell_bytes: U64,
    cells: U32,
    head_bytes: U32,
}

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
    assert!(size_of::<Preamble>() == CONTROL_WORDS_OFFSET);
    assert!(offset_of!(Preamble, id) == 32);
    assert!(offset_of!(Preamble, header_bytes) == 56);
    assert!(offset_of!(Preamble, segment_bytes) == 64);
    assert!(offset_of!(Preamble, data_bytes) == 72);
    assert!(offset_of!(Preamble, kind) == 80);
    assert!(offset_of!(Preamble, creator_pid) == 84);
    assert!(offset_of!(Preamble, created_ns) == 88);
    assert!(offset_of!(Preamble, description_offset) == 96);
    assert!(offset_of!(Preamble, leases_offset) == 104);
    assert!(offset_of!(Preamble, cell_bytes) == 112);
    assert!(offset_of!(Preamble, cells) == 120);
    assert!(offset_of!(Preamble, head_bytes) == 124);
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
        let (creator_pid, created_ns) = (std::process::id(), now_ns());
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
        })
    }

    /// Makes the header of a new slab.
    pub(crate) fn of_slab(id: SegmentId, layout: SlabLayout, page_bytes: u64) -> Result<Self> {
        let (dtype, data_bytes) =
            (DType::parse("|u1")?, layout.cell_bytes * u64::from(layout.cells));
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
        put(&mut bytes, 0, self.preamble(start, room).as_bytes());
        put(&mut bytes, start, self.description().as_bytes());
        put(&mut bytes, start + size_of::<Description>(), self.dtype.json().as_bytes());
        bytes
    }

    fn preamble(&self, description_offset: usize, description_bytes: usize) -> Preamble {
        Preamble {
            magic: MAGIC,
            layout_major: LAYOUT_MAJOR.into(),
            layout_minor: LAYOUT_MINOR.into(),
            required_features: KNOWN_FEATURES.into(),
            optional_features: 0.into(),
            id: *self.id.as_bytes(),
            header_bytes: self.header_bytes.into(),
            segment_bytes: self.segment_bytes().into(),
            data_bytes: self.data_bytes.into(),
            kind: if self.slab_layout.is_some() { KIND_SLAB } else { KIND_ARRAY }.into(),
            creator_pid: self.creator_pid.into(),
            created_ns: self.created_ns.into(),
            description_offset: (description_offset as u32).into(),
            description_bytes: (description_bytes as u32).into(),
            leases_offset: (LEASES_OFFSET as u32).into(),
            leases_count: self.leases_count.into(),
            cell_bytes: self.slab_layout.map_or(0, |layout| layout.cell_bytes).into(),
            cells: self.slab_layout.map_or(0, |layout| layout.cells).into(),
            head_bytes: self.slab_layout.map_or(0, |layout| layout.head_bytes).into(),
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
        Ok(end.clamp(PAGE_BYTES, preamble.header_bytes.get()))
    }

    /// Validates all of a copied header.
    pub(crate) fn read(label: &str, bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let preamble = Preamble::read(label, bytes, file_bytes)?;
        let description = preamble.description(label, bytes)?;
        let itemsize = description.dtype.itemsize();
        let fits = description.layout.check(itemsize, preamble.data_bytes.get());
        fits.map_err(|error| invalid(label, "shape", "an array inside the data", error))?;
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
        })
    }
}

impl Preamble {
    /// Checks I1 and I2, the versions and the kind.
    fn read(label: &str, bytes: &[u8], file_bytes: u64) -> Result<Self> {
        let (preamble, _) = Self::read_from_prefix(bytes)
            .map_err(|_| invalid(label, "size", "a header of at least 4096 bytes", file_bytes))?;
        if preamble.magic != MAGIC {
            return Err(invalid(label, "magic", "\"shmarray\"", preamble.magic.escape_ascii()));
        }
        preamble.check_version(label)?;
        preamble.check_sizes(label, file_bytes)?;
        preamble.check_leases(label)?;
        match preamble.kind.get() {
            KIND_ARRAY => Ok(preamble),
            KIND_SLAB => preamble.check_cells(label).map(|()| preamble),
            kind => Err(invalid(label, "kind", "1 (array) or 2 (cells)", kind)),
        }
    }

    fn slab_layout(&self) -> Option<SlabLayout> {
        let (cells, head_bytes) = (self.cells.get(), self.head_bytes.get());
        let layout = SlabLayout { cell_bytes: self.cell_bytes.get(), cells, head_bytes };
        (self.kind.get() == KIND_SLAB).then_some(layout)
    }

    fn check_cells(&self, label: &str) -> Result<()> {
        let (cell_bytes, cells) = (self.cell_bytes.get(), u64::from(self.cells.get()));
        let head_bytes = self.head_bytes.get();
        if !head_bytes.is_multiple_of(SMALL_HEAD_BYTES)
            || !(SMALL_HEAD_BYTES..=LARGE_HEAD_BYTES).contains(&head_bytes)
        {
            return Err(invalid(
                label,
                "head_bytes",
                "a multiple of 512, at most 4096",
                head_bytes,
            ));
        }
        let heads = HEADS_OFFSET as u64 + cells * u64::from(head_bytes);
        if !(1..=u64::from(MAX_CELLS)).contains(&cells) || heads > self.header_bytes.get() {
            return Err(invalid(label, "cells", "a number whose heads fit the header", cells));
        }
        match cell_bytes % PAGE_BYTES == 0
            && cell_bytes.checked_mul(cells).is_some_and(|all| all <= self.data_bytes.get())
        {
            true => Ok(()),
            false => Err(invalid(label, "cell_bytes", "whole pages that fit the data", cell_bytes)),
        }
    }

    fn check_version(&self, label: &str) -> Result<()> {
        let unknown = |needs: String| Error::UnknownLayout { segment: label.to_owned(), needs };
        if self.layout_major.get() != LAYOUT_MAJOR {
            return Err(unknown(format!("layout {}.{}", self.layout_major, self.layout_minor)));
        }
        match self.required_features.get() & !KNOWN_FEATURES {
            0 => Ok(()),
            bits => Err(unknown(format!("features {bits:#x}"))),
        }
    }

    fn check_sizes(&self, label: &str, file_bytes: u64) -> Result<()> {
        let header_bytes = self.header_bytes.get();
        let whole = header_bytes.is_multiple_of(PAGE_BYTES)
            && (PAGE_BYTES..=MAX_HEADER_BYTES).contains(&header_bytes);
        if !whole {
            return Err(invalid(label, "header_bytes", "whole pages, at most 2 MiB", header_bytes));
        }
        let segment_bytes = self.segment_bytes.get();
        if segment_bytes > file_bytes.min(isize::MAX as u64) {
            return Err(invalid(
                label,
                "segment_bytes",
                format!("at most the file's {file_bytes}"),
                segment_bytes,
            ));
        }
        match header_bytes.checked_add(self.data_bytes.get()) {
            Some(end) if end <= segment_bytes => Ok(()),
            _ => Err(invalid(
                label,
                "data_bytes",
                format!("at most {segment_bytes} less the header"),
                self.data_bytes,
            )),
        }
    }

    fn check_leases(&self, label: &str) -> Result<()> {
        if self.leases_offset.get() as usize != LEASES_OFFSET {
            return Err(invalid(
                label,
                "leases_offset",
                LEASES_OFFSET.to_string(),
                self.leases_offset,
            ));
        }
        match self.leases_count.get() {
            0..=MAX_LEASES => Ok(()),
            count => Err(invalid(label, "leases_count", format!("at most {MAX_LEASES}"), count)),
        }
    }

    fn checked_id(&self, label: &str) -> Result<SegmentId> {
        let found = || invalid(label, "id", "24 characters of a-z2-7", self.id.escape_ascii());
        SegmentId::from_bytes(&self.id).ok_or_else(found)
    }

    fn description(&self, label: &str, bytes: &[u8]) -> Result<Described> {
        let (start, room) = (self.description_offset.get(), self.description_bytes.get());
        let end = u64::from(start) + u64::from(room);
        if start < DESCRIPTION_OFFSET as u32 || end > self.header_bytes.get() {
            return Err(invalid(label, "description_offset", "an offset in the header", start));
        }
        let area = bytes.get(start as usize..end as usize);
        Description::read(label, area.unwrap_or_default())
    }
}

/// The values of a [`Description`].
struct Described {
    name: Option<ArrayName>,
    dtype: DType,
    layout: Layout,
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
        match dtype.itemsize() == self.itemsize.get() {
            true => Ok(dtype),
            false => Err(invalid(label, "itemsize", dtype.itemsize().to_string(), self.itemsize)),
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

fn now_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| since.as_nanos() as u64)
}

fn invalid(
    label: &str,
    field: &'static str,
    expected: impl Into<String>,
    found: impl ToString,
) -> Error {
    let found = found.to_string();
    Error::InvalidSegment { segment: label.to_owned(), field, expected: expected.into(), found }
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
