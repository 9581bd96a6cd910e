//! The records of a ZIP archive, byte for byte as `numpy.savez` writes them with Python's zipfile.
//!
//! No library writes these bytes: each member says in a ZIP64 field how large it is before its
//! data, whatever its size, and its time is 1980-01-01.
//!
//! Source: PKWARE, APPNOTE.TXT, sections 4.3.7 to 4.3.16; Python, `zipfile.ZipInfo.FileHeader` and
//! `ZipFile._write_end_record`.

/// The version of ZIP with 64-bit sizes.
const ZIP64_VERSION: u16 = 45;
/// From here on Python writes sizes and offsets in a ZIP64 field.
const ZIP64_LIMIT: u64 = (1 << 31) - 1;
const COUNT_LIMIT: u64 = (1 << 16) - 1;
/// Names are in UTF-8.
const UTF_8: u16 = 1 << 11;
const UNIX: u16 = 3 << 8;
/// 1980-01-01 as MS-DOS has it.
const DATE: u16 = 0x21;
/// A regular file's permissions 0600, as Unix has them.
const MODE: u32 = 0o600 << 16;
const DEFLATED: u16 = 8;
/// The header of a member without its name and extra fields.
const LOCAL_HEADER_BYTES: u64 = 30;
/// The extra field with both sizes, and that of the padding without its zeros.
const SIZES_BYTES: u64 = 20;
const PADDING_BYTES: u64 = 6;

/// The CRC and the sizes follow the data.
const STREAMED: u16 = 1 << 3;
/// The extra field that fills a header up, as Android's zipalign has it.
const PADDING: u16 = 0xD935;

/// A member that is being written, or was.
pub(super) struct ZipMember {
    name: String,
    is_deflated: bool,
    /// Whether the CRC and the sizes follow the data.
    pub(super) is_streamed: bool,
    /// The alignment of its data in the archive.
    align: u16,
    /// Where its header begins in the archive.
    pub(super) offset: u64,
    pub(super) crc: u32,
    pub(super) size: u64,
    pub(super) compressed: u64,
}

impl ZipMember {
    pub(super) fn new(
        name: String,
        is_deflated: bool,
        is_streamed: bool,
        align: u16,
        offset: u64,
    ) -> Self {
        Self { name, is_deflated, is_streamed, align, offset, crc: 0, size: 0, compressed: 0 }
    }

    fn flags(&self) -> u16 {
        let name = if self.name.is_ascii() { 0 } else { UTF_8 };
        let stream = if self.is_streamed { STREAMED } else { 0 };
        name | stream
    }

    /// Returns the fields from the flags to the CRC, which both headers of a member have.
    fn common(&self, crc: u32) -> Vec<u8> {
        let method = if self.is_deflated { DEFLATED } else { 0 };
        let shorts = [self.flags(), method, 0, DATE].map(u16::to_le_bytes).concat();
        [&shorts[..], &crc.to_le_bytes()].concat()
    }

    /// Returns the header in front of the member's data, which has the same length before and after
    /// the CRC and the sizes are known.
    pub(super) fn local_header(&self) -> Vec<u8> {
        let (crc, sizes) = if self.is_streamed {
            (0, zip64(&[0, 0]))
        } else {
            (self.crc, zip64(&[self.size, self.compressed]))
        };
        let extra = [sizes, self.padding()].concat();
        [
            &b"PK\x03\x04"[..],
            &ZIP64_VERSION.to_le_bytes(),
            &self.common(crc),
            &[0xFF; 8], // both sizes are in the ZIP64 field
            &(self.name.len() as u16).to_le_bytes(),
            &(extra.len() as u16).to_le_bytes(),
            self.name.as_bytes(),
            &extra,
        ]
        .concat()
    }

    /// Returns the extra field with which the data begins at the alignment.
    fn padding(&self) -> Vec<u8> {
        if self.align < 2 {
            return Vec::new();
        }
        let fields = LOCAL_HEADER_BYTES + self.name.len() as u64 + SIZES_BYTES + PADDING_BYTES;
        let end = self.offset + fields;
        let fill = end.next_multiple_of(self.align.into()) - end;
        let head = [PADDING, 2 + fill as u16, self.align].map(u16::to_le_bytes).concat();
        [head, vec![0; fill as usize]].concat()
    }

    /// Returns what follows the data of a member that is streamed.
    pub(super) fn descriptor(&self) -> Vec<u8> {
        let sizes = [self.compressed, self.size].map(u64::to_le_bytes).concat();
        [&b"PK\x07\x08"[..], &self.crc.to_le_bytes(), &sizes].concat()
    }

    /// Returns the member's entry in the directory.
    fn entry(&self) -> Vec<u8> {
        let mut large = Vec::new();
        let are_large = self.size > ZIP64_LIMIT || self.compressed > ZIP64_LIMIT;
        let mut short = |values: &[u64], is_large: bool| {
            if is_large {
                large.extend_from_slice(values);
            }
            let shorts = values.iter().map(|value| if is_large { u32::MAX } else { *value as u32 });
            shorts.collect::<Vec<_>>()
        };
        let sizes = short(&[self.size, self.compressed], are_large);
        let offset = short(&[self.offset], self.offset > ZIP64_LIMIT);
        let extra = if large.is_empty() { Vec::new() } else { zip64(&large) };
        [
            &b"PK\x01\x02"[..],
            &(ZIP64_VERSION | UNIX).to_le_bytes(),
            &ZIP64_VERSION.to_le_bytes(),
            &self.common(self.crc),
            &sizes[1].to_le_bytes(),
            &sizes[0].to_le_bytes(),
            &(self.name.len() as u16).to_le_bytes(),
            &(extra.len() as u16).to_le_bytes(),
            &[0; 6], // no comment, the first disk, no internal attributes
            &MODE.to_le_bytes(),
            &offset[0].to_le_bytes(),
            self.name.as_bytes(),
            &extra,
        ]
        .concat()
    }
}

/// Returns the directory of an archive whose members end at `offset`, and the end of the archive.
pub(super) fn directory(members: &[ZipMember], offset: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = members.iter().flat_map(ZipMember::entry).collect();
    let count = members.len() as u64;
    let size = bytes.len() as u64;
    if count > COUNT_LIMIT || size > ZIP64_LIMIT || offset > ZIP64_LIMIT {
        bytes.extend(zip64_end(count, size, offset));
    }
    let count = (count.min(COUNT_LIMIT) as u16).to_le_bytes();
    let shorts = [size, offset].map(|value| value.min(u32::MAX.into()) as u32);
    let [size, offset] = shorts.map(u32::to_le_bytes);
    bytes.extend([&b"PK\x05\x06"[..], &[0; 4], &count, &count, &size, &offset, &[0; 2]].concat());
    bytes
}

/// Returns the ZIP64 end of the directory, and its locator.
fn zip64_end(count: u64, size: u64, offset: u64) -> Vec<u8> {
    let version = ZIP64_VERSION.to_le_bytes();
    let numbers = [count, count, size, offset].map(u64::to_le_bytes).concat();
    let record = [&b"PK\x06\x06"[..], &44u64.to_le_bytes(), &version, &version, &[0; 8], &numbers];
    let end = (offset + size).to_le_bytes();
    let locator = [&b"PK\x06\x07"[..], &[0; 4], &end, &1u32.to_le_bytes()];
    [record.concat(), locator.concat()].concat()
}

/// Returns an extra field with 64-bit numbers.
fn zip64(values: &[u64]) -> Vec<u8> {
    let head = [1u16.to_le_bytes(), ((values.len() * 8) as u16).to_le_bytes()].concat();
    values.iter().fold(head, |field, value| [&field[..], &value.to_le_bytes()].concat())
}
