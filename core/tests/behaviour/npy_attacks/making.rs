//! The bytes of files and archives, of which each field can be a lie.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Returns an NPY file of version 1.0 with this text.
pub(crate) fn npy_with_text(text: &str, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY\x01\x00"[..], &length, text.as_bytes(), data].concat()
}

/// Returns an NPY file of version 2.0 or 3.0 with this text.
pub(crate) fn npy_with_long_text(version: u8, text: &str, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap().to_le_bytes();
    [&b"\x93NUMPY"[..], &[version, 0], &length, text.as_bytes(), data].concat()
}

pub(crate) fn text_of(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
}

/// Returns an NPY file with this `descr` and `shape`.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_with_text(&text_of(descr, shape), data)
}

/// Returns an NPY file of so many bytes, each of which tells its place.
pub(crate) fn npy_of_bytes(count: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..count).map(|at| (at * 31 % 251) as u8).collect();
    npy("'|u1'", &format!("({count},)"), &data)
}

pub(crate) fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// What a header of an archive says of a member: its own header, or that in the directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) flags: u16,
    pub(crate) method: u16,
    pub(crate) crc: u32,
    pub(crate) compressed: u32,
    pub(crate) size: u32,
    pub(crate) extra: Vec<u8>,
    /// Where the member begins, if the directory lies.
    pub(crate) offset: Option<u32>,
}

impl Header {
    /// The fields from the flags to the extra fields' length, which both headers have.
    fn common(&self) -> Vec<u8> {
        let lengths = [self.name.len(), self.extra.len()].map(|length| length as u16);
        [
            [self.flags, self.method, 0, 0x21].map(u16::to_le_bytes).concat(),
            [self.crc, self.compressed, self.size].map(u32::to_le_bytes).concat(),
            lengths.map(u16::to_le_bytes).concat(),
        ]
        .concat()
    }

    fn local(&self) -> Vec<u8> {
        [b"PK\x03\x04\x14\x00", &self.common()[..], &self.name, &self.extra].concat()
    }

    fn entry(&self, offset: u32) -> Vec<u8> {
        let offset = self.offset.unwrap_or(offset).to_le_bytes();
        let rest = [&[0; 10][..], &offset, &self.name, &self.extra].concat();
        [b"PK\x01\x02\x14\x00\x14\x00", &self.common()[..], &rest].concat()
    }
}

/// A member of an archive.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) own: Header,
    pub(crate) data: Vec<u8>,
    /// What follows the data, such as a data descriptor.
    pub(crate) behind: Vec<u8>,
    pub(crate) listed: Header,
}

impl Member {
    /// Returns a member of which both headers say the truth.
    fn new(name: &str, method: u16, bytes: &[u8], data: Vec<u8>) -> Self {
        let header = Header {
            name: name.as_bytes().to_vec(),
            method,
            crc: crc32fast::hash(bytes),
            compressed: data.len() as u32,
            size: bytes.len() as u32,
            ..Header::default()
        };
        Self { own: header.clone(), data, behind: Vec::new(), listed: header }
    }

    pub(crate) fn stored(name: &str, bytes: &[u8]) -> Self {
        Self::new(name, 0, bytes, bytes.to_vec())
    }

    pub(crate) fn deflated(name: &str, bytes: &[u8]) -> Self {
        Self::new(name, 8, bytes, deflated(bytes))
    }

    /// Changes both headers.
    pub(crate) fn both(mut self, change: impl Fn(&mut Header)) -> Self {
        change(&mut self.own);
        change(&mut self.listed);
        self
    }

    /// Changes what the directory says.
    pub(crate) fn listed(mut self, change: impl Fn(&mut Header)) -> Self {
        change(&mut self.listed);
        self
    }

    /// Changes what the member's own header says.
    pub(crate) fn own(mut self, change: impl Fn(&mut Header)) -> Self {
        change(&mut self.own);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.own.local(), &self.data, &self.behind].map(|part| &part[..]).concat()
    }
}

/// What the end of an archive says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) count: u16,
    pub(crate) size: u32,
    pub(crate) offset: u32,
}

impl End {
    fn bytes(self) -> Vec<u8> {
        let Self { count, size, offset } = self;
        let count = count.to_le_bytes();
        let sizes = [size, offset].map(u32::to_le_bytes).concat();
        [b"PK\x05\x06\0\0\0\0", &count[..], &count, &sizes, &[0; 2]].concat()
    }
}

pub(crate) fn archive(members: &[Member]) -> Vec<u8> {
    archive_with_end(members, |end| end)
}

/// Returns an archive whose end is another one.
pub(crate) fn archive_with_end(members: &[Member], change: impl Fn(End) -> End) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for member in members {
        directory.extend(member.listed.entry(bytes.len() as u32));
        bytes.extend(member.bytes());
    }
    let count = members.len() as u16;
    let size = directory.len() as u32;
    let end = change(End { count, size, offset: bytes.len() as u32 });
    [bytes, directory, end.bytes()].concat()
}

/// Returns an extra field with 64-bit numbers.
pub(crate) fn zip64(numbers: &[u64]) -> Vec<u8> {
    let length = (numbers.len() as u16 * 8).to_le_bytes();
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    [&1u16.to_le_bytes()[..], &length, &numbers].concat()
}
