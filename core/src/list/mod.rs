//! Lists: immutable sequences of numbers, arrays, strings, bytes or records in the bytes of an
//! array, in Arrow's layout. core/LISTS.md says what the bytes are.

mod bytes;
mod format;
mod growing;
mod build;
mod create;
mod dict;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub use build::{AllItems, ColumnBuilder, Written};
pub use dict::{Dict, Key};
pub use format::{ColumnKind, ItemType};

use crate::array::Array;
use crate::element::{Element, per_byte};
use crate::system::Access;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::number::Number;
use crate::value::shape::{Layout, Order};
use bytes::{ListBytes, fault};
use format::ListLayout;

/// The name of the dtype of an array that is a list.
const DTYPE_NAME: &str = "list";

/// An immutable sequence in shared memory. A clone is the same memory.
///
/// ```
/// use shmarray::{ColumnBuilder, DType, List, Number, Options};
///
/// let mut texts = ColumnBuilder::strings();
/// let mut samples = ColumnBuilder::arrays(DType::parse("|u1")?, 1)?;
/// for text in ["one", "fifteen"] {
///     texts.push_string(text)?;
///     samples.push_array(&[text.len() as u64], text.as_bytes())?;
/// }
/// let mut records = ColumnBuilder::records([("text", texts), ("sample", samples)])?;
/// records.push_records(2)?;
/// let list = List::create(records, &Options::default())?;
///
/// let again = List::attach(&list.array().expect("it is in shared memory").handle())?;
/// let sample = again.items().field("sample").expect("it is a field");
/// assert_eq!(sample.array(1)?.get_number(&[2])?, Number::Integer(i128::from(b'f')));
/// assert_eq!(again.items().field("text").expect("it is a field").string(0)?, "one");
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Clone)]
pub struct List {
    bytes: ListBytes,
    layout: Arc<ListLayout>,
}

impl List {
    /// Creates a list of the items of a column.
    ///
    /// # Errors
    /// As for [`Array::create`]; [`Error::InvalidArgument`] for more than 65,536 columns, or more
    /// than 16 above one another.
    pub fn create(items: ColumnBuilder, options: &crate::Options) -> Result<Self> {
        Self::create_with_room(items, options, |_| false)
    }

    /// Does the same as [`create`](Self::create). After an error it tries again if `make_room` says
    /// that there may be room now.
    ///
    /// # Errors
    /// As for [`create`](Self::create): those after which `make_room` says no.
    pub fn create_with_room(
        items: ColumnBuilder,
        options: &crate::Options,
        make_room: impl FnMut(&Error) -> bool,
    ) -> Result<Self> {
        let dtype = DType::by_name(DTYPE_NAME, 1)?;
        Self::of(create::create(items, dtype, options, make_room)?)
    }

    /// Attaches a list by its handle or its name, read-only.
    ///
    /// # Errors
    /// As for [`Array::attach`], and [`List::of`].
    pub fn attach(handle_or_name: &str) -> Result<Self> {
        Self::of(Array::attach(handle_or_name, Access::ReadOnly)?)
    }

    /// Returns the list that an array is.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for an array of another dtype; [`Error::InvalidList`] for one whose
    /// bytes are no list. The offsets and values are checked when they are read.
    pub fn of(array: Array) -> Result<Self> {
        let list = Self::of_dtype(array, DTYPE_NAME)?;
        if list.items().kind() == ColumnKind::Entries {
            return Err(fault("kind", "it is a dictionary".into()));
        }
        Ok(list)
    }

    /// Returns the list that an array of the dtype with a name is.
    fn of_dtype(array: Array, name: &str) -> Result<Self> {
        array.expect_dtype(DType::by_name(name, 1)?)?;
        if array.shape().len() != 1 || !array.is_contiguous(Order::C) {
            return Err(fault("shape", "a list has one dimension without gaps".into()));
        }
        Self::of_bytes(ListBytes::Array(array))
    }

    fn of_bytes(bytes: ListBytes) -> Result<Self> {
        let layout = Arc::new(ListLayout::read(&bytes)?);
        Ok(Self { bytes, layout })
    }

    /// Saves the list to a file, with a checksum. The file appears under its path when it is
    /// complete; [`npy::save`](crate::npy::save) says what becomes of an older one.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::FileNotFound`] for a folder that does not exist.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        bytes::save(path.as_ref(), &self.bytes, self.layout.bytes)
    }

    /// Opens a list in a file, which is mapped: its pages are read when they are needed. With
    /// `is_checked` all of it is read now, and compared with its checksum. Stores to its arrays
    /// change this process's memory alone.
    ///
    /// If another program makes the file shorter meanwhile, reading the lost pages is a bus error,
    /// as of any mapping.
    ///
    /// # Errors
    /// [`Error::InvalidFile`], which names the field; [`Error::FileNotFound`]; [`Error::Os`].
    pub fn open(path: impl AsRef<Path>, is_checked: bool) -> Result<Self> {
        let path = path.as_ref();
        let list = Self::open_any(path, is_checked)?;
        if list.items().kind() == ColumnKind::Entries {
            return Err(bytes::in_file(path, fault("kind", "it is a dictionary".into())));
        }
        Ok(list)
    }

    /// Opens a list or a dictionary in a file.
    fn open_any(path: &Path, is_checked: bool) -> Result<Self> {
        let list = Self::of_bytes(ListBytes::open(path)?).and_then(|list| {
            if is_checked {
                bytes::check(&list.bytes, list.layout.bytes)?;
            }
            Ok(list)
        });
        list.map_err(|error| bytes::in_file(path, error))
    }

    /// Returns the array of the list's bytes, which has its handle. `None` for a list in a file.
    #[must_use]
    pub fn array(&self) -> Option<&Array> {
        match &self.bytes {
            ListBytes::Array(array) => Some(array),
            ListBytes::File(_) => None,
        }
    }

    /// Returns the address of the first byte of the list.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.bytes.as_ptr()
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.items().len()
    }

    /// Returns whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the size of the list in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.layout.bytes
    }

    /// Returns the column of the items.
    #[must_use]
    pub fn items(&self) -> Column<'_> {
        Column { list: self, number: 0 }
    }

    /// Returns a column by its number, in the order of a walk: column 0 has the list's items.
    #[must_use]
    pub fn column(&self, number: usize) -> Option<Column<'_>> {
        (number < self.layout.columns.len()).then_some(Column { list: self, number })
    }

    /// Returns the address of a byte of the list, from which so many on lie in it.
    fn address(&self, at: u64, bytes: u64) -> Result<*const u8> {
        match at.checked_add(bytes) {
            Some(end) if end <= self.layout.bytes => self.bytes.address(at, bytes),
            _ => Err(fault("bytes", format!("{bytes} from {at} on, of {}", self.layout.bytes))),
        }
    }

    fn load_i64(&self, at: u64) -> Result<i64> {
        self.bytes.load(at).map(i64::from_le_bytes)
    }

    fn copied(&self, at: u64, bytes: u64) -> Result<Vec<u8>> {
        self.address(at, bytes)?;
        self.bytes.copied(at, bytes)
    }

    /// Returns an array of so many elements from a byte of the list on.
    fn array_at(&self, dtype: &DType, shape: &[u64], start: u64) -> Result<Array> {
        let Some(array) = self.array() else {
            let reason = "it is in a file, and its arrays are in no shared memory";
            return Err(Error::argument("list", reason));
        };
        let mut layout = Layout::contiguous(shape, dtype.itemsize(), Order::C)?;
        layout.offset = array.layout().offset + start;
        layout.check(dtype.itemsize(), array.segment().data_bytes())?;
        Ok(Array::of(Arc::clone(array.segment()), dtype.clone(), layout))
    }
}

/// One column of a list: its items, those of a field, or those of the lists in it.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    list: &'a List,
    number: usize,
}

impl<'a> Column<'a> {
    fn described(&self) -> &'a format::ColumnLayout {
        &self.list.layout.columns[self.number]
    }

    /// Returns the number by which [`List::column`] finds it.
    #[must_use]
    pub fn column_number(&self) -> usize {
        self.number
    }

    /// Returns what its items are.
    #[must_use]
    pub fn kind(&self) -> ColumnKind {
        self.described().kind
    }

    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.described().length
    }

    /// Returns whether there is no item.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many items are None.
    #[must_use]
    pub fn nulls(&self) -> u64 {
        self.described().nulls
    }

    /// Returns the name of the field, or a text of no length.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.described().name
    }

    /// Returns the dtype of numbers and arrays.
    #[must_use]
    pub fn dtype(&self) -> Option<&'a DType> {
        self.described().dtype.as_ref()
    }

    /// Returns what Python makes of an item.
    #[must_use]
    pub fn item_type(&self) -> &'a ItemType {
        &self.described().item
    }

    /// Returns the shape that all arrays have, if the list says that they have one.
    #[must_use]
    pub fn common_shape(&self) -> Option<&'a [u64]> {
        self.described().shape.as_deref()
    }

    /// Returns the number of dimensions of arrays; 0 for anything else.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.described().ndim
    }

    /// Returns the fields of records, or the column of the items of lists.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Column<'a>> + use<'a> {
        let list = self.list;
        self.described().children.iter().map(move |number| Column { list, number: *number })
    }

    /// Returns a field of records.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Column<'a>> {
        let is_records = self.kind() == ColumnKind::Records;
        self.children().find(|child| is_records && child.name() == name)
    }

    /// Returns the values of all items, one after another: the numbers, the elements of all arrays,
    /// or bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column without values.
    pub fn values(&self) -> Result<Array> {
        let (range, count) = self.values_range()?;
        let bytes = u8::dtype();
        let dtype = self.described().dtype.as_ref().unwrap_or(&bytes);
        self.list.array_at(dtype, &[count], range.start)
    }

    /// Returns the offsets: where each item begins in the values, and last where they end.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column without offsets.
    pub fn offsets(&self) -> Result<Array> {
        let range = self.offsets_range()?;
        self.list.array_at(&i64::dtype(), &[self.len() + 1], range.start)
    }

    /// Returns where the [`values`](Self::values) lie, from the first byte of the list on, and how
    /// many elements or bytes they are.
    ///
    /// # Errors
    /// As for [`values`](Self::values).
    pub fn values_range(&self) -> Result<(Range<u64>, u64)> {
        let column = self.described();
        if !column.kind.has_values() {
            return Err(self.has_no("values"));
        }
        let itemsize = column.dtype.as_ref().map_or(1, DType::itemsize);
        let count = match column.kind {
            ColumnKind::Numbers => column.length,
            _ => column.values_bytes / itemsize.max(1),
        };
        Ok((column.values..column.values + column.values_bytes, count))
    }

    /// Returns where the [`offsets`](Self::offsets) lie, from the first byte of the list on.
    ///
    /// # Errors
    /// As for [`offsets`](Self::offsets).
    pub fn offsets_range(&self) -> Result<Range<u64>> {
        let column = self.described();
        if column.offsets == 0 {
            return Err(self.has_no("offsets"));
        }
        Ok(column.offsets..column.offsets + 8 * (column.length + 1))
    }

    /// Returns where the bits lie that say which items are there, from the first byte of the list
    /// on. `None` if all are.
    #[must_use]
    pub fn validity_range(&self) -> Option<Range<u64>> {
        let column = self.described();
        (column.validity != 0).then(|| column.validity..column.validity + column.length.div_ceil(8))
    }

    /// Returns where the shapes of arrays lie, a row for each, from the first byte of the list on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column without: arrays of one shape have none, nor do those
    /// of one dimension.
    pub fn shapes_range(&self) -> Result<Range<u64>> {
        let column = self.described();
        if column.ndim < 2 || column.shape.is_some() {
            return Err(self.has_no("shapes"));
        }
        Ok(column.shapes..column.shapes + 8 * column.length * column.ndim as u64)
    }

    /// Returns whether an item is None.
    ///
    /// # Errors
    /// [`Error::IndexOutOfBounds`].
    pub fn is_none(&self, index: u64) -> Result<bool> {
        let column = self.described();
        self.check_index(index)?;
        if column.kind == ColumnKind::Nothing || column.nulls == 0 {
            return Ok(column.kind == ColumnKind::Nothing);
        }
        let [bits] = self.list.bytes.load(column.validity + index / 8)?;
        Ok(bits >> (index % 8) & 1 == 0)
    }

    /// Returns a number, and `None` for one that is None.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column of another kind; [`Error::IndexOutOfBounds`]; as for
    /// [`Array::get_number`].
    pub fn number(&self, index: u64) -> Result<Option<Number>> {
        self.expect(ColumnKind::Numbers)?;
        if self.is_none(index)? {
            return Ok(None);
        }
        self.values()?.get_number(&[index]).map(Some)
    }

    /// Returns an array as a view of the list's memory. One that is None has no elements.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a column of another kind; [`Error::IndexOutOfBounds`];
    /// [`Error::InvalidList`] when the list's bytes are broken.
    pub fn array(&self, index: u64) -> Result<Array> {
        self.expect(ColumnKind::Arrays)?;
        let column = self.described();
        let Some(dtype) = &column.dtype else { return Err(self.has_no("dtype")) };
        let mut shape = vec![0; column.ndim];
        self.read_shape(index, &mut shape)?;
        let start = match &column.shape {
            Some(shape) => index * shape.iter().product::<u64>(),
            None => {
                // Another process may have written to the offsets since the shape was read.
                let range = self.range(index)?;
                if range.end - range.start < shape.iter().product() {
                    return Err(fault("offsets", format!("they changed, item {index}")));
                }
                range.start
            }
        };
        self.list.array_at(dtype, &shape, column.values + start * dtype.itemsize())
    }

    /// Returns a string.
    ///
    /// # Errors
    /// As for [`Column::array`]; [`Error::InvalidList`] also when it is not UTF-8.
    pub fn string(&self, index: u64) -> Result<String> {
        self.expect(ColumnKind::Strings)?;
        String::from_utf8(self.bytes_of(index)?)
            .map_err(|error| fault("values", format!("item {index}: {error}")))
    }

    /// Returns bytes.
    ///
    /// # Errors
    /// As for [`Column::array`].
    pub fn bytes(&self, index: u64) -> Result<Vec<u8>> {
        self.expect(ColumnKind::Bytes)?;
        self.bytes_of(index)
    }

    /// Returns a pickle of Python: where its stream lies, and its buffers, from the first byte of
    /// the list on.
    ///
    /// # Errors
    /// As for [`Column::array`].
    pub fn pickle(&self, index: u64) -> Result<(Range<u64>, Vec<Range<u64>>)> {
        self.expect(ColumnKind::Pickles)?;
        let range = self.range(index)?;
        let (start, bytes) = (self.described().values + range.start, range.end - range.start);
        let wrong = |what: &str| fault("values", format!("{what} of {bytes} bytes, item {index}"));
        let word = |at: u64| match at.checked_add(8) {
            Some(end) if end <= bytes => self.list.bytes.load(start + at).map(u64::from_le_bytes),
            _ => Err(wrong("a head")),
        };
        let within = |from: u64, size: u64| match from.checked_add(size) {
            Some(end) if end <= bytes => Ok(start + from..start + end),
            _ => Err(wrong("a part")),
        };
        let (count, stream_bytes) = (word(0)?, word(8)?);
        let head = count.checked_mul(16).and_then(|pairs| pairs.checked_add(16));
        let head = head.filter(|head| *head <= bytes).ok_or_else(|| wrong("a head"))?;
        let stream = within(head, stream_bytes)?;
        let buffers = (0..count).map(|number| {
            let from = word(16 + 16 * number)?;
            if !from.is_multiple_of(format::ALIGNMENT) {
                return Err(wrong("a buffer between multiples of 64"));
            }
            within(from, word(24 + 16 * number)?)
        });
        Ok((stream, buffers.collect::<Result<_>>()?))
    }

    /// Returns where the bytes of an item lie, and how many they are: of a number, an array's
    /// elements, a string, bytes, or a pickle. They are valid as long as the list.
    ///
    /// # Errors
    /// As for [`Column::array`]; [`Error::InvalidArgument`] for items without bytes of their own.
    pub fn item_ptr(&self, index: u64) -> Result<(*const u8, u64)> {
        let column = self.described();
        let itemsize = column.dtype.as_ref().map_or(1, DType::itemsize);
        let (start, bytes) = match (column.kind, &column.shape) {
            (
                ColumnKind::Records | ColumnKind::Lists | ColumnKind::Nothing | ColumnKind::Entries,
                _,
            ) => {
                return Err(self.has_no("bytes of their own"));
            }
            (ColumnKind::Numbers, _) => {
                self.check_index(index)?;
                (index * itemsize, itemsize)
            }
            (_, Some(shape)) => {
                self.check_index(index)?;
                let each = shape.iter().product::<u64>() * itemsize;
                (index * each, each)
            }
            _ => {
                let range = self.range(index)?;
                (range.start * itemsize, (range.end - range.start) * itemsize)
            }
        };
        Ok((self.list.address(column.values + start, bytes)?, bytes))
    }

    /// Copies the bytes of an item, as [`item_ptr`](Self::item_ptr) finds them.
    ///
    /// # Errors
    /// As for [`item_ptr`](Self::item_ptr); [`Error::InvalidArgument`] for another number of bytes.
    #[allow(unsafe_code)]
    pub fn copy_item(&self, index: u64, copy: &mut [u8]) -> Result<()> {
        let (start, bytes) = self.item_ptr(index)?;
        if bytes != copy.len() as u64 {
            let reason = format!("there are {}, not {bytes}", copy.len());
            return Err(Error::argument("bytes", reason));
        }
        // SAFETY: `copy` needs bytes that can be read, which `item_ptr` says of these, and room for
        // them, which the slice has.
        unsafe { per_byte::copy(copy.as_mut_ptr(), start, copy.len()) };
        Ok(())
    }

    /// Writes the shape of an array to `shape`, which has a place for each dimension.
    ///
    /// # Errors
    /// As for [`Column::array`]; [`Error::InvalidArgument`] for another number of places.
    pub fn read_shape(&self, index: u64, shape: &mut [u64]) -> Result<()> {
        self.expect(ColumnKind::Arrays)?;
        let column = self.described();
        if shape.len() != column.ndim {
            let reason = format!("there are {} places for {}", shape.len(), column.ndim);
            return Err(Error::argument("shape", reason));
        }
        self.check_index(index)?;
        if let Some(all) = &column.shape {
            shape.copy_from_slice(all);
            return Ok(());
        }
        let range = self.range(index)?;
        let count = range.end - range.start;
        if let [only] = shape {
            *only = count;
            return Ok(());
        }
        let first = column.shapes + index * 8 * column.ndim as u64;
        for (at, dim) in (first..).step_by(8).zip(shape.iter_mut()) {
            let found = self.list.load_i64(at)?;
            *dim = u64::try_from(found)
                .map_err(|_| fault("shapes", format!("{found}, item {index}")))?;
        }
        let product = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
        if product != Some(count) {
            if !self.is_none(index)? {
                let reason = format!("{shape:?} of {count} elements, item {index}");
                return Err(fault("shapes", reason));
            }
            shape.fill(0);
        }
        Ok(())
    }

    /// Returns where the items of a list are in the column of its items.
    ///
    /// # Errors
    /// As for [`Column::array`].
    pub fn list(&self, index: u64) -> Result<Range<u64>> {
        self.expect(ColumnKind::Lists)?;
        self.range(index)
    }

    fn bytes_of(&self, index: u64) -> Result<Vec<u8>> {
        let range = self.range(index)?;
        self.list.copied(self.described().values + range.start, range.end - range.start)
    }

    /// Checks all offsets, for a reader that will not: that each is in range, and none is smaller
    /// than the one before it.
    ///
    /// # Errors
    /// [`Error::InvalidList`]; [`Error::InvalidArgument`] for a column without offsets.
    pub fn check_offsets(&self) -> Result<()> {
        self.offsets_range()?;
        (0..self.len()).try_for_each(|index| self.range(index).map(|_| ()))
    }

    /// Returns from where to where an item has values: in elements, bytes, or items of the child.
    fn range(&self, index: u64) -> Result<Range<u64>> {
        self.check_index(index)?;
        let column = self.described();
        let at = column.offsets + index * 8;
        let both = u128::from_le_bytes(self.list.bytes.load(at)?);
        let (start, end) = (both as i64, (both >> 64) as i64);
        let most = match (column.kind, &column.dtype) {
            (ColumnKind::Lists, _) => self.children().next().map_or(0, |child| child.len()),
            (_, Some(dtype)) => column.values_bytes / dtype.itemsize().max(1),
            _ => column.values_bytes,
        };
        match (u64::try_from(start), u64::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end && end <= most => Ok(start..end),
            _ => Err(fault("offsets", format!("{start} to {end} of {most}, item {index}"))),
        }
    }

    fn check_index(&self, index: u64) -> Result<()> {
        if index < self.len() {
            return Ok(());
        }
        Err(Error::IndexOutOfBounds { index: i128::from(index), count: self.len() })
    }

    fn expect(&self, kind: ColumnKind) -> Result<()> {
        if self.kind() == kind {
            return Ok(());
        }
        Err(Error::argument("column", format!("its items are {:?}, not {kind:?}", self.kind())))
    }

    fn has_no(&self, what: &str) -> Error {
        Error::argument("column", format!("{:?} have no {what}", self.kind()))
    }
}
