//! The descriptor, which says where an array is, and its text, the handle.
//!
//! A handle is one line of JSON (two here), with its keys in one order and no white space:
//!
//! ```json
//! {"shmarray":1,"segment":"…","generation":7,"offset":36,
//!  "dtype":"<i4","shape":[3,3],"strides":[12,4]}
//! ```
//!
//! A handle that was sent has `"ticket"` as its last key. Reading accepts JSON white space and any
//! order of keys, refuses whatever else breaks the format, and names the field. It checks the form
//! only: whether the array fits its segment is checked when it is attached.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::value::dtype::{DType, MAX_DTYPE_BYTES};
use crate::value::error::{Error, Result};
use crate::value::json::{self, JsonMember, MemberType};
use crate::value::name::SegmentText;
use crate::value::shape::{Layout, MAX_NDIM};

/// The version of handles that `write_handle` writes.
const HANDLE_VERSION: u64 = 1;
/// The longest handle that is read, in bytes: twice what the longest dtype with 64 dimensions
/// needs.
pub const MAX_HANDLE_BYTES: usize = 2 * MAX_DTYPE_BYTES;
/// The characters that are white space in JSON.
const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
/// The limit of generations: a JSON reader that uses doubles keeps smaller ones exact.
pub(crate) const GENERATION_LIMIT: u64 = 1 << 53;

/// The descriptor of an array: all that is needed to find it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Descriptor {
    /// The segment, and the cell in it.
    pub segment: SegmentText,
    /// The generation of the segment or cell.
    pub generation: u64,
    /// The dtype.
    pub dtype: DType,
    /// The shape, strides and offset.
    pub layout: Layout,
    /// The ticket of the message that carries this handle, if it was sent.
    pub ticket: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    shmarray: u64,
    #[serde(borrow)]
    segment: Cow<'a, str>,
    generation: u64,
    offset: u64,
    #[serde(borrow)]
    dtype: &'a RawValue,
    shape: Vec<u64>,
    strides: Vec<i64>,
    #[serde(default, deserialize_with = "present")]
    ticket: Option<u64>,
}

/// Reads a ticket. `"ticket":null` is refused: a key that is present has a value.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u64>, D::Error> {
    u64::deserialize(deserializer).map(Some)
}

impl Descriptor {
    /// Returns the handle: one line of text.
    #[must_use]
    pub fn to_handle(&self) -> String {
        let mut text = String::with_capacity(192 + self.dtype.json().len());
        self.write_handle(&mut text);
        text
    }

    /// Appends the text of the handle.
    pub(crate) fn write_handle(&self, text: &mut String) {
        let mut number = itoa::Buffer::new();
        let Layout { shape, strides, offset } = &self.layout;
        text.push_str(r#"{"shmarray":1,"segment":""#);
        text.push_str(self.segment.id.as_str());
        if let Some(cell) = self.segment.cell {
            text.push('.');
            text.push_str(number.format(cell));
        }
        text.push_str(r#"","generation":"#);
        text.push_str(number.format(self.generation));
        text.push_str(r#","offset":"#);
        text.push_str(number.format(*offset));
        text.push_str(r#","dtype":"#);
        text.push_str(self.dtype.json());
        text.push_str(r#","shape":["#);
        write_list(text, shape);
        text.push_str(r#"],"strides":["#);
        write_list(text, strides);
        text.push(']');
        if let Some(ticket) = self.ticket {
            text.push_str(r#","ticket":"#);
            text.push_str(number.format(ticket));
        }
        text.push('}');
    }

    /// Returns whether a text is meant as a handle, and not as a name.
    pub(crate) fn is_handle(text: &str) -> bool {
        text.trim_start_matches(JSON_SPACE).starts_with('{')
    }

    /// Reads a handle.
    ///
    /// # Errors
    /// [`Error::InvalidHandle`] names the field that breaks the format.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_HANDLE_BYTES {
            return Err(Error::handle(
                "handle",
                format!("{} bytes, at most {MAX_HANDLE_BYTES}", text.len()),
            ));
        }
        if !Self::is_handle(text) {
            return Err(Error::handle("handle", "it does not start with {"));
        }
        let fields: Fields<'_> = serde_json::from_str(text).map_err(|_| explain(text))?;
        fields.check()?;
        Ok(Self {
            segment: fields.segment.parse()?,
            generation: fields.generation,
            dtype: DType::from_json(fields.dtype.get())
                .map_err(|error| Error::handle("dtype", error.to_string()))?,
            layout: Layout { shape: fields.shape, strides: fields.strides, offset: fields.offset },
            ticket: fields.ticket,
        })
    }
}

impl Fields<'_> {
    fn check(&self) -> Result<()> {
        let numbers = [
            ("generation", self.generation, GENERATION_LIMIT),
            ("offset", self.offset, i64::MAX as u64),
            ("ticket", self.ticket.unwrap_or(0), GENERATION_LIMIT),
        ];
        if self.shmarray != HANDLE_VERSION {
            return Err(Error::handle(
                "shmarray",
                format!("version {}, this reads {HANDLE_VERSION}", self.shmarray),
            ));
        }
        for (field, value, limit) in numbers {
            if value >= limit {
                return Err(Error::handle(field, format!("{value} is not below {limit}")));
            }
        }
        if self.shape.len() > MAX_NDIM {
            return Err(Error::handle(
                "shape",
                format!("{} dimensions, at most {MAX_NDIM}", self.shape.len()),
            ));
        }
        if self.strides.len() != self.shape.len() {
            return Err(Error::handle(
                "strides",
                format!("{} of them for {} dimensions", self.strides.len(), self.shape.len()),
            ));
        }
        Ok(())
    }
}

fn write_list<T: itoa::Integer + Copy>(text: &mut String, list: &[T]) {
    let mut number = itoa::Buffer::new();
    for (index, item) in list.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(number.format(*item));
    }
}

/// The keys of a handle, as [`Fields`] has them.
const FIELDS: &[JsonMember] = &[
    ("shmarray", MemberType::Natural, false),
    ("segment", MemberType::Text, false),
    ("generation", MemberType::Natural, false),
    ("offset", MemberType::Natural, false),
    ("dtype", MemberType::Anything, false),
    ("shape", MemberType::Naturals, false),
    ("strides", MemberType::Integers, false),
    ("ticket", MemberType::Natural, true),
];

/// Reads a broken handle once more, to name the field at fault.
fn explain(text: &str) -> Error {
    let fault = json::fault(text, FIELDS);
    Error::handle(fault.member.unwrap_or_else(|| "handle".to_owned()), fault.reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = concat!(
        r#"{"shmarray":1,"segment":"abcdefghijklmnopqrstuvwx.17","generation":7,"offset":36,"#,
        r#""dtype":"<i4","shape":[3,3],"strides":[12,-4]}"#
    );

    #[test]
    fn a_handle_reads_back_to_the_letter() {
        let sent = GOOD.replace("]}", r#"],"ticket":99}"#);
        for text in [GOOD, &sent, &GOOD.replace("[3,3]", "[]").replace("[12,-4]", "[]")] {
            assert_eq!(Descriptor::parse(text).unwrap().to_handle(), text);
        }
    }

    #[test]
    fn white_space_and_order_are_free() {
        let spaced = GOOD.replace(',', " ,\r\n\t ").replace(':', " : ");
        assert_eq!(Descriptor::parse(&spaced).unwrap().to_handle(), GOOD);
    }

    #[test]
    fn a_structured_dtype_travels_whole() {
        let dtype = r#"{"descr":[["a","<i4"],["","|V4"]],"itemsize":8}"#;
        let text = GOOD.replace("\"<i4\"", dtype);
        let read = Descriptor::parse(&text).unwrap();
        assert_eq!((read.dtype.itemsize(), read.to_handle()), (8, text));
    }

    fn refused(text: &str) -> String {
        match Descriptor::parse(text) {
            Err(Error::InvalidHandle { field, .. }) => field,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn each_broken_field_is_named() {
        let cases = [
            (GOOD.replace("\"generation\":7", "\"generation\":null"), "generation"),
            (GOOD.replace("\"generation\":7", "\"generation\":9007199254740992"), "generation"),
            (GOOD.replace("\"generation\":7", "\"generation\":-7"), "generation"),
            (GOOD.replace("\"offset\":36", "\"offset\":1e30"), "offset"),
            (GOOD.replace("\"offset\":36", "\"offset\":18446744073709551615"), "offset"),
            (GOOD.replace("[3,3]", "[3,null]"), "shape[1]"),
            (GOOD.replace("[3,3]", "[3,18446744073709551616]"), "shape[1]"),
            (GOOD.replace("[3,3]", "[3]"), "strides"),
            (GOOD.replace("[3,3]", &format!("[{}]", ["1"; 65].join(","))), "shape"),
            (GOOD.replace("[12,-4]", "\"12\""), "strides"),
            (GOOD.replace("\"<i4\"", "\"|O8\""), "dtype"),
            (GOOD.replace("\"<i4\"", "null"), "dtype"),
            (GOOD.replace("abc", "../"), "segment"),
            (GOOD.replace("\"shmarray\":1", "\"shmarray\":2"), "shmarray"),
            (GOOD.replace("]}", r#"],"ticket":null}"#), "ticket"),
            (GOOD.replace("\"offset\":36,", ""), "offset"),
            (GOOD.replace("\"offset\":36,", "\"offset\":36,\"offset\":36,"), "offset"),
            (GOOD.replace("\"offset\":36,", "\"offset\":36,\"colour\":1,"), "colour"),
        ];
        for (text, field) in cases {
            assert_eq!(refused(&text), field, "{text}");
        }
    }

    #[test]
    fn missing_doubled_unknown_and_foreign_text_is_refused() {
        for (text, reason) in [
            (GOOD.replace("\"offset\":36,", ""), "offset: missing field"),
            (
                GOOD.replace("\"offset\":36,", "\"offset\":36,\"offset\":36,"),
                "offset: duplicate field",
            ),
            (
                GOOD.replace("\"offset\":36,", "\"offset\":36,\"colour\":1,"),
                "colour: unknown field",
            ),
            (format!("{GOOD} x"), "handle: trailing text at character"),
            (GOOD[..40].to_owned(), "handle: the text ends too early, after character 40"),
            (
                "[1,\"abcdefghijklmnopqrstuvwx\",7,0,\"<i4\",[],[]]".to_owned(),
                "does not start with {",
            ),
            ("x".repeat(MAX_HANDLE_BYTES + 1), "at most"),
        ] {
            let error = Descriptor::parse(&text).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
