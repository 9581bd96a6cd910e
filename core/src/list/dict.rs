//! Dictionaries: frozen mappings, found by a hash table in the shared memory.

use std::path::Path;

use super::build::ColumnBuilder;
use super::bytes::fault;
use super::create;
use super::format::{ColumnKind, ItemType, WORD_BYTES, can_be_keys};
use super::{Column, List};
use crate::Options;
use crate::array::Array;
use crate::system::Access;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};

/// The name of the dtype of an array that is a dictionary.
const DTYPE_NAME: &str = "dict";
/// A word of the table has the number of an entry plus one in so many bits, and above them those
/// bits of the key's hash.
const ENTRY_BITS: u32 = 40;
const ENTRY_MASK: u64 = (1 << ENTRY_BITS) - 1;

/// A key of a dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the format has no other keys")]
pub enum Key<'a> {
    /// A string.
    String(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An integer.
    Integer(i64),
}

/// A frozen mapping in shared memory. A clone is the same memory.
///
/// ```
/// use shmarray::{ColumnBuilder, DType, Dict, Key, Options};
///
/// let mut names = ColumnBuilder::strings();
/// let mut sizes = ColumnBuilder::numbers(DType::parse("<i4")?)?;
/// for (name, size) in [("one", 1_i32), ("fifteen", 15)] {
///     names.push_string(name)?;
///     sizes.push_number(&size.to_le_bytes())?;
/// }
/// let dict = Dict::create(names, sizes, &Options::default())?;
/// assert_eq!(dict.find(Key::String("fifteen"))?, Some(1));
/// assert_eq!(dict.find(Key::String("two"))?, None);
/// # Ok::<(), shmarray::Error>(())
/// ```
#[derive(Clone)]
pub struct Dict {
    list: List,
}

impl Dict {
    /// Creates a dictionary of keys and as many values.
    ///
    /// # Errors
    /// As for [`List::create`]; [`Error::InvalidArgument`] for a key that is there twice or is
    /// None, for keys of another kind than strings, bytes or numbers of `<i8`, for keys that were
    /// not added one by one, and for more or fewer values.
    pub fn create(keys: ColumnBuilder, values: ColumnBuilder, options: &Options) -> Result<Self> {
        Self::create_with_room(keys, values, options, |_| false)
    }

    /// Does the same as [`create`](Self::create). After an error it tries again if `make_room` says
    /// that there may be room now.
    ///
    /// # Errors
    /// As for [`create`](Self::create): those after which `make_room` says no.
    pub fn create_with_room(
        mut keys: ColumnBuilder,
        values: ColumnBuilder,
        options: &Options,
        make_room: impl FnMut(&Error) -> bool,
    ) -> Result<Self> {
        let count = keys.len();
        if count > 0 && !can_be_keys(keys.kind(), keys.dtype()) {
            let reason = format!("they are {:?}, and not strings, bytes or <i8", keys.kind());
            return Err(Error::argument("keys", reason));
        }
        if !keys.has_items_here() {
            return Err(Error::argument("keys", "they were added all together"));
        }
        if keys.nulls() != 0 {
            return Err(Error::argument("keys", "one is None"));
        }
        if values.len() != count {
            let reason = format!("there are {} for {count} keys", values.len());
            return Err(Error::argument("values", reason));
        }
        if keys.kind() == ColumnKind::Numbers {
            keys.set_item_type(ItemType::Scalar)?; // no scalars of NumPy, but Python's own int
        }
        let table = table_of(&keys)?;
        let entries = ColumnBuilder::entries(keys, values, table);
        let dtype = DType::by_name(DTYPE_NAME, 1)?;
        Self::of(create::create(entries, dtype, options, make_room)?)
    }

    /// Attaches a dictionary by its handle or its name, read-only.
    ///
    /// # Errors
    /// As for [`List::attach`].
    pub fn attach(handle_or_name: &str) -> Result<Self> {
        Self::of(Array::attach(handle_or_name, Access::ReadOnly)?)
    }

    /// Returns the dictionary that an array is.
    ///
    /// # Errors
    /// As for [`List::of`].
    pub fn of(array: Array) -> Result<Self> {
        Self::of_list(List::of_dtype(array, DTYPE_NAME)?)
    }

    /// Opens a dictionary in a file, as [`List::open`] does.
    ///
    /// # Errors
    /// As for [`List::open`].
    pub fn open(path: impl AsRef<Path>, is_checked: bool) -> Result<Self> {
        let path = path.as_ref();
        let list = List::open_any(path, is_checked)?;
        Self::of_list(list).map_err(|error| super::bytes::in_file(path, error))
    }

    fn of_list(list: List) -> Result<Self> {
        if list.items().kind() != ColumnKind::Entries {
            return Err(fault("kind", "it is a list, and no dictionary".into()));
        }
        Ok(Self { list })
    }

    /// Saves the dictionary to a file, as [`List::save`] does.
    ///
    /// # Errors
    /// As for [`List::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.list.save(path)
    }

    /// Returns the list that has its columns: 1 has the keys, and [`values`](Self::values) the
    /// values.
    #[must_use]
    pub fn as_list(&self) -> &List {
        &self.list
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.list.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the column of the keys.
    #[must_use]
    pub fn keys(&self) -> Column<'_> {
        self.child(0)
    }

    /// Returns the column of the values. A key's is the one with the key's number.
    #[must_use]
    pub fn values(&self) -> Column<'_> {
        self.child(1)
    }

    fn child(&self, number: usize) -> Column<'_> {
        self.list.items().children().nth(number).unwrap_or_else(|| self.list.items())
    }

    /// Returns the number of the entry with a key, or `None`.
    ///
    /// # Errors
    /// [`Error::InvalidList`] when the bytes are broken.
    pub fn find(&self, key: Key<'_>) -> Result<Option<u64>> {
        let integer;
        let (kind, bytes) = match key {
            Key::String(text) => (ColumnKind::Strings, text.as_bytes()),
            Key::Bytes(bytes) => (ColumnKind::Bytes, bytes),
            Key::Integer(number) => {
                integer = number.to_le_bytes();
                (ColumnKind::Numbers, &integer[..])
            }
        };
        let keys = self.keys();
        if keys.kind() != kind {
            return Ok(None);
        }
        let (table, _) = self.list.items().values_range()?;
        let words = (table.end - table.start) / WORD_BYTES;
        let hash = hash_of(bytes);
        let mut copy = Vec::new();
        for step in 0..words {
            let place = hash.wrapping_add(step) & (words - 1);
            let word = u64::from_le_bytes(self.list.bytes.load(table.start + WORD_BYTES * place)?);
            if word == 0 {
                return Ok(None);
            }
            if word >> ENTRY_BITS != hash >> ENTRY_BITS {
                continue;
            }
            let Some(entry) = (word & ENTRY_MASK).checked_sub(1).filter(|it| *it < keys.len())
            else {
                return Err(fault("values", format!("no entry, in word {place} of the table")));
            };
            if keys.item_ptr(entry)?.1 == bytes.len() as u64 {
                copy.resize(bytes.len(), 0);
                keys.copy_item(entry, &mut copy)?;
                if copy == bytes {
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the hash table of keys, all of which differ.
fn table_of(keys: &ColumnBuilder) -> Result<Vec<u8>> {
    let count = keys.len();
    if count >= ENTRY_MASK {
        return Err(Error::argument("keys", format!("there are {count}")));
    }
    let words = (2 * count).max(1).next_power_of_two();
    let mut table = vec![0_u64; words as usize];
    for entry in 0..count {
        let bytes = keys.item_bytes(entry)?;
        let hash = hash_of(&bytes);
        let mut place = hash & (words - 1);
        while table[place as usize] != 0 {
            let other = (table[place as usize] & ENTRY_MASK) - 1;
            if keys.item_bytes(other)? == bytes {
                let reason = format!("number {other} and number {entry} are the same");
                return Err(Error::argument("keys", reason));
            }
            place = (place + 1) & (words - 1);
        }
        table[place as usize] = hash >> ENTRY_BITS << ENTRY_BITS | (entry + 1);
    }
    Ok(table.iter().flat_map(|word| word.to_le_bytes()).collect())
}

/// FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
fn hash_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
