//! The header of an NPY file: read strictly, and written byte for byte as NumPy writes it.
//!
//! | bytes | are |
//! |---|---|
//! | 6 | `\x93NUMPY` |
//! | 2 | the version: 1.0, 2.0 or 3.0 |
//! | 2, or 4 from version 2.0 on | the length of the text, little endian |
//! | … | the text: a dictionary of `descr`, `fortran_order` and `shape`, in Latin-1, in version 3.0 in UTF-8, filled up with spaces and a line feed |
//!
//! Then the elements follow, side by side.
//!
//! Source: NumPy, `numpy.lib.format`, "Format Version 1.0" to "3.0".

use std::borrow::Cow;

use super::descr::{self, Items};
use super::fault::{Fault, Place, short};
use super::literal::Literal;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order, size_bytes};

/// The first bytes of an NPY file.
pub(super) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// The bytes before the text: at most the magic, the version and four bytes of a length.
pub(super) const PREFIX_BYTES: usize = 12;
/// The longest text. NumPy itself reads 10,000 bytes unless it is told otherwise.
const TEXT_BYTES_MOST: u64 = 1 << 20;
/// The elements begin at a multiple of this.
const ALIGNMENT: usize = 64;
/// The room that NumPy leaves for the number of elements along the dimension that can grow.
const GROWTH_DIGITS: usize = 21;

/// The header of an NPY file: what its elements are, and where they begin.
///
/// ```
/// use shmarray::{DType, Order, npy::NpyHeader};
/// let header = NpyHeader::new(DType::parse("<f8")?, &[3, 4], Order::C)?;
/// let bytes = header.to_bytes()?;
/// assert_eq!(bytes.len(), 128);
/// let read = NpyHeader::parse(&bytes)?;
/// assert_eq!((read.shape(), read.data_offset(), read.data_bytes()), (&[3, 4][..], 128, 96));
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NpyHeader {
    items: Items,
    layout: Layout,
    order: Order,
    data_offset: u64,
    data_bytes: u64,
}

impl NpyHeader {
    /// Returns the header of an array that is to be written.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the size overflows.
    pub fn new(dtype: DType, shape: &[u64], order: Order) -> Result<Self> {
        let layout = Layout::contiguous(shape, dtype.itemsize(), order)?;
        let data_bytes = size_bytes(shape, dtype.itemsize())?;
        Ok(Self { items: Items::Of(dtype), layout, order, data_offset: 0, data_bytes })
    }

    /// Reads a header from the first bytes of a file. More bytes may follow it.
    ///
    /// # Errors
    /// [`Error::InvalidFile`], which names the field.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Self::read(bytes).map_err(|fault| Place::Memory.invalid(None, fault))
    }

    /// Returns the size of the header that begins with these bytes: 12, or fewer if the file is
    /// shorter.
    ///
    /// # Errors
    /// As for [`NpyHeader::parse`].
    pub fn size_bytes(start: &[u8]) -> Result<u64> {
        let size = Self::size(start).map_err(|fault| Place::Memory.invalid(None, fault))?;
        Ok(size.total)
    }

    pub(super) fn read(bytes: &[u8]) -> std::result::Result<Self, Fault> {
        let size = Self::size(bytes)?;
        let Some(header) = bytes.get(..size.total as usize) else {
            return Err(Fault::new(
                "header",
                format!("{} bytes are needed, the file has {}", size.total, bytes.len()),
            ));
        };
        let text = &header[size.prefix..];
        let text = match bytes[6] {
            3 => std::str::from_utf8(text).map(Cow::Borrowed).map_err(|_| not_text("UTF-8"))?,
            _ => latin_1(text),
        };
        let Literal::Dictionary(fields) = Literal::parse(&text, bytes[6] < 3)? else {
            return Err(Fault::new("header", "it is not a dictionary"));
        };
        Self::of_fields(fields, size.total)
    }

    /// Returns the size of the header that begins with these bytes: at most [`PREFIX_BYTES`], fewer
    /// if the file is shorter.
    pub(super) fn size(bytes: &[u8]) -> std::result::Result<Size, Fault> {
        if !bytes.starts_with(MAGIC) {
            let found = &bytes[..bytes.len().min(MAGIC.len())];
            let reason = format!("an NPY file begins with \\x93NUMPY, this one with {found:02x?}");
            return Err(Fault::new("magic", reason));
        }
        let Some(version) = bytes.get(6..8) else {
            return Err(Fault::new("version", "the file ends before it"));
        };
        let length_bytes = match version {
            [1, 0] => 2,
            [2 | 3, 0] => 4,
            [major, minor] => {
                let reason = format!("{major}.{minor} is none of 1.0, 2.0 and 3.0");
                return Err(Fault::new("version", reason));
            }
            _ => return Err(Fault::new("version", "the file ends before it")),
        };
        let Some(length) = bytes.get(8..8 + length_bytes) else {
            return Err(Fault::new("header length", "the file ends before it"));
        };
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | u64::from(*byte));
        if length > TEXT_BYTES_MOST {
            let reason = format!("{length} bytes are over the limit of {TEXT_BYTES_MOST}");
            return Err(Fault::new("header length", reason));
        }
        let prefix = 8 + length_bytes;
        Ok(Size { prefix, total: prefix as u64 + length })
    }

    fn of_fields(fields: Fields<'_>, data_offset: u64) -> std::result::Result<Self, Fault> {
        let [descr, fortran_order, shape] = three(fields)?;
        let items = descr::read(&descr)?;
        let order = match fortran_order {
            Literal::Truth(true) => Order::F,
            Literal::Truth(false) => Order::C,
            _ => return Err(Fault::new("fortran_order", "it is neither True nor False")),
        };
        let itemsize = match &items {
            Items::Of(dtype) => dtype.itemsize(),
            Items::Objects(_) => 1,
        };
        let counts = counts(&shape)?;
        let layout = Layout::contiguous(&counts, itemsize, order).map_err(shape_fault)?;
        let data_bytes = size_bytes(&counts, itemsize).map_err(shape_fault)?;
        Ok(Self { items, layout, order, data_offset, data_bytes })
    }

    /// Returns the dtype.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for items with Python objects, which only Python can read.
    pub fn dtype(&self) -> Result<&DType> {
        match &self.items {
            Items::Of(dtype) => Ok(dtype),
            Items::Objects(dtype) => Err(Error::InvalidDType {
                dtype: dtype.clone(),
                reason: "the file has Python objects, which only Python's pickle reads".to_owned(),
            }),
        }
    }

    /// Whether the items have Python objects.
    #[must_use]
    pub fn has_objects(&self) -> bool {
        matches!(self.items, Items::Objects(_))
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.layout.shape
    }

    /// Returns the shape and the strides, from the first element on.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the order in which the elements lie.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Returns the bytes before the first element: the size of the header.
    #[must_use]
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Returns the size of all elements in bytes. Objects have no size.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match self.items {
            Items::Of(_) => self.data_bytes,
            Items::Objects(_) => 0,
        }
    }

    /// Returns the bytes of the header, as NumPy writes them: in the lowest version that can.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for a dtype that an NPY file cannot describe.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let text = self.text()?;
        let latin_1: Option<Vec<u8>> =
            text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect();
        Ok(match &latin_1 {
            Some(text) => padded(1, text).unwrap_or_else(|| padded_long(2, text)),
            None => padded_long(3, text.as_bytes()),
        })
    }

    /// Returns the dictionary, and the room for its first number to grow.
    fn text(&self) -> Result<String> {
        let mut text = String::from("{'descr': ");
        descr::write(self.dtype()?, &mut text)?;
        let is_fortran = if self.order == Order::F { "True" } else { "False" };
        text.extend([", 'fortran_order': ", is_fortran, ", 'shape': "]);
        let shape = self.shape();
        descr::write_tuple(shape, &mut text);
        text.push_str(", }");
        let grows = if self.order == Order::F { shape.last() } else { shape.first() };
        if let Some(count) = grows {
            let room = GROWTH_DIGITS.saturating_sub(count.to_string().len());
            text.extend(std::iter::repeat_n(' ', room));
        }
        Ok(text)
    }
}

/// The keys and the values of a dictionary.
type Fields<'a> = Vec<(Cow<'a, str>, Literal<'a>)>;

/// The sizes of a header in bytes: of the part before the text, and of all.
pub(super) struct Size {
    prefix: usize,
    pub(super) total: u64,
}

/// Returns the bytes of a header of version 1.0 with this text, unless it is too long.
fn padded(major: u8, text: &[u8]) -> Option<Vec<u8>> {
    let padding = padding(text, 10);
    let length = u16::try_from(text.len() + padding + 1).ok()?;
    Some(assemble(major, &length.to_le_bytes(), text, padding))
}

/// Returns the bytes of a header of version 2.0 or 3.0 with this text.
fn padded_long(major: u8, text: &[u8]) -> Vec<u8> {
    let padding = padding(text, PREFIX_BYTES);
    let length = (text.len() + padding + 1) as u32;
    assemble(major, &length.to_le_bytes(), text, padding)
}

/// Returns the number of spaces behind the text. NumPy adds a whole line where none is needed.
fn padding(text: &[u8], prefix: usize) -> usize {
    ALIGNMENT - (prefix + text.len() + 1) % ALIGNMENT
}

fn assemble(major: u8, length: &[u8], text: &[u8], padding: usize) -> Vec<u8> {
    let mut bytes = [MAGIC, &[major, 0][..], length, text].concat();
    bytes.extend(std::iter::repeat_n(b' ', padding));
    bytes.push(b'\n');
    bytes
}

fn latin_1(text: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(ascii) if ascii.is_ascii() => Cow::Borrowed(ascii),
        _ => Cow::Owned(text.iter().map(|byte| char::from(*byte)).collect()),
    }
}

fn not_text(encoding: &str) -> Fault {
    Fault::new("header", format!("it is not {encoding}"))
}

fn shape_fault(error: Error) -> Fault {
    match error {
        Error::InvalidArgument { reason, .. } => Fault::new("shape", reason),
        other => Fault::new("shape", other.to_string()),
    }
}

/// Returns the values of the three keys, of which each must be there once.
fn three(fields: Fields<'_>) -> std::result::Result<[Literal<'_>; 3], Fault> {
    const KEYS: [&str; 3] = ["descr", "fortran_order", "shape"];
    let mut values = [None, None, None];
    for (key, value) in fields {
        let Some(index) = KEYS.iter().position(|name| *name == key) else {
            return Err(Fault::new("header", format!("unknown key {:?}", short(&key))));
        };
        if values[index].replace(value).is_some() {
            return Err(Fault::new(KEYS[index], "it is there twice"));
        }
    }
    let missing = |index: usize| Fault::new(KEYS[index], "it is missing");
    let [descr, fortran_order, shape] = values;
    Ok([
        descr.ok_or_else(|| missing(0))?,
        fortran_order.ok_or_else(|| missing(1))?,
        shape.ok_or_else(|| missing(2))?,
    ])
}

fn counts(shape: &Literal<'_>) -> std::result::Result<Vec<u64>, Fault> {
    let Literal::Tuple(counts) = shape else {
        return Err(Fault::new("shape", "it is not a tuple"));
    };
    let count = |count: &Literal<'_>| match count {
        Literal::Number(count) => Ok(*count),
        _ => Err(Fault::new("shape", "it is not made of numbers")),
    };
    counts.iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(descr: &str) -> NpyHeader {
        NpyHeader::new(DType::parse(descr).unwrap(), &[2, 3], Order::F).unwrap()
    }

    #[test]
    fn a_header_is_written_in_the_lowest_version_that_can() {
        let named = |name: &str| {
            let descr = format!(r#"{{"descr":[["{name}","<i4"],["b",">f8",[2]]],"itemsize":20}}"#);
            header(&descr)
        };
        let long = "x".repeat(if cfg!(miri) { 300 } else { 3000 });
        for (header, version) in
            [(header("<f8"), 1), (named("é"), 1), (named(&long), 1), (named("整"), 3)]
        {
            let bytes = header.to_bytes().unwrap();
            assert_eq!((bytes[6], bytes.len() % ALIGNMENT), (version, 0));
            let read = NpyHeader::parse(&bytes).unwrap();
            assert_eq!(read, NpyHeader { data_offset: bytes.len() as u64, ..header });
        }
        let text = vec![b'x'; 1 << 16];
        assert!(padded(1, &text).is_none());
        assert_eq!(padded_long(2, &text)[..12], *b"\x93NUMPY\x02\x00\x34\x00\x01\x00");
    }

    #[test]
    fn a_header_that_is_cut_is_an_error_at_each_byte() {
        for bytes in [header("<f8"), header(r#"{"descr":[["整","<i4"]],"itemsize":4}"#)] {
            let bytes = bytes.to_bytes().unwrap();
            for length in 0..bytes.len() {
                assert!(NpyHeader::parse(&bytes[..length]).is_err(), "{length}");
            }
            assert_eq!(NpyHeader::size_bytes(&bytes[..12]).unwrap(), bytes.len() as u64);
        }
    }
}
