//! The bytes of a list: core/LISTS.md. Reading copies the header, the columns and the texts, checks
//! the copy, and never reads the originals again.

use std::ops::Range;

use super::bytes::{HEADER_BYTES, ListBytes, fault};
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::shape::MAX_NDIM;

pub(super) const MAGIC: &[u8; 8] = b"shmalist";
pub(super) const VERSION: u32 = 1;
pub(super) const COLUMN_BYTES: u64 = 128;
/// Everything that columns refer to begins at a multiple of this.
pub(super) const ALIGNMENT: u64 = 64;
pub(super) const MAX_COLUMNS: u64 = 1 << 16;
/// How many columns may lie above one another.
pub(super) const MAX_DEPTH: usize = 16;
/// The size of a word of a dictionary's hash table.
pub(super) const WORD_BYTES: u64 = 8;
/// The limit of all names, dtypes and classes together.
pub(super) const MAX_TEXTS_BYTES: u64 = 16 << 20;

/// What the items of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ColumnKind {
    /// Numbers, or other items of one dtype.
    Numbers = 1,
    /// Arrays of one dtype and one number of dimensions.
    Arrays = 2,
    /// UTF-8.
    Strings = 3,
    /// Bytes.
    Bytes = 4,
    /// Records with the same fields, a column each.
    Records = 5,
    /// Lists of items of one kind.
    Lists = 6,
    /// Objects of Python, which only Python reads.
    Pickles = 7,
    /// Nothing but None.
    Nothing = 8,
    /// The entries of a dictionary: its keys and its values. Column 0 of a dictionary alone.
    Entries = 9,
}

impl ColumnKind {
    const ALL: [Self; 9] = [
        Self::Numbers,
        Self::Arrays,
        Self::Strings,
        Self::Bytes,
        Self::Records,
        Self::Lists,
        Self::Pickles,
        Self::Nothing,
        Self::Entries,
    ];

    fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    fn has_dtype(self) -> bool {
        matches!(self, Self::Numbers | Self::Arrays)
    }

    pub(super) fn has_values(self) -> bool {
        matches!(
            self,
            Self::Numbers
                | Self::Arrays
                | Self::Strings
                | Self::Bytes
                | Self::Pickles
                | Self::Entries
        )
    }

    /// Whether items have values from one offset to the next. Arrays of one shape have no offsets.
    pub(super) fn has_offsets(self) -> bool {
        matches!(self, Self::Arrays | Self::Strings | Self::Bytes | Self::Lists | Self::Pickles)
    }
}

/// What Python makes of an item. Other languages need not read it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ItemType {
    /// What the kind is: a scalar of NumPy, an array, a string, bytes, a dict, a list.
    #[default]
    Plain,
    /// A `bool`, `int`, `float` or `complex`, for numbers.
    Scalar,
    /// A `tuple`, for lists; of the fields' values, for records.
    Tuple,
    /// An object of a class, for records: its module, a line feed, and its qualified name.
    Class(String),
}

impl ItemType {
    pub(super) fn number(&self) -> u8 {
        match self {
            Self::Plain => 0,
            Self::Scalar => 1,
            Self::Tuple => 2,
            Self::Class(_) => 3,
        }
    }

    /// Returns the type that a column says, or `None` if its kind has no such items. A number that
    /// this library does not know is what the kind is.
    fn of(number: u8, kind: ColumnKind, class: String) -> Option<Self> {
        let item = match number {
            1 => Self::Scalar,
            2 => Self::Tuple,
            3 => Self::Class(class),
            _ => Self::Plain,
        };
        item.is_of(kind).then_some(item)
    }

    /// Returns whether a kind has such items.
    pub(super) fn is_of(&self, kind: ColumnKind) -> bool {
        match self {
            Self::Plain => true,
            Self::Scalar => kind == ColumnKind::Numbers,
            Self::Tuple => matches!(kind, ColumnKind::Lists | ColumnKind::Records),
            Self::Class(_) => kind == ColumnKind::Records,
        }
    }
}

/// A column as it is described. The offsets count from the first byte of the list, and are 0 for
/// what the column does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnLayout {
    pub(super) kind: ColumnKind,
    pub(super) item: ItemType,
    pub(super) ndim: usize,
    pub(super) length: u64,
    pub(super) nulls: u64,
    pub(super) validity: u64,
    pub(super) values: u64,
    pub(super) values_bytes: u64,
    pub(super) offsets: u64,
    pub(super) shapes: u64,
    pub(super) name: String,
    pub(super) dtype: Option<DType>,
    /// The numbers of the children.
    pub(super) children: Vec<usize>,
    /// The shape that all arrays have, if they have no offsets.
    pub(super) shape: Option<Vec<u64>>,
}

/// The columns of a list, each behind its parent, and how large the list is.
#[derive(Debug)]
pub(super) struct ListLayout {
    pub(super) bytes: u64,
    pub(super) columns: Vec<ColumnLayout>,
}

impl ListLayout {
    /// Reads the layout of a list. `bytes` are all of its bytes.
    ///
    /// # Errors
    /// [`Error::InvalidList`], which names the field.
    pub(super) fn read(bytes: &ListBytes) -> Result<Self> {
        Reader::new(bytes)?.layout()
    }
}

/// Little-endian numbers at places of a copy.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.bytes(at))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes(at))
    }
}

/// Reads a list that may be broken in any way.
struct Reader<'a> {
    list: &'a ListBytes,
    bytes: u64,
    length: u64,
    /// The columns as they are.
    columns: Vec<u8>,
    texts: Vec<u8>,
}

impl<'a> Reader<'a> {
    fn new(list: &'a ListBytes) -> Result<Self> {
        let room = list.room();
        if room < HEADER_BYTES {
            return Err(fault(
                "bytes",
                format!("a list has {HEADER_BYTES} or more, and this {room}"),
            ));
        }
        let header = list.copied(0, HEADER_BYTES)?;
        let header = Fields(&header);
        if header.0[..8] != *MAGIC {
            return Err(fault("magic", "it is no list".into()));
        }
        if header.u32(8) != VERSION {
            return Err(fault("version", format!("it is {}, not {VERSION}", header.u32(8))));
        }
        let bytes = header.u64(16);
        let count = u64::from(header.u32(12));
        if bytes > room {
            return Err(fault("bytes", format!("there are {room}, not {bytes}")));
        }
        if count == 0 || count > MAX_COLUMNS || HEADER_BYTES + count * COLUMN_BYTES > bytes {
            return Err(fault("columns", format!("{count} in {bytes} bytes")));
        }
        let columns = list.copied(HEADER_BYTES, count * COLUMN_BYTES)?;
        let mut reader = Self { list, bytes, length: header.u64(24), columns, texts: Vec::new() };
        let texts_bytes = header.u64(40);
        if texts_bytes > MAX_TEXTS_BYTES {
            return Err(fault("texts_bytes", format!("they are {texts_bytes}")));
        }
        let texts = reader.part("texts_offset", header.u64(32), texts_bytes)?;
        reader.texts = list.copied(texts.start, texts_bytes)?;
        Ok(reader)
    }

    fn count(&self) -> usize {
        self.columns.len() / COLUMN_BYTES as usize
    }

    /// Returns where so many bytes lie, if they lie behind the columns and in the list.
    fn part(&self, field: &'static str, offset: u64, bytes: u64) -> Result<Range<u64>> {
        if bytes == 0 && offset == 0 {
            return Ok(0..0);
        }
        let first = HEADER_BYTES + self.columns.len() as u64;
        match offset.checked_add(bytes) {
            Some(end)
                if offset >= first && end <= self.bytes && offset.is_multiple_of(ALIGNMENT) =>
            {
                Ok(offset..end)
            }
            _ => {
                let room = self.bytes;
                Err(fault(field, format!("{bytes} bytes from {offset} on, of {first} to {room}")))
            }
        }
    }

    fn layout(&self) -> Result<ListLayout> {
        let mut columns = Vec::with_capacity(self.count());
        self.add_column(&mut columns, 1)?;
        if columns.len() != self.count() {
            return Err(fault("children", format!("columns behind number {}", columns.len() - 1)));
        }
        if columns[0].length != self.length {
            return Err(fault(
                "length",
                format!("it is {}, not {}", columns[0].length, self.length),
            ));
        }
        Ok(ListLayout { bytes: self.bytes, columns })
    }

    /// Adds the next column, and its children behind it.
    fn add_column(&self, columns: &mut Vec<ColumnLayout>, depth: usize) -> Result<()> {
        let number = columns.len();
        if number == self.count() || depth > MAX_DEPTH {
            let reason = format!("column {number} of {}, {depth} deep", self.count());
            return Err(fault("children", reason));
        }
        let of_column = |error| match error {
            Error::InvalidList { field, reason } => {
                Error::InvalidList { field: format!("column {number}: {field}"), reason }
            }
            other => other,
        };
        let (column, children) = self.column(number).map_err(of_column)?;
        columns.push(column);
        for _ in 0..children {
            let child = columns.len();
            self.add_column(columns, depth + 1)?;
            columns[number].children.push(child);
        }
        check_children(number, columns).map_err(of_column)
    }

    /// Returns a column, and how many children it has.
    fn column(&self, number: usize) -> Result<(ColumnLayout, u32)> {
        let size = COLUMN_BYTES as usize;
        let fields = Fields(&self.columns[number * size..][..size]);
        let kind = ColumnKind::of_number(fields.0[0])
            .ok_or_else(|| fault("kind", format!("{}", fields.0[0])))?;
        let children = fields.u32(4);
        let dtype = self.text("dtype_offset", &fields, 72)?;
        let class = self.text("class_offset", &fields, 80)?;
        let item = ItemType::of(fields.0[1], kind, class)
            .ok_or_else(|| fault("item", format!("{} of {kind:?}", fields.0[1])))?;
        let mut column = ColumnLayout {
            kind,
            item,
            ndim: usize::from(fields.u16(2)),
            length: fields.u64(8),
            nulls: fields.u64(16),
            validity: fields.u64(24),
            values: fields.u64(32),
            values_bytes: fields.u64(40),
            offsets: fields.u64(48),
            shapes: fields.u64(56),
            name: self.text("name_offset", &fields, 64)?,
            dtype: None,
            children: Vec::new(),
            shape: None,
        };
        if kind.has_dtype() {
            let dtype = DType::parse(dtype.trim_matches('"'))
                .and_then(|dtype| dtype.check_shared().map(|()| dtype))
                .map_err(|error| fault("dtype_offset", error.to_string()))?;
            column.dtype = Some(dtype);
        }
        self.check(&mut column)?;
        Ok((column, children))
    }

    fn text(&self, field: &'static str, fields: &Fields<'_>, at: usize) -> Result<String> {
        let (start, size) = (fields.u32(at) as usize, fields.u32(at + 4) as usize);
        let bytes = self.texts.get(start..start + size);
        let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
        text.map(str::to_owned).ok_or_else(|| {
            fault(field, format!("{size} bytes of UTF-8 from {start} of {}", self.texts.len()))
        })
    }

    /// Checks a column without its children.
    fn check(&self, column: &mut ColumnLayout) -> Result<()> {
        let (kind, length) = (column.kind, column.length);
        let is_array = kind == ColumnKind::Arrays;
        if is_array != (1..=MAX_NDIM).contains(&column.ndim) && (is_array || column.ndim != 0) {
            return Err(fault("ndim", format!("{}", column.ndim)));
        }
        let has_bits = column.nulls != 0 && kind != ColumnKind::Nothing;
        if column.nulls > length || (kind == ColumnKind::Nothing && column.nulls != length) {
            return Err(fault("nulls", format!("{} of {length} items", column.nulls)));
        }
        self.optional("validity_offset", column.validity, has_bits, length.div_ceil(8))?;
        self.optional("values_offset", column.values, kind.has_values(), column.values_bytes)?;
        if !kind.has_values() && column.values_bytes != 0 {
            return Err(fault("values_bytes", format!("{}", column.values_bytes)));
        }
        let is_uniform = is_array && column.offsets == 0;
        let has_offsets = kind.has_offsets() && !is_uniform;
        let offsets_bytes = bytes_of(length.checked_add(1), 8);
        self.optional("offsets_offset", column.offsets, has_offsets, offsets_bytes)?;
        let rows = if is_uniform {
            Some(column.ndim as u64)
        } else {
            length.checked_mul(column.ndim as u64)
        };
        let has_shapes = is_uniform || (is_array && column.ndim > 1);
        self.optional("shapes_offset", column.shapes, has_shapes, bytes_of(rows, 8))?;
        if is_uniform {
            if column.nulls != 0 {
                return Err(fault("offsets_offset", "None has no shape".into()));
            }
            let row = self.list.copied(column.shapes, column.ndim as u64 * 8)?;
            let shape: Vec<_> = (0..column.ndim).map(|dim| Fields(&row).u64(dim * 8)).collect();
            if shape.iter().any(|count| i64::try_from(*count).is_err()) {
                return Err(fault("shapes_offset", format!("{shape:?}")));
            }
            column.shape = Some(shape);
        }
        let expected = match (&column.dtype, &column.shape) {
            (Some(dtype), None) if is_array => {
                Some(column.values_bytes - column.values_bytes % dtype.itemsize().max(1))
            }
            (Some(dtype), shape) => shape
                .iter()
                .flatten()
                .try_fold(dtype.itemsize(), |bytes, count| bytes.checked_mul(*count))
                .and_then(|bytes| bytes.checked_mul(length)),
            _ => Some(column.values_bytes),
        };
        if expected != Some(column.values_bytes) {
            return Err(fault(
                "values_bytes",
                format!("{} for {length} items", column.values_bytes),
            ));
        }
        Ok(())
    }

    /// Checks a part that a column has or has not.
    fn optional(&self, field: &'static str, offset: u64, has: bool, bytes: u64) -> Result<()> {
        if !has && offset != 0 {
            return Err(fault(field, format!("{offset}, and there should be none")));
        }
        if has {
            self.part(field, offset, bytes)?;
        }
        Ok(())
    }
}

/// Checks the number, the lengths and the names of a column's children.
fn check_children(number: usize, columns: &[ColumnLayout]) -> Result<()> {
    let column = &columns[number];
    let count = column.children.len();
    let is_right = match column.kind {
        ColumnKind::Records => true,
        ColumnKind::Lists => count == 1,
        ColumnKind::Entries => number == 0 && count == 2,
        _ => count == 0,
    };
    if !is_right {
        return Err(fault("children", format!("{count}")));
    }
    if !matches!(column.kind, ColumnKind::Records | ColumnKind::Entries) {
        return Ok(());
    }
    let mut names = std::collections::HashSet::new();
    for child in column.children.iter().map(|child| &columns[*child]) {
        if child.length != column.length {
            let reason =
                format!("field {:?} has {} of {}", child.name, child.length, column.length);
            return Err(fault("length", reason));
        }
        if column.kind == ColumnKind::Records && !names.insert(&child.name) {
            return Err(fault("name_offset", format!("two fields {:?}", child.name)));
        }
    }
    if column.kind == ColumnKind::Entries {
        check_entries(column, &columns[column.children[0]])?;
    }
    Ok(())
}

/// Checks the hash table and the keys of a dictionary.
fn check_entries(column: &ColumnLayout, keys: &ColumnLayout) -> Result<()> {
    if column.nulls != 0 || keys.nulls != 0 {
        return Err(fault("nulls", "an entry or a key is None".into()));
    }
    if !can_be_keys(keys.kind, keys.dtype.as_ref()) && column.length > 0 {
        return Err(fault("kind", format!("the keys are {:?}", keys.kind)));
    }
    let words = column.values_bytes / WORD_BYTES;
    let is_table = column.values_bytes.is_multiple_of(WORD_BYTES) && words.is_power_of_two();
    if !is_table || words / 2 < column.length {
        return Err(fault("values_bytes", format!("{}", column.values_bytes)));
    }
    Ok(())
}

/// Whether items can be keys of a dictionary.
pub(super) fn can_be_keys(kind: ColumnKind, dtype: Option<&DType>) -> bool {
    match kind {
        ColumnKind::Strings | ColumnKind::Bytes => true,
        ColumnKind::Numbers => dtype.is_some_and(|dtype| dtype.text() == "<i8"),
        _ => false,
    }
}

/// Returns how many bytes so many items are; more than any list has, if they are too many.
fn bytes_of(items: Option<u64>, itemsize: u64) -> u64 {
    items.and_then(|items| items.checked_mul(itemsize)).unwrap_or(u64::MAX)
}
