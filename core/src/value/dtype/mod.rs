//! Dtypes: one table of element types that every language shares, and types known by their size
//! only.
//!
//! A dtype is NumPy's array-interface type string (`"<i4"`), the name of a row of the table that
//! has none (`"bfloat16"`) or, for structured types, a JSON object `{"descr":…,"itemsize":…}` whose
//! `descr` only NumPy understands. For a named dtype that the table lacks, `descr` is the name.
//! This crate understands what it needs to check bounds: the item size. A type outside the table is
//! [`TypeCode::Opaque`], which every language can attach as items of so many bytes.
//!
//! Source of the type strings: NumPy reference, "The array interface protocol", `typestr`.

mod table;

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::value::error::{Error, Result};
use crate::value::json::{self, JsonFault, JsonMember, MemberType};
pub(crate) use table::with_dtypes;

/// The largest item of a dtype, in bytes. NumPy's own limit is a C `int`.
pub const MAX_ITEMSIZE: u64 = i32::MAX as u64;
/// The longest text of a dtype in a handle or a segment, in bytes.
pub(crate) const MAX_DTYPE_BYTES: usize = 32 * 1024;
/// The longest name of a dtype that the table lacks, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// The deepest nesting of a dtype in a handle: what the library that reads JSON takes, less the
/// members around it.
const MAX_DTYPE_DEPTH: usize = 120;

macro_rules! define {
    ($(
        $(#[$doc:meta])*
        $code:ident = $number:literal, $name:literal, $text:literal, $type:ty: $kind:ident
        $(as $wider:ident)?;
    )*) => {
        /// The row of the table that a dtype is. The numbers are part of the C ABI and never
        /// change.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum TypeCode {
            /// Items of some size, for which the table has no row.
            Opaque = 0,
            $($(#[$doc])* $code = $number,)*
        }

        impl TypeCode {
            /// Returns the kind of the dtype's elements. `None` for [`TypeCode::Opaque`].
            #[inline]
            #[must_use]
            pub const fn kind(self) -> Option<DTypeKind> {
                match self {
                    $(Self::$code => Some(DTypeKind::$kind),)*
                    Self::Opaque => None,
                }
            }

            /// Returns whether an element is a number of at most eight bits in a byte.
            pub(crate) const fn is_in_byte(self) -> bool {
                match self {
                    $(Self::$code => is_byte!($($wider)?),)*
                    Self::Opaque => false,
                }
            }

            /// Returns the least and the greatest value of an integer dtype.
            #[inline]
            #[must_use]
            pub const fn integer_range(self) -> Option<(i128, i128)> {
                match self {
                    $(Self::$code => integer_range!($kind $type),)*
                    Self::Opaque => None,
                }
            }
        }

        /// The names for people, in the order of the codes.
        const NAMES: &[&str] = &[$($name),*];

        impl DType {
            /// The dtypes that all languages pass, in the order of their codes, which are 1, 2, 3 …
            pub const ALL: &[DType] = &[
                $(DType::row(
                    TypeCode::$code,
                    concat!("\"", $text, "\""),
                    size_of::<$type>() as u64,
                ),)*
            ];
        }
    };
}

macro_rules! is_byte {
    (byte) => {
        true
    };
    ($($other:ident)?) => {
        false
    };
}

macro_rules! integer_range {
    (Signed $type:ty) => {
        Some((<$type>::MIN as i128, <$type>::MAX as i128))
    };
    (Unsigned $type:ty) => {
        Some((0, <$type>::MAX as i128))
    };
    ($other:ident $type:ty) => {
        None
    };
}

with_dtypes!(define);

const _: () = {
    let mut row = 0;
    while row < DType::ALL.len() {
        assert!(DType::ALL[row].code as usize == row + 1, "a row's number is its position");
        row += 1;
    }
};

/// The kind of a dtype's elements, as in NumPy's `dtype.kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DTypeKind {
    /// `bool`, one byte. Every byte but 0 is true.
    Bool,
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Binary floating-point numbers.
    Float,
    /// Two floating-point numbers: the real and the imaginary part.
    Complex,
}

/// A dtype: the type of an array's elements.
///
/// ```
/// use shmarray::DType;
/// let dtype = DType::parse("<i4")?;
/// assert_eq!((dtype.name(), dtype.itemsize()), ("int32", 4));
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DType {
    code: TypeCode,
    itemsize: u64,
    /// The value of `"dtype"` in a handle, as it is written.
    json: Cow<'static, str>,
    /// Whether a handle can have it. Only files have dtypes that are longer or nest deeper.
    fits_handle: bool,
}

impl DType {
    const fn row(code: TypeCode, json: &'static str, itemsize: u64) -> Self {
        Self { code, itemsize, json: Cow::Borrowed(json), fits_handle: true }
    }

    /// Returns the dtype of a row of the table. `None` for [`TypeCode::Opaque`], which needs a
    /// size.
    #[must_use]
    pub fn from_code(code: TypeCode) -> Option<Self> {
        Self::ALL.iter().find(|dtype| dtype.code == code).cloned()
    }

    /// Returns the dtype of items of `itemsize` bytes without a meaning: NumPy's void type `|V…`.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] when the size is over [`MAX_ITEMSIZE`].
    pub fn opaque(itemsize: u64) -> Result<Self> {
        Self::from_typestr(&format!("|V{itemsize}"))
    }

    /// Returns the dtype of a name. If the table lacks it, its items have this size.
    ///
    /// ```
    /// use shmarray::{DType, TypeCode};
    /// assert_eq!(DType::by_name("bfloat16", 2)?.code(), TypeCode::BFloat16);
    /// assert_eq!(DType::by_name("posit8", 1)?.text(), r#"{"descr":"posit8","itemsize":1}"#);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidDType`] when the name has other characters than letters, digits and `_`, or
    /// when the table has another size for it.
    pub fn by_name(name: &str, itemsize: u64) -> Result<Self> {
        match Self::ALL.iter().find(|dtype| dtype.name() == name) {
            Some(row) if row.itemsize == itemsize => Ok(row.clone()),
            Some(row) => Err(invalid(name, format!("its items have {} bytes", row.itemsize))),
            None => {
                check_name(name)?;
                Self::from_structured(&format!(r#"{{"descr":"{name}","itemsize":{itemsize}}}"#))
            }
        }
    }

    /// Parses a dtype: a type string such as `<i4`, a name such as `int32`, or a JSON object.
    ///
    /// ```
    /// use shmarray::DType;
    ///
    /// assert_eq!(DType::parse("float64")?, DType::parse("<f8")?);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidDType`] when it is neither, is too large, or refers to objects.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim_start().starts_with('{') {
            return Self::from_structured(text);
        }
        match Self::ALL.iter().find(|dtype| dtype.name() == text) {
            Some(row) => Ok(row.clone()),
            None => Self::from_typestr(text),
        }
    }

    /// Reads a dtype from the JSON value that a handle or a segment has.
    pub(crate) fn from_json(json: &str) -> Result<Self> {
        if let Some(row) = Self::ALL.iter().find(|dtype| dtype.json == json) {
            return Ok(row.clone());
        }
        match json.bytes().next() {
            Some(b'"') => Self::from_typestr(&unquote(json)?),
            Some(b'{') => Self::from_structured(json),
            _ => Err(invalid(json, "it is neither a type string nor an object")),
        }
    }

    fn from_typestr(text: &str) -> Result<Self> {
        if let Some(row) = Self::ALL.iter().find(|dtype| dtype.text() == text) {
            return Ok(row.clone());
        }
        if let Some(row) = Self::ALL.iter().find(|dtype| dtype.name() == text) {
            return Err(invalid(text, format!("it is written as {}", row.text())));
        }
        let itemsize = typestr_itemsize(text)?;
        let json = quote(text).into();
        Ok(Self { code: TypeCode::Opaque, itemsize, json, fits_handle: true })
    }

    fn from_structured(json: &str) -> Result<Self> {
        if json.len() > MAX_DTYPE_BYTES {
            return Err(invalid("{…}", format!("its text is longer than {MAX_DTYPE_BYTES} bytes")));
        }
        let parsed: Structured = serde_json::from_str(json).map_err(|_| explain(json))?;
        check_itemsize(json, parsed.itemsize)?;
        let json = compact(json, &parsed)?.into();
        let itemsize = parsed.itemsize;
        Ok(Self { code: TypeCode::Opaque, itemsize, json, fits_handle: true })
    }

    /// Returns the structured dtype of a file, which may be longer or nest deeper than a handle's.
    /// `json` is as compact as a handle has it.
    ///
    /// # Errors
    /// As for [`DType::parse`].
    pub(crate) fn of_file(json: String, itemsize: u64, depth: usize) -> Result<Self> {
        if json.len() <= MAX_DTYPE_BYTES && depth <= MAX_DTYPE_DEPTH {
            return Self::from_structured(&json);
        }
        check_itemsize("{…}", itemsize)?;
        Ok(Self { code: TypeCode::Opaque, itemsize, json: json.into(), fits_handle: false })
    }

    /// Checks that arrays of the dtype can be in shared memory: that a handle can have it.
    ///
    /// # Errors
    /// [`Error::InvalidDType`].
    pub(crate) fn check_shared(&self) -> Result<()> {
        if self.fits_handle {
            return Ok(());
        }
        let reason = format!(
            "shared memory holds dtypes of at most {MAX_DTYPE_BYTES} bytes of text and \
             {MAX_DTYPE_DEPTH} levels: load it into private memory"
        );
        Err(invalid("{…}", reason))
    }

    /// Returns the row of the table that the dtype is.
    #[must_use]
    pub fn code(&self) -> TypeCode {
        self.code
    }

    /// Returns the kind of the elements. `None` for a type outside the table.
    #[must_use]
    pub fn kind(&self) -> Option<DTypeKind> {
        self.code.kind()
    }

    /// Returns the size of one item in bytes.
    #[must_use]
    pub const fn itemsize(&self) -> u64 {
        self.itemsize
    }

    /// Returns the name for people, such as `int32`; for a type outside the table, its name in the
    /// text, or its text.
    #[must_use]
    pub fn name(&self) -> &str {
        let row = (self.code as usize).checked_sub(1);
        row.map_or_else(|| self.name_in_text().unwrap_or(self.text()), |row| NAMES[row])
    }

    /// Returns the name of a dtype by name that the table lacks.
    fn name_in_text(&self) -> Option<&str> {
        self.json.strip_prefix("{\"descr\":\"")?.split('"').next()
    }

    /// Returns whether it is written by its name, because NumPy has no type string for it.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        self.name_in_text().is_some() || self.text() == self.name() && self.code != TypeCode::Opaque
    }

    /// Returns the text that [`DType::parse`] reads: `<i4`, or a structured type's JSON object.
    #[must_use]
    pub fn text(&self) -> &str {
        match self.json.as_bytes().first() {
            Some(b'"') => &self.json[1..self.json.len() - 1],
            _ => &self.json,
        }
    }

    /// Returns the value of `"dtype"` in a handle.
    pub(crate) fn json(&self) -> &str {
        &self.json
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DType({})", self.text())
    }
}

/// A structured type in a handle. Only NumPy reads `descr`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Structured<'a> {
    #[serde(borrow)]
    descr: &'a RawValue,
    itemsize: u64,
}

/// The members, as [`Structured`] has them.
const MEMBERS: &[JsonMember] =
    &[("descr", MemberType::Anything, false), ("itemsize", MemberType::Natural, false)];

/// Reads a broken text once more, to say what is wrong.
fn explain(json: &str) -> Error {
    match json::fault(json, MEMBERS) {
        JsonFault { member: Some(member), reason } => invalid(json, format!("{member}: {reason}")),
        JsonFault { member: None, reason } => invalid(json, reason),
    }
}

/// Returns the same value without white space, so that a handle stays one line.
fn compact(json: &str, parsed: &Structured<'_>) -> Result<String> {
    let descr: serde_json::Value = serde_json::from_str(parsed.descr.get())
        .map_err(|_| invalid(json, "descr has an invalid number or string"))?;
    if has_fractions(&descr) {
        return Err(invalid(json, "descr has a number that is not whole"));
    }
    match &descr {
        serde_json::Value::String(name) => check_name(name)?,
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => {}
        _ => return Err(invalid(json, "descr is neither a list, nor an object, nor a name")),
    }
    Ok(format!(r#"{{"descr":{descr},"itemsize":{}}}"#, parsed.itemsize))
}

/// Checks the name of a dtype that the table lacks.
fn check_name(name: &str) -> Result<()> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !starts_well || name.len() > MAX_NAME_BYTES || !name.bytes().all(plain) {
        return Err(invalid(name, "a name has at most 64 of the characters A-Z a-z 0-9 _"));
    }
    match DType::ALL.iter().find(|row| row.name() == name) {
        Some(row) => Err(invalid(name, format!("it is written as \"{}\"", row.text()))),
        None => Ok(()),
    }
}

/// Whether there are numbers with a fraction. No dtype has any, and they might not print as they
/// were read.
fn has_fractions(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Number(number) => number.is_f64(),
        serde_json::Value::Array(items) => items.iter().any(has_fractions),
        serde_json::Value::Object(fields) => fields.values().any(has_fractions),
        _ => false,
    }
}

/// Returns the item size of a type string: `[<>|]`, a kind, a count, and a unit for times.
fn typestr_itemsize(text: &str) -> Result<u64> {
    let rest = text
        .strip_prefix(['<', '>', '|'])
        .ok_or_else(|| invalid(text, "it is no name, and a type string starts with < > or |"))?;
    let kind = rest.chars().next().unwrap_or(' ');
    let rest = &rest[kind.len_utf8().min(rest.len())..];
    let (digits, unit) = rest.split_at(rest.find('[').unwrap_or(rest.len()));
    check_unit(text, kind, unit)?;
    let count = parse_count(text, digits)?;
    let itemsize = count * per_count(text, kind)?;
    check_size_of_kind(text, kind, count)?;
    check_itemsize(text, itemsize)?;
    Ok(itemsize)
}

fn parse_count(text: &str, digits: &str) -> Result<u64> {
    let plain = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    match digits.parse::<u64>() {
        Ok(count) if plain && count <= MAX_ITEMSIZE => Ok(count),
        _ => Err(invalid(text, format!("{digits:?} is not an item size"))),
    }
}

/// Returns the bytes for each count: 4 for the characters of `U`, 1 for everything else.
fn per_count(text: &str, kind: char) -> Result<u64> {
    match kind {
        'U' => Ok(4),
        'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'S' | 'V' => Ok(1),
        'O' => Err(invalid(text, "objects are pointers into one process")),
        _ => Err(invalid(text, "its kind must be one of b i u f c m M S U V")),
    }
}

fn check_size_of_kind(text: &str, kind: char, count: u64) -> Result<()> {
    let sizes: &[u64] = match kind {
        'b' => &[1],
        'i' | 'u' => &[1, 2, 4, 8],
        'f' => &[2, 4, 8, 10, 12, 16],
        'c' => &[8, 16, 20, 24, 32],
        'm' | 'M' => &[8],
        _ => return Ok(()),
    };
    if sizes.contains(&count) {
        Ok(())
    } else {
        Err(invalid(text, format!("kind {kind} has no items of {count} bytes")))
    }
}

fn check_unit(text: &str, kind: char, unit: &str) -> Result<()> {
    let bracketed = unit.ends_with(']') && unit.len() <= 32;
    let plain = |c: u8| c.is_ascii_alphanumeric() || b"[]/".contains(&c);
    if unit.is_empty() || matches!(kind, 'm' | 'M') && bracketed && unit.bytes().all(plain) {
        Ok(())
    } else {
        Err(invalid(text, format!("{unit:?} is not a unit of time")))
    }
}

fn check_itemsize(text: &str, itemsize: u64) -> Result<()> {
    if itemsize <= MAX_ITEMSIZE {
        Ok(())
    } else {
        Err(invalid(text, format!("items of {itemsize} bytes are over {MAX_ITEMSIZE}")))
    }
}

fn quote(text: &str) -> String {
    format!("\"{text}\"")
}

fn unquote(json: &str) -> Result<String> {
    serde_json::from_str(json)
        .map_err(|_| invalid(json, "it has an escape that stands for no character"))
}

fn invalid(dtype: &str, reason: impl Into<String>) -> Error {
    let dtype = dtype.chars().take(80).collect();
    Error::InvalidDType { dtype, reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_reads_back_from_its_text() {
        for dtype in DType::ALL {
            assert_eq!(&DType::parse(dtype.text()).unwrap(), dtype);
            assert_eq!(DType::from_code(dtype.code()).as_ref(), Some(dtype));
        }
    }

    #[test]
    fn the_format_document_lists_the_rows() {
        let document = include_str!("../../../FORMAT.md");
        let start = document.find("\n    |b1 ").unwrap();
        let listed = document[start..].split("\n\n").next().unwrap();
        let texts = DType::ALL.iter().map(DType::text);
        assert!(listed.split_whitespace().eq(texts.clone()), "FORMAT.md lacks: {texts:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "it searches a long text, which is safe")]
    fn every_row_has_a_golden_segment() {
        let index = concat!(env!("CARGO_MANIFEST_DIR"), "/../ci/checks/golden/index.json");
        let index = std::fs::read_to_string(index).unwrap();
        for dtype in DType::ALL {
            let line = format!("\"dtype\": {},", dtype.json());
            assert!(index.contains(&line), "no golden segment has elements of {}", dtype.text());
        }
    }

    #[test]
    fn types_outside_the_table_keep_their_text_and_size() {
        let sizes =
            [(">i4", 4), ("<M8[25us]", 8), ("|S10", 10), ("<U5", 20), ("|V0", 0), ("<f16", 16)];
        for (text, bytes) in sizes {
            let dtype = DType::parse(text).unwrap();
            assert_eq!(
                (dtype.code(), dtype.itemsize(), dtype.text()),
                (TypeCode::Opaque, bytes, text)
            );
        }
    }

    #[test]
    fn a_dtype_by_name_is_its_name() {
        let dtype = DType::parse("bfloat16").unwrap();
        assert_eq!((dtype.code(), dtype.itemsize()), (TypeCode::BFloat16, 2));
        assert_eq!((dtype.json(), dtype.name()), ("\"bfloat16\"", "bfloat16"));
        let by_name = DType::ALL.iter().filter(|dtype| dtype.is_by_name());
        assert!(by_name.map(DType::code).eq(DType::ALL[14..].iter().map(DType::code)));
    }

    #[test]
    fn a_name_that_the_table_lacks_is_kept_with_its_size() {
        let text = r#"{"descr":"float9_e4m4","itemsize":2}"#;
        let dtype = DType::parse(text).unwrap();
        assert_eq!((dtype.code(), dtype.itemsize()), (TypeCode::Opaque, 2));
        assert_eq!((dtype.text(), dtype.name()), (text, "float9_e4m4"));
        assert!(dtype.is_by_name() && !DType::parse("|V2").unwrap().is_by_name());
    }

    #[test]
    fn a_dtype_has_one_text() {
        for (json, says) in [
            (r#""float32""#, "it is written as <f4"),
            (r#"{"descr":"bfloat16","itemsize":2}"#, "it is written as \"bfloat16\""),
            (r#"{"descr":"int8","itemsize":1}"#, "it is written as \"|i1\""),
        ] {
            let error = DType::from_json(json).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        for dtype in DType::ALL {
            assert_eq!(DType::parse(dtype.name()).unwrap(), *dtype); // people may type its name
        }
    }

    #[test]
    fn structured_types_lose_their_white_space_and_nothing_else() {
        let dtype =
            DType::parse(r#" {"descr": [["a", "<i4"], ["b c", "<f8", [3]]], "itemsize": 28} "#)
                .unwrap();
        assert_eq!(dtype.text(), r#"{"descr":[["a","<i4"],["b c","<f8",[3]]],"itemsize":28}"#);
        assert_eq!(DType::from_json(dtype.json()).unwrap(), dtype);
    }

    #[test]
    fn an_invalid_dtype_is_refused_with_its_text() {
        let bad = [
            "",
            "i4",
            "<",
            "<i",
            "<i3",
            "<x4",
            "|O8",
            "<i4[s]",
            "<M8[",
            "<i99999999999999999999",
            "<U536870912",
            "<i+4",
            "{}",
            r#"{"descr":[],"itemsize":-1}"#,
            r#"{"descr":1,"itemsize":1}"#,
            r#"{"descr":"","itemsize":1}"#,
            r#"{"descr":"<i4","itemsize":4}"#,
            r#"{"descr":"a b","itemsize":4}"#,
            "float9_e4m4",
            r#"{"descr":[],"itemsize":1,"itemsize":2}"#,
            r#"{"descr":[],"itemsize":1,"more":2}"#,
            r#"{"descr":[["a","<i4",[1e15]]],"itemsize":4}"#,
            "\"<i4\"",
        ];
        for text in bad {
            assert!(matches!(DType::parse(text), Err(Error::InvalidDType { .. })), "{text}");
        }
    }
}
