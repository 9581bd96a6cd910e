//! Making a list: its bytes are planned, and then written from the first to the last.

use std::cell::RefCell;

use super::build::{ColumnBuilder, Written, little_endian};
use super::bytes::HEADER_BYTES;
use super::format::{
    ALIGNMENT, COLUMN_BYTES, ColumnKind, ItemType, MAGIC, MAX_COLUMNS, MAX_DEPTH, MAX_TEXTS_BYTES,
    VERSION,
};
use super::growing::{GrowingBytes, PURPOSE};
use crate::Options;
use crate::array::Array;
use crate::memory::mapping::TakePiece;
use crate::memory::sweep::sweep;
use crate::system;
use crate::value::dtype::DType;
use crate::value::error::{Error, ErrorKind, Result};

/// How many bytes are written at once.
const STEP_BYTES: usize = 256 << 10;

/// A part of the list, and where it begins.
type Part = (u64, PartBytes);

enum PartBytes {
    Whole(GrowingBytes),
    Written(Written),
}

impl PartBytes {
    fn len(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Written(written) => written.size_bytes,
        }
    }

    fn write(self, to: &mut [u8]) -> Result<()> {
        match self {
            Self::Written(written) => (written.write)(to),
            Self::Whole(mut bytes) => {
                let mut at = 0;
                while at < to.len() {
                    at += bytes.take(at as u64, &mut to[at..])?;
                }
            }
        }
        Ok(())
    }

    fn has_pieces(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.has_pieces())
    }

    /// Lets the function write its bytes, if a function has them.
    fn make_whole(&mut self) -> Result<()> {
        if let Self::Written(written) = self {
            let mut bytes = system::room_for(PURPOSE, written.size_bytes)?;
            bytes.resize(written.size_bytes as usize, 0);
            let empty = Self::Whole(GrowingBytes::default());
            std::mem::replace(self, empty).write(&mut bytes)?;
            *self = Self::Whole(bytes.into());
        }
        Ok(())
    }

    fn take(&mut self, at: u64, to: &mut [u8]) -> Result<usize> {
        match self {
            Self::Whole(bytes) => bytes.take(at, to),
            Self::Written(_) => Ok(0),
        }
    }

    fn make_private(&mut self) -> Result<()> {
        match self {
            Self::Whole(bytes) => bytes.make_private(),
            Self::Written(_) => Ok(()),
        }
    }
}

/// The parts of a list, some of them in shared memory already.
struct Parts<'a> {
    parts: Vec<Part>,
    make_room: &'a mut dyn FnMut(&Error) -> bool,
}

impl Parts<'_> {
    /// Writes all of the list. What is in shared memory is given back as it is written.
    fn write(mut self, take: &mut TakePiece<'_>) -> Result<()> {
        let mut buffer = vec![0; STEP_BYTES];
        let mut end = 0;
        for number in 0..self.parts.len() {
            let (start, bytes) = (self.parts[number].0, self.parts[number].1.len());
            let gap = [0; ALIGNMENT as usize];
            self.give(&gap[..(start - end) as usize], take)?;
            end = start + bytes;
            self.parts[number].1.make_whole()?;
            let mut at = 0;
            while at < bytes {
                let count = self.parts[number].1.take(at, &mut buffer)?;
                self.give(&buffer[..count], take)?;
                at += count as u64;
            }
            self.parts[number].1 = PartBytes::Whole(GrowingBytes::default());
        }
        Ok(())
    }

    /// Gives some bytes. If there is no room for them, makes some in one way after another.
    fn give(&mut self, bytes: &[u8], take: &mut TakePiece<'_>) -> Result<()> {
        let mut tried = 0;
        loop {
            match take(bytes) {
                Err(error) if error.kind() == ErrorKind::NoSpace => {
                    tried += 1;
                    let may_go_on = match tried {
                        1 => sweep().is_ok(),
                        2 => self
                            .parts
                            .iter_mut()
                            .try_for_each(|(_, part)| part.make_private())
                            .is_ok(),
                        _ => (self.make_room)(&error),
                    };
                    if !may_go_on {
                        return Err(error);
                    }
                }
                given => return given,
            }
        }
    }
}

/// The bytes of a list that is being made.
struct Plan {
    columns: Vec<u8>,
    texts: Vec<u8>,
    parts: Vec<Part>,
    /// Where the next part may begin.
    end: u64,
}

/// Creates the array of a list, and tries again after an error if `make_room` says so.
pub(super) fn create(
    items: ColumnBuilder,
    dtype: DType,
    options: &Options,
    mut make_room: impl FnMut(&Error) -> bool,
) -> Result<Array> {
    let length = items.length;
    let count = count_columns(&items, 1)?;
    let mut plan = Plan {
        columns: Vec::new(),
        texts: Vec::new(),
        parts: Vec::new(),
        end: HEADER_BYTES + count * COLUMN_BYTES,
    };
    plan.add(String::new(), items)?;
    let texts_bytes = plan.texts.len() as u64;
    if texts_bytes > MAX_TEXTS_BYTES {
        let reason = format!("their names and dtypes have {texts_bytes} bytes together");
        return Err(Error::argument("columns", reason));
    }
    let texts = std::mem::take(&mut plan.texts);
    let texts_offset = plan.add_part(texts.into());
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((count as u32).to_le_bytes());
    for field in [plan.end, length, texts_offset, texts_bytes, 0, 0] {
        head.extend(field.to_le_bytes());
    }
    head.append(&mut plan.columns);
    plan.parts.insert(0, (0, PartBytes::Whole(head.into())));
    let bytes = plan.end;
    let parts = RefCell::new(plan.parts);
    let fill = |list: &mut [u8]| {
        let mut at = 0;
        // Each part is dropped when it was copied.
        for (start, part) in parts.take() {
            list[at..start as usize].fill(0);
            at = start as usize + part.len() as usize;
            part.write(&mut list[start as usize..at])?;
        }
        list[at..].fill(0);
        Ok(())
    };
    if parts.borrow().iter().any(|(_, part)| part.has_pieces()) {
        let make_room = RefCell::new(make_room);
        return Array::create_in_pieces(dtype, &[bytes], options, &|take| {
            let make_room = &mut *make_room.borrow_mut();
            Parts { parts: parts.take(), make_room }.write(take)
        });
    }
    loop {
        match Array::create_by(dtype.clone(), &[bytes], options, &fill) {
            // Not after `fill`, which took the parts.
            Err(error) if !parts.borrow().is_empty() && make_room(&error) => {}
            created => return created,
        }
    }
}

fn count_columns(column: &ColumnBuilder, depth: usize) -> Result<u64> {
    if depth > MAX_DEPTH {
        return Err(Error::argument("columns", format!("they are more than {MAX_DEPTH} deep")));
    }
    let mut count = 1;
    for (_, child) in &column.children {
        count += count_columns(child, depth + 1)?;
    }
    if count > MAX_COLUMNS {
        return Err(Error::argument("columns", format!("there are more than {MAX_COLUMNS}")));
    }
    Ok(count)
}

impl Plan {
    /// Adds a column and its children.
    fn add(&mut self, name: String, column: ColumnBuilder) -> Result<()> {
        let is_uniform =
            column.kind == ColumnKind::Arrays && column.is_uniform && column.length > 0;
        let (mut offsets, mut shapes) = (column.offsets, column.shapes);
        if is_uniform {
            (offsets, shapes) =
                (GrowingBytes::default(), little_endian(&column.first_shape).into());
        } else if column.kind.has_offsets() {
            offsets.push(column.end)?;
        }
        if column.ndim == 1 && !is_uniform {
            shapes = GrowingBytes::default();
        }
        let values = match column.written {
            None => PartBytes::Whole(column.values),
            Some(written) => PartBytes::Written(written),
        };
        let values_bytes = values.len();
        let dtype = column.dtype.as_ref().map_or("", DType::json).to_owned();
        let mut head = vec![column.kind as u8, column.item.number()];
        head.extend((column.ndim as u16).to_le_bytes());
        head.extend((column.children.len() as u32).to_le_bytes());
        let has_values = column.kind.has_values();
        let fields = [
            column.length,
            if column.kind == ColumnKind::Nothing { column.length } else { column.nulls },
            if column.kind == ColumnKind::Nothing {
                0
            } else {
                self.add_part(column.validity.into())
            },
            if has_values { self.add_part_or_place(values) } else { 0 },
            values_bytes,
            self.add_part(offsets),
            self.add_part(shapes),
        ];
        for field in fields {
            head.extend(field.to_le_bytes());
        }
        let class = match &column.item {
            ItemType::Class(class) => class.as_str(),
            _ => "",
        };
        for text in [name.as_str(), &dtype, class] {
            head.extend((self.texts.len() as u32).to_le_bytes());
            head.extend((text.len() as u32).to_le_bytes());
            self.texts.extend(text.as_bytes());
        }
        head.resize(COLUMN_BYTES as usize, 0);
        self.columns.append(&mut head);
        for (name, child) in column.children {
            self.add(name, child)?;
        }
        Ok(())
    }

    /// Adds a part. Returns where it begins, and 0 if it has no bytes.
    fn add_part(&mut self, bytes: GrowingBytes) -> u64 {
        if bytes.is_empty() { 0 } else { self.add_part_or_place(PartBytes::Whole(bytes)) }
    }

    /// Adds a part, which has a place also without bytes.
    fn add_part_or_place(&mut self, bytes: PartBytes) -> u64 {
        let start = self.end.next_multiple_of(ALIGNMENT);
        self.end = start + bytes.len();
        self.parts.push((start, bytes));
        start
    }
}
