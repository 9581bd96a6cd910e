//! Columns that grow, from which a list is made.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use super::format::{ALIGNMENT, ColumnKind, ItemType, MAX_DEPTH};
use super::growing::GrowingBytes;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::shape::{MAX_NDIM, size_bytes};

/// A column to which items are added, before there is a list of them.
#[derive(Debug)]
pub struct ColumnBuilder {
    pub(super) kind: ColumnKind,
    pub(super) item: ItemType,
    pub(super) dtype: Option<DType>,
    pub(super) ndim: usize,
    pub(super) length: u64,
    pub(super) nulls: u64,
    /// One bit for each item, from the first None on.
    pub(super) validity: Vec<u8>,
    pub(super) values: GrowingBytes,
    /// Where the next item begins: in elements, bytes, or items of the child.
    pub(super) end: i64,
    pub(super) offsets: GrowingBytes,
    pub(super) shapes: GrowingBytes,
    /// The shape of the first array.
    pub(super) first_shape: Vec<i64>,
    /// Whether all arrays so far have the shape of the first.
    pub(super) is_uniform: bool,
    /// The names and columns of fields, or the column of the items of lists.
    pub(super) children: Vec<(String, Self)>,
    /// The values, if all items were added together.
    pub(super) written: Option<Written>,
}

/// Bytes that a function writes when the list is made, straight into its memory.
pub struct Written {
    pub(super) size_bytes: u64,
    pub(super) write: WriteFn,
}

pub(super) type WriteFn = Box<dyn FnOnce(&mut [u8]) + Send>;

impl Written {
    /// So many bytes, and the function that writes all of them.
    pub fn new(size_bytes: u64, write: impl FnOnce(&mut [u8]) + Send + 'static) -> Self {
        Self { size_bytes, write: Box::new(write) }
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size_bytes)
    }
}

/// All items of a column, as [`ColumnBuilder::add_all`] takes them.
#[derive(Debug, Default)]
pub struct AllItems {
    length: u64,
    validity: Option<Vec<u8>>,
    values: Option<Written>,
    offsets: Option<Vec<i64>>,
    shapes: Vec<i64>,
}

impl AllItems {
    /// So many items, all of them there.
    #[must_use]
    pub fn new(length: u64) -> Self {
        Self { length, ..Self::default() }
    }

    /// Says which items are there: one bit for each, from the lowest bit of the first byte on. 0 is
    /// None.
    #[must_use]
    pub fn validity(mut self, bits: Vec<u8>) -> Self {
        self.validity = Some(bits);
        self
    }

    /// The values, for kinds that have them. An item that is None has none there, except among
    /// numbers.
    #[must_use]
    pub fn values(mut self, values: Written) -> Self {
        self.values = Some(values);
        self
    }

    /// From where to where each item has values: in elements, bytes, or items of the child. Arrays
    /// of one shape have none.
    #[must_use]
    pub fn offsets(mut self, offsets: Vec<i64>) -> Self {
        self.offsets = Some(offsets);
        self
    }

    /// The shapes of arrays one after another, or, without offsets, the one that all have. Arrays
    /// of one dimension with offsets have none.
    #[must_use]
    pub fn shapes(mut self, shapes: Vec<i64>) -> Self {
        self.shapes = shapes;
        self
    }

    /// Returns how many items are None.
    fn nulls(&self) -> Result<u64> {
        let Some(validity) = &self.validity else { return Ok(0) };
        if validity.len() as u64 != self.length.div_ceil(8) {
            let reason = format!("{} bytes for {} items", validity.len(), self.length);
            return Err(Error::argument("validity", reason));
        }
        let ones = validity.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>();
        let unused = (8 - self.length % 8) % 8;
        let beyond = validity
            .last()
            .map_or(0, |last| u64::from((u16::from(*last) >> (8 - unused)).count_ones()));
        Ok(self.length + beyond - ones)
    }
}

impl ColumnBuilder {
    /// How many columns may lie above one another.
    pub const MAX_DEPTH: usize = MAX_DEPTH;

    fn of(kind: ColumnKind) -> Self {
        Self {
            kind,
            item: ItemType::Plain,
            dtype: None,
            ndim: 0,
            length: 0,
            nulls: 0,
            validity: Vec::new(),
            values: GrowingBytes::default(),
            end: 0,
            offsets: GrowingBytes::default(),
            shapes: GrowingBytes::default(),
            first_shape: Vec::new(),
            is_uniform: true,
            children: Vec::new(),
            written: None,
        }
    }

    /// A column of items of one dtype.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for one that cannot be shared.
    pub fn numbers(dtype: DType) -> Result<Self> {
        dtype.check_shared()?;
        Ok(Self { dtype: Some(dtype), ..Self::of(ColumnKind::Numbers) })
    }

    /// A column of arrays of one dtype and one number of dimensions, of any shapes.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for one that cannot be shared; [`Error::InvalidArgument`] unless
    /// there are 1 to 64 dimensions.
    pub fn arrays(dtype: DType, ndim: usize) -> Result<Self> {
        dtype.check_shared()?;
        if !(1..=MAX_NDIM).contains(&ndim) {
            return Err(Error::argument("ndim", format!("{ndim} is not 1 to {MAX_NDIM}")));
        }
        Ok(Self { dtype: Some(dtype), ndim, ..Self::of(ColumnKind::Arrays) })
    }

    /// A column of strings.
    #[must_use]
    pub fn strings() -> Self {
        Self::of(ColumnKind::Strings)
    }

    /// A column of bytes.
    #[must_use]
    pub fn bytes() -> Self {
        Self::of(ColumnKind::Bytes)
    }

    /// A column of pickles of Python, which only Python reads.
    #[must_use]
    pub fn pickles() -> Self {
        Self::of(ColumnKind::Pickles)
    }

    /// A column of nothing but None.
    #[must_use]
    pub fn nothing() -> Self {
        Self::of(ColumnKind::Nothing)
    }

    /// A column of records with these fields. Items are added to the fields, and then so many
    /// records with [`push_records`](Self::push_records).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for two fields of one name, or one that has items.
    pub fn records<N: Into<String>>(fields: impl IntoIterator<Item = (N, Self)>) -> Result<Self> {
        let mut records = Self::of(ColumnKind::Records);
        let mut names = HashSet::new();
        for (name, column) in fields {
            let name = name.into();
            if !names.insert(name.clone()) {
                return Err(Error::argument("fields", format!("two are named {name:?}")));
            }
            records.children.push((name, column));
        }
        Ok(records)
    }

    /// A column of lists of items of one kind. Items are added to the [`field_mut`] 0, and then a
    /// list of all that were added since the one before with [`push_list`](Self::push_list).
    ///
    /// [`field_mut`]: Self::field_mut
    #[must_use]
    pub fn lists(items: Self) -> Self {
        Self { children: vec![(String::new(), items)], ..Self::of(ColumnKind::Lists) }
    }

    /// Says what Python makes of an item.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the kind has no such items.
    pub fn set_item_type(&mut self, item: ItemType) -> Result<()> {
        if !item.is_of(self.kind) {
            let reason = format!("its items are {:?}, which none are of {item:?}", self.kind);
            return Err(Error::argument("item", reason));
        }
        self.item = item;
        Ok(())
    }

    /// Returns what its items are.
    #[must_use]
    pub fn kind(&self) -> ColumnKind {
        self.kind
    }

    /// Returns the dtype of numbers and arrays.
    #[must_use]
    pub fn dtype(&self) -> Option<&DType> {
        self.dtype.as_ref()
    }

    /// Returns the number of dimensions of arrays; 0 for anything else.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.ndim
    }

    /// Returns the names of its fields, by their numbers.
    pub fn field_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.children.iter().map(|(name, _)| name.as_str())
    }

    /// The entries of a dictionary, with its hash table. `keys` and `values` have as many items.
    pub(super) fn entries(keys: Self, values: Self, table: Vec<u8>) -> Self {
        let length = keys.length;
        let children = vec![(String::new(), keys), (String::new(), values)];
        Self { length, children, values: table.into(), ..Self::of(ColumnKind::Entries) }
    }

    /// Whether its items were added one by one, and so are in the builder.
    pub(super) fn has_items_here(&self) -> bool {
        self.written.is_none()
    }

    /// Returns the bytes of a string, of bytes, or of a number that is in the builder.
    pub(super) fn item_bytes(&self, index: u64) -> Result<Cow<'_, [u8]>> {
        let (start, end) = match self.dtype.as_ref().map(DType::itemsize) {
            Some(itemsize) => (index * itemsize, (index + 1) * itemsize),
            None if index + 1 == self.length => {
                (self.offsets.number(index)? as u64, self.end as u64)
            }
            None => (self.offsets.number(index)? as u64, self.offsets.number(index + 1)? as u64),
        };
        self.values.get(start, end)
    }

    /// Returns how many items are None.
    #[must_use]
    pub fn nulls(&self) -> u64 {
        if self.kind == ColumnKind::Nothing { self.length } else { self.nulls }
    }

    /// Returns how many items it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Returns how many bytes its items have so far.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let validity = self.validity.len() as u64;
        let own = self.values.len() + validity + self.offsets.len() + self.shapes.len();
        let written = self.written.as_ref().map_or(0, |written| written.size_bytes);
        let children = self.children.iter().map(|(_, column)| column.size_bytes());
        own + written + children.sum::<u64>()
    }

    /// Returns whether it has no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns a field by its number, to add to it. The items of lists are field 0.
    pub fn field_mut(&mut self, number: usize) -> Option<&mut Self> {
        self.children.get_mut(number).map(|(_, column)| column)
    }

    /// Adds one item of the dtype, as bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column, or another number of bytes.
    pub fn push_number(&mut self, bytes: &[u8]) -> Result<()> {
        self.expect(ColumnKind::Numbers)?;
        self.expect_bytes(bytes, 1)?;
        self.values.extend(bytes)?;
        self.add_item();
        Ok(())
    }

    /// Adds so many items of the dtype, as bytes.
    ///
    /// # Errors
    /// As for [`push_number`](Self::push_number); nothing is added.
    pub fn push_numbers(&mut self, count: u64, bytes: &[u8]) -> Result<()> {
        self.expect(ColumnKind::Numbers)?;
        self.expect_bytes(bytes, count)?;
        self.values.extend(bytes)?;
        if self.nulls == 0 {
            self.length += count;
        } else {
            (0..count).for_each(|_| self.set_bit(true));
        }
        Ok(())
    }

    /// Adds an array, as the bytes of its elements in C order.
    ///
    /// # Errors
    /// As for [`push_number`](Self::push_number); also for another number of dimensions.
    pub fn push_array(&mut self, shape: &[u64], bytes: &[u8]) -> Result<()> {
        self.expect(ColumnKind::Arrays)?;
        if shape.len() != self.ndim {
            let reason = format!("it has {} dimensions, not {}", shape.len(), self.ndim);
            return Err(Error::argument("shape", reason));
        }
        let count = size_bytes(shape, 1)?;
        self.expect_bytes(bytes, count)?;
        let row = shape.iter().map(|count| *count as i64);
        self.shapes.make_room(8 * self.ndim)?;
        self.offsets.make_room(8)?;
        self.values.extend(bytes)?;
        if self.first_shape.is_empty() {
            self.first_shape.extend(row.clone());
        } else {
            self.is_uniform &= row.clone().eq(self.first_shape.iter().copied());
        }
        row.clone().try_for_each(|count| self.shapes.push(count))?;
        self.end_at(self.end + count as i64)
    }

    /// Adds a string.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column.
    pub fn push_string(&mut self, text: &str) -> Result<()> {
        self.expect(ColumnKind::Strings)?;
        self.add_bytes(text.as_bytes())
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.expect(ColumnKind::Bytes)?;
        self.add_bytes(bytes)
    }

    /// Adds a pickle of protocol 5, and the buffers that it takes out of band.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column.
    pub fn push_pickle(&mut self, stream: &[u8], buffers: &[&[u8]]) -> Result<()> {
        self.expect(ColumnKind::Pickles)?;
        let start = self.values.len();
        let mut end = 16 + 16 * buffers.len() as u64 + stream.len() as u64;
        let parts = buffers.iter().map(|buffer| buffer.len()).chain([16 + 16 * buffers.len()]);
        let most = parts.chain([stream.len()]).map(|bytes| bytes + ALIGNMENT as usize).sum();
        self.offsets.make_room(8)?;
        self.values.make_room(most)?;
        self.values.extend(&(buffers.len() as u64).to_le_bytes())?;
        self.values.extend(&(stream.len() as u64).to_le_bytes())?;
        for buffer in buffers {
            let at = end.next_multiple_of(ALIGNMENT);
            end = at + buffer.len() as u64;
            self.values.extend(&at.to_le_bytes())?;
            self.values.extend(&(buffer.len() as u64).to_le_bytes())?;
        }
        self.values.extend(stream)?;
        let next_part = |values: &mut GrowingBytes| {
            let bytes = values.len() - start;
            values.extend_zeros((bytes.next_multiple_of(ALIGNMENT) - bytes) as usize)
        };
        for buffer in buffers {
            next_part(&mut self.values)?;
            self.values.extend(buffer)?;
        }
        next_part(&mut self.values)?;
        self.end_at(self.values.len() as i64)
    }

    /// Gives a column without items all of them, whose values are written when the list is made.
    /// The column of a field, or of the items of lists, has its items already. Afterwards no more
    /// values can be added.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column that has items; if the parts are not what the kind
    /// has, or their sizes do not agree; for offsets that do not rise from 0 to the number of
    /// values; for shapes with other numbers of elements.
    pub fn add_all(&mut self, items: AllItems) -> Result<()> {
        if self.length != 0 || self.written.is_some() {
            return Err(Error::argument("column", "it has items already"));
        }
        let nulls = items.nulls()?;
        let values = self.expect_values(&items)?;
        let is_uniform = self.kind == ColumnKind::Arrays && items.offsets.is_none();
        if items.offsets.is_some() != self.kind.has_offsets() && !is_uniform {
            return Err(Error::argument("offsets", format!("{:?} have others", self.kind)));
        }
        if let Some(offsets) = &items.offsets {
            check_offsets(offsets, items.length, values)?;
        }
        match self.kind {
            ColumnKind::Arrays => check_shapes(&items, self.ndim, values, nulls)?,
            _ if items.shapes.is_empty() => {}
            _ => return Err(Error::argument("shapes", format!("{:?} have none", self.kind))),
        }
        self.length = items.length;
        self.nulls = nulls;
        self.validity = items.validity.filter(|_| nulls > 0).unwrap_or_default();
        self.written = items.values;
        self.is_uniform = is_uniform;
        self.shapes = little_endian(&items.shapes).into();
        if is_uniform {
            self.first_shape = items.shapes;
        }
        if let Some(mut offsets) = items.offsets {
            self.end = offsets.pop().unwrap_or_default();
            self.offsets = little_endian(&offsets).into();
        }
        Ok(())
    }

    /// Returns how many values all items have: elements, bytes, or items of the child.
    fn expect_values(&self, items: &AllItems) -> Result<u64> {
        let wrong = |reason| Err(Error::argument("values", reason));
        let bytes = items.values.as_ref().map(|values| values.size_bytes);
        match (self.kind, bytes) {
            (ColumnKind::Pickles, _) => wrong("pickles are added one by one".to_owned()),
            (ColumnKind::Numbers | ColumnKind::Arrays, Some(bytes)) => {
                let itemsize = self.dtype.as_ref().map_or(0, DType::itemsize);
                let count = bytes.checked_div(itemsize).unwrap_or(items.length);
                let is_whole = count.checked_mul(itemsize) == Some(bytes);
                if !is_whole || (self.kind == ColumnKind::Numbers && count != items.length) {
                    return wrong(format!("{bytes} bytes for {} × {itemsize}", items.length));
                }
                Ok(count)
            }
            (ColumnKind::Strings | ColumnKind::Bytes, Some(bytes)) => Ok(bytes),
            (ColumnKind::Records, None) => {
                match self.children.iter().find(|(_, column)| column.length != items.length) {
                    None => Ok(items.length),
                    Some((name, column)) => {
                        wrong(format!("{name:?} has {} items of {}", column.length, items.length))
                    }
                }
            }
            (ColumnKind::Lists, None) => Ok(self.children[0].1.length),
            (ColumnKind::Nothing, None) => Ok(0),
            _ => wrong(format!("{:?} have others", self.kind)),
        }
    }

    /// Adds so many records, of which each field has the items already.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column, or if a field has more or fewer.
    pub fn push_records(&mut self, count: u64) -> Result<()> {
        self.expect(ColumnKind::Records)?;
        let length = self.length + count;
        if let Some((name, column)) =
            self.children.iter().find(|(_, column)| column.length != length)
        {
            let reason = format!("{name:?} has {} items of {length}", column.length);
            return Err(Error::argument("field", reason));
        }
        (0..count).for_each(|_| self.add_item());
        Ok(())
    }

    /// Adds a list of the items that were added to the column of its items since the list before.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another kind of column.
    pub fn push_list(&mut self) -> Result<()> {
        self.expect(ColumnKind::Lists)?;
        let end = self.children[0].1.length as i64;
        self.end_at(end)
    }

    /// Adds None.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for lists, if items were added that no list has yet; if all items
    /// were added together.
    pub fn push_none(&mut self) -> Result<()> {
        self.check_none()?;
        match self.kind {
            ColumnKind::Numbers => {
                let itemsize = self.dtype.as_ref().map_or(0, DType::itemsize) as usize;
                self.values.extend_zeros(itemsize)?;
            }
            ColumnKind::Records => {
                for (_, column) in &mut self.children {
                    column.push_none()?;
                }
            }
            _ => {}
        }
        if self.kind.has_offsets() {
            self.offsets.make_room(8)?;
        }
        if self.kind == ColumnKind::Arrays {
            self.shapes.extend_zeros(8 * self.ndim)?;
            self.is_uniform = false;
        }
        if self.kind.has_offsets() {
            self.offsets.push(self.end)?;
        }
        if self.nulls == 0 {
            // All before it are there.
            self.validity = vec![u8::MAX; self.length.div_ceil(8) as usize];
        }
        self.nulls += 1;
        self.set_bit(false);
        Ok(())
    }

    /// Refuses None behind items that no list has, or behind all items, in this column or in a
    /// field.
    fn check_none(&self) -> Result<()> {
        self.expect_open()?;
        match self.kind {
            ColumnKind::Lists if self.children[0].1.length as i64 != self.end => {
                Err(Error::argument("column", "items were added that no list has"))
            }
            ColumnKind::Records => {
                self.children.iter().try_for_each(|(_, column)| column.check_none())
            }
            _ => Ok(()),
        }
    }

    fn add_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.offsets.make_room(8)?;
        self.values.extend(bytes)?;
        self.end_at(self.end + bytes.len() as i64)
    }

    fn end_at(&mut self, end: i64) -> Result<()> {
        self.offsets.push(self.end)?;
        self.end = end;
        self.add_item();
        Ok(())
    }

    fn add_item(&mut self) {
        if self.nulls == 0 {
            self.length += 1;
        } else {
            self.set_bit(true);
        }
    }

    /// Counts an item and notes whether it is there.
    fn set_bit(&mut self, is_there: bool) {
        let (at, bit) = ((self.length / 8) as usize, 1u8 << (self.length % 8));
        if at == self.validity.len() {
            self.validity.push(0);
        }
        if is_there {
            self.validity[at] |= bit;
        } else {
            self.validity[at] &= !bit;
        }
        self.length += 1;
    }

    fn expect(&self, kind: ColumnKind) -> Result<()> {
        if self.kind == kind {
            return self.expect_open();
        }
        Err(Error::argument("column", format!("its items are {:?}, not {kind:?}", self.kind)))
    }

    fn expect_open(&self) -> Result<()> {
        match self.written {
            None => Ok(()),
            Some(_) => Err(Error::argument("column", "all its items were added together")),
        }
    }

    fn expect_bytes(&self, bytes: &[u8], count: u64) -> Result<()> {
        let itemsize = self.dtype.as_ref().map_or(0, DType::itemsize);
        let wanted = count.checked_mul(itemsize);
        if wanted == Some(bytes.len() as u64) {
            return Ok(());
        }
        let reason = format!("there are {}, not {count} × {itemsize}", bytes.len());
        Err(Error::argument("bytes", reason))
    }
}

/// Checks offsets that lead to so many values.
fn check_offsets(offsets: &[i64], length: u64, values: u64) -> Result<()> {
    let wrong = |reason| Err(Error::argument("offsets", reason));
    if offsets.len() as u64 != length + 1 {
        return wrong(format!("there are {} for {length} items", offsets.len()));
    }
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    if first != 0 || u64::try_from(last) != Ok(values) {
        return wrong(format!("they go from {first} to {last}, not from 0 to {values}"));
    }
    match offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        None => Ok(()),
        Some(item) => wrong(format!("they fall from item {item} to the next")),
    }
}

/// Checks the shapes of arrays with so many elements together.
fn check_shapes(items: &AllItems, ndim: usize, values: u64, nulls: u64) -> Result<()> {
    let wrong = |reason| Err(Error::argument("shapes", reason));
    let elements = |row: &[i64]| {
        let mut counts = row.iter().map(|count| u64::try_from(*count).ok());
        counts.try_fold(1u64, |product, count| product.checked_mul(count?))
    };
    let Some(offsets) = &items.offsets else {
        let count = elements(&items.shapes).and_then(|count| count.checked_mul(items.length));
        if items.shapes.len() != ndim || count != Some(values) || nulls != 0 || items.length == 0 {
            return wrong(format!("{:?} for {} arrays, {nulls} None", items.shapes, items.length));
        }
        return Ok(());
    };
    let rows = if ndim == 1 { 0 } else { (offsets.len() - 1) * ndim };
    if items.shapes.len() != rows {
        return wrong(format!("there are {} numbers, not {rows}", items.shapes.len()));
    }
    let is_there = |item: usize| {
        items.validity.as_ref().is_none_or(|bits| bits[item / 8] >> (item % 8) & 1 == 1)
    };
    for (item, row) in items.shapes.chunks_exact(ndim).enumerate() {
        let count = (offsets[item + 1] - offsets[item]) as u64;
        if is_there(item) && elements(row) != Some(count) {
            return wrong(format!("{row:?} of {count} elements, item {item}"));
        }
    }
    Ok(())
}

pub(super) fn little_endian(numbers: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * numbers.len());
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}
