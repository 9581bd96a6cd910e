//! A column of a list from arrays of Arrow, whose values are copied once.
//!
//! The arrays come from another library. Their numbers of buffers and children, null pointers,
//! lengths and offsets are checked. How many bytes a buffer of fixed size has nobody says; by the
//! interface they are as many as the length needs.
//!
//! A list of Arrow may have items in a place that is None, and the column of a list has none. So
//! each type reads *pieces*: parts of arrays, in the order of the column.
#![allow(unsafe_code)] // structs of C

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::sync::Arc;

use pyo3::prelude::*;
use shmarray::{AllItems, ColumnBuilder, ItemType, Written};

use super::abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Owned, pointers};
use super::types::{Element, Encoding, Kind, Type};
use crate::error::{to_py, value_error};

/// The bytes of a view, and how many of a text it may have itself.
const VIEW_BYTES: usize = 16;
const INLINE_BYTES: u64 = 12;

/// Returns the schema of a stream, which stays in its capsule.
pub(super) fn schema(
    capsule: &Bound<'_, PyAny>,
    stream: NonNull<ArrowArrayStream>,
) -> PyResult<Owned<ArrowSchema>> {
    let schema = Owned::released();
    // SAFETY: the capsule has the stream, and nobody takes it meanwhile.
    let get_schema = unsafe { stream.as_ref() }.get_schema;
    let Some(get_schema) = get_schema else { return Err(broken("the stream has no schema")) };
    let (from, to) = (Pointer(stream.as_ptr()), Pointer(schema.as_ptr()));
    let status = capsule.py().detach(|| {
        let (from, to) = (&from, &to);
        // SAFETY: the stream was not released, and `schema` is a struct to be filled.
        unsafe { get_schema(from.0, to.0) }
    });
    check_status(stream.as_ptr(), status)?;
    if schema.is_released() {
        return Err(broken("the stream has no schema"));
    }
    Ok(schema)
}

/// Returns all arrays of a stream.
pub(super) fn arrays(
    py: Python<'_>,
    stream: &Owned<ArrowArrayStream>,
) -> PyResult<Vec<Owned<ArrowArray>>> {
    let Some(get_next) = stream.get().get_next else {
        return Err(broken("the stream has no arrays"));
    };
    let mut arrays = Vec::new();
    loop {
        let array = Owned::released();
        let (from, to) = (Pointer(stream.as_ptr()), Pointer(array.as_ptr()));
        let status = py.detach(|| {
            let (from, to) = (&from, &to);
            // SAFETY: the stream was not released, and `array` is a struct to be filled.
            unsafe { get_next(from.0, to.0) }
        });
        check_status(stream.as_ptr(), status)?;
        if array.is_released() {
            return Ok(arrays);
        }
        arrays.push(array);
        py.check_signals()?;
    }
}

/// A pointer for a function of C that runs without the GIL.
struct Pointer<T>(*mut T);

// SAFETY: the struct may be used from any thread, and only one uses it at a time.
unsafe impl<T> Send for Pointer<T> {}
// SAFETY: the same.
unsafe impl<T> Sync for Pointer<T> {}

fn check_status(stream: *mut ArrowArrayStream, status: c_int) -> PyResult<()> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: the stream was not released.
    let get_last_error = unsafe { (*stream).get_last_error };
    let text = get_last_error.map(|get_last_error| {
        // SAFETY: the stream was not released, and its last call has failed.
        unsafe { get_last_error(stream) }
    });
    let text = text.filter(|text| !text.is_null()).map(|text| {
        // SAFETY: by the interface it ends in zero, and lives until the stream's next call.
        unsafe { CStr::from_ptr(text) }.to_string_lossy()
    });
    let text = text.unwrap_or_default();
    Err(broken(&format!("the stream failed with errno {status}: {text}")))
}

fn broken(reason: &str) -> PyErr {
    value_error(format!("no array of Arrow: {reason}"))
}

/// Returns the column of the items of some arrays of a type.
pub(super) fn column(items: &Type, arrays: Vec<Owned<ArrowArray>>) -> PyResult<ColumnBuilder> {
    let arrays = Arc::new(arrays);
    let pieces = arrays.iter().map(|array| {
        let array = array.get();
        check(items, array)?;
        Ok(Piece { array, first: array.offset as u64, length: array.length as u64 })
    });
    let pieces = pieces.collect::<PyResult<Vec<_>>>()?;
    Reader { arrays: &arrays }.column(items, &pieces)
}

/// Checks an array and its children against their type.
fn check(items: &Type, array: &ArrowArray) -> PyResult<()> {
    let wrong =
        |what: String| Err(value_error(format!("{}: an array of Arrow {what}", items.path)));
    let buffers = match items.kind {
        Kind::Nothing => 0..=1, // some have a validity
        Kind::Records | Kind::Tensors(_) | Kind::FixedLists { .. } => 1..=1,
        Kind::Numbers(_) | Kind::FixedBytes(_) | Kind::Lists { .. } | Kind::Maps => 2..=2,
        Kind::Texts { .. } => 3..=3,
        Kind::Views { .. } => 3..=i64::MAX,
    };
    if array.release.is_none() {
        return wrong("was released".to_owned());
    }
    if array.length < 0 || array.offset < 0 || array.null_count < -1 {
        let (length, offset) = (array.length, array.offset);
        return wrong(format!("has {length} items from {offset} on, {} None", array.null_count));
    }
    // No buffer has as many bits, or a number of 16 bytes for each.
    if array.length.checked_add(array.offset).is_none_or(|end| end > i64::MAX / 64) {
        return wrong(format!("has {} items from {} on", array.length, array.offset));
    }
    if !buffers.contains(&array.n_buffers) {
        return wrong(format!("has {} buffers", array.n_buffers));
    }
    let Some(found) = found_buffers(array) else { return wrong("has no buffers".to_owned()) };
    if array.null_count > 0 && found.first().is_some_and(Option::is_none) && array.length > 0 {
        return wrong(format!("has no validity, and {} of its items are None", array.null_count));
    }
    // The values of texts may be without a buffer if there are none.
    let is_there = |number: usize| found.get(number).is_none_or(Option::is_some);
    if array.length > 0 && !matches!(items.kind, Kind::Nothing) && !is_there(1) {
        return wrong("has a buffer that is null".to_owned());
    }
    if array.n_children != items.children.len() as i64 {
        return wrong(format!("has {} children", array.n_children));
    }
    for (number, items) in items.children.iter().enumerate() {
        let Some(child) = child(array, number) else {
            return wrong("has a child that is null".to_owned());
        };
        check(items, child)?;
    }
    Ok(())
}

/// Returns the buffers of an array, which may be null.
fn found_buffers(array: &ArrowArray) -> Option<&[Option<NonNull<u8>>]> {
    // SAFETY: by the interface an array that was not released has so many pointers to buffers.
    unsafe { pointers(array.buffers.cast(), array.n_buffers) }
}

/// Returns the children of an array, which may be null.
fn children(array: &ArrowArray) -> Option<&[Option<NonNull<ArrowArray>>]> {
    // SAFETY: by the interface an array that was not released has so many pointers to children.
    unsafe { pointers(array.children, array.n_children) }
}

/// Returns a child of an array.
fn child(array: &ArrowArray, number: usize) -> Option<&ArrowArray> {
    let child = children(array)?.get(number).copied().flatten()?;
    // SAFETY: by the interface a child lives as long as its array.
    Some(unsafe { child.as_ref() })
}

/// Items of an array that was checked: so many from `first` on, where 0 is before its offset.
#[derive(Clone, Copy)]
struct Piece<'a> {
    array: &'a ArrowArray,
    first: u64,
    length: u64,
}

impl<'a> Piece<'a> {
    fn buffer(&self, number: usize) -> *const u8 {
        let buffers = found_buffers(self.array).unwrap_or_default();
        buffers
            .get(number)
            .copied()
            .flatten()
            .map_or(std::ptr::null(), |start| start.as_ptr().cast_const())
    }

    /// Returns the items of a child, from one before its offset on.
    fn child(&self, number: usize, first: u64, length: u64, path: &str) -> PyResult<Self> {
        let Some(array) = child(self.array, number) else { return Err(broken("no child")) };
        match first.checked_add(length) {
            Some(end) if end <= array.length as u64 => {
                Ok(Self { array, first: array.offset as u64 + first, length })
            }
            _ => {
                let reason = format!("{length} from {first} on, of {}", array.length);
                Err(value_error(format!("{path}: an array of Arrow has too few items: {reason}")))
            }
        }
    }

    /// Returns the bits that say which items are there, if not all are.
    fn bits(&self) -> Option<*const u8> {
        let bits = self.buffer(0);
        (self.array.null_count != 0 && self.length > 0 && !bits.is_null()).then_some(bits)
    }

    /// Returns the number at a place of a buffer, of int64 or of int32.
    fn integer(&self, number: usize, at: u64, is_wide: bool) -> i64 {
        let buffer = self.buffer(number);
        if is_wide {
            let place = buffer.cast::<i64>().wrapping_add(at as usize);
            // SAFETY: `check` found the buffer, and by the interface it has a number for each item
            // of the array, and one more for offsets; the callers ask for no others.
            unsafe { place.read_unaligned() }
        } else {
            let place = buffer.cast::<i32>().wrapping_add(at as usize);
            // SAFETY: the same.
            i64::from(unsafe { place.read_unaligned() })
        }
    }
}

/// Bits one after another, from the lowest of each byte on.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: u64,
}

impl Bits {
    fn get(&self, at: u64) -> bool {
        bit(self.bytes[(at / 8) as usize], at)
    }

    fn push(&mut self, is_set: bool) {
        if self.count.is_multiple_of(8) {
            self.bytes.push(0);
        }
        if is_set {
            self.bytes[(self.count / 8) as usize] |= 1 << (self.count % 8);
        }
        self.count += 1;
    }

    /// Adds eight bits at once, at a multiple of eight.
    fn push_byte(&mut self, byte: u8) {
        self.bytes.push(byte);
        self.count += 8;
    }
}

fn bit(byte: u8, at: u64) -> bool {
    byte >> (at % 8) & 1 == 1
}

/// Returns which items are there, or `None` if all are.
fn validity(pieces: &[Piece<'_>]) -> Option<Bits> {
    if pieces.iter().all(|piece| piece.bits().is_none()) {
        return None;
    }
    let mut all = Bits::default();
    for piece in pieces {
        let byte_at = |at: u64| match piece.bits() {
            // SAFETY: by the interface a validity has a bit for each item of the array.
            Some(bits) => unsafe { *bits.wrapping_add((at / 8) as usize) },
            None => u8::MAX,
        };
        let end = piece.first + piece.length;
        let mut at = piece.first;
        while at < end {
            if at.is_multiple_of(8) && all.count.is_multiple_of(8) && at + 8 <= end {
                all.push_byte(byte_at(at));
                at += 8;
            } else {
                all.push(bit(byte_at(at), at));
                at += 1;
            }
        }
    }
    let ones = all.bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    (ones < all.count).then_some(all)
}

fn length_of(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.length).sum()
}

/// Bytes to be copied, as an address.
struct Run {
    start: usize,
    bytes: usize,
}

impl Run {
    /// Copies as many bytes as it has to the start of `to`, and returns what is behind them.
    fn copied<'a>(&self, to: &'a mut [u8]) -> &'a mut [u8] {
        let (own, rest) = to.split_at_mut(self.bytes);
        if self.bytes > 0 {
            let start = self.start as *const u8;
            // SAFETY: the run is of a buffer that has so many bytes, by the checks of who made it,
            // and whose array lives. The room is in a new list.
            unsafe { own.as_mut_ptr().copy_from_nonoverlapping(start, own.len()) };
        }
        rest
    }

    fn byte(&self, at: usize) -> u8 {
        // SAFETY: as in `copied`.
        unsafe { *(self.start as *const u8).wrapping_add(at) }
    }
}

/// From where to where some items have bytes, or items of a child.
struct Span<'a> {
    piece: Piece<'a>,
    start: u64,
    end: u64,
}

/// Items of other libraries' arrays, and their offsets in the column.
struct Spans<'a> {
    offsets: Vec<i64>,
    spans: Vec<Span<'a>>,
}

/// Reads arrays, which what it returns keeps.
struct Reader<'a> {
    arrays: &'a Arc<Vec<Owned<ArrowArray>>>,
}

impl Reader<'_> {
    fn column(&self, items: &Type, pieces: &[Piece<'_>]) -> PyResult<ColumnBuilder> {
        let valid = validity(pieces);
        let length = length_of(pieces);
        let named = |error: shmarray::Error| {
            let error = to_py(error);
            Python::attach(|py| value_error(format!("{}: {}", items.path, error.value(py))))
        };
        let (mut column, all) = match &items.kind {
            Kind::Nothing => (ColumnBuilder::nothing(), AllItems::new(length)),
            Kind::Numbers(element) => {
                let mut column = ColumnBuilder::numbers(element.dtype.clone()).map_err(named)?;
                if matches!(element.dtype.text(), "|b1" | "<i8" | "<f8") {
                    column.set_item_type(ItemType::Scalar).map_err(named)?;
                }
                (column, AllItems::new(length).values(self.elements(element, pieces)))
            }
            Kind::Texts { is_text, is_wide } => {
                let spans = spans(items, pieces, valid.as_ref(), *is_wide)?;
                let runs = spans.spans.iter().map(|span| Run {
                    start: span.piece.buffer(2) as usize + span.start as usize,
                    bytes: (span.end - span.start) as usize,
                });
                let runs: Vec<_> = runs.filter(|run| run.bytes > 0).collect();
                if spans
                    .spans
                    .iter()
                    .any(|span| span.end > span.start && span.piece.buffer(2).is_null())
                {
                    return Err(value_error(format!("{}: a buffer is null", items.path)));
                }
                self.texts(*is_text, spans.offsets, runs)
            }
            Kind::Views { is_text } => {
                let (offsets, runs) = views(items, pieces, valid.as_ref())?;
                self.texts(*is_text, offsets, runs)
            }
            Kind::FixedBytes(size) => {
                let spans = fixed_spans(items, pieces, valid.as_ref(), *size)?;
                let runs = spans.spans.iter().map(|span| Run {
                    start: span.piece.buffer(1) as usize + span.start as usize,
                    bytes: (span.end - span.start) as usize,
                });
                let runs = runs.filter(|run| run.bytes > 0).collect();
                self.texts(false, spans.offsets, runs)
            }
            Kind::Lists { is_wide } => {
                let spans = spans(items, pieces, valid.as_ref(), *is_wide)?;
                self.lists(items, spans)?
            }
            Kind::Maps => {
                let spans = spans(items, pieces, valid.as_ref(), false)?;
                self.lists(items, spans)?
            }
            Kind::FixedLists { count, shape } => {
                self.fixed_lists(items, pieces, valid.as_ref(), (*count, shape.as_deref()))?
            }
            Kind::Records => {
                let mut fields = Vec::with_capacity(items.children.len());
                for (number, field) in items.children.iter().enumerate() {
                    let pieces = field_pieces(pieces, number, &field.path)?;
                    fields.push((field.name().to_owned(), self.column(field, &pieces)?));
                }
                let mut column = ColumnBuilder::records(fields).map_err(named)?;
                if items.mark_of_items() == Some("tuple") || items.is_of_map() {
                    column.set_item_type(ItemType::Tuple).map_err(named)?;
                }
                (column, AllItems::new(length))
            }
            Kind::Tensors(ndim) => self.tensors(items, pieces, valid.as_ref(), *ndim)?,
        };
        let all = match valid {
            Some(bits) => all.validity(bits.bytes),
            None => all,
        };
        column.add_all(all).map_err(named)?;
        Ok(column)
    }

    /// Returns a column of strings or bytes.
    fn texts(&self, is_text: bool, offsets: Vec<i64>, runs: Vec<Run>) -> (ColumnBuilder, AllItems) {
        let column = if is_text { ColumnBuilder::strings() } else { ColumnBuilder::bytes() };
        let values = self.written(runs);
        (column, AllItems::new(offsets.len() as u64 - 1).values(values).offsets(offsets))
    }

    /// The bytes of runs one after another.
    fn written(&self, runs: Vec<Run>) -> Written {
        let bytes = runs.iter().map(|run| run.bytes as u64).sum();
        let arrays = Arc::clone(self.arrays);
        Written::new(bytes, move |mut to| {
            for run in &runs {
                to = run.copied(to);
            }
            drop(arrays);
        })
    }

    /// The numbers of pieces one after another, as the list has them.
    fn elements(&self, element: &Element, pieces: &[Piece<'_>]) -> Written {
        let itemsize = element.dtype.itemsize() as usize;
        let run = |piece: &Piece<'_>, size: usize| Run {
            start: (piece.buffer(1) as usize).wrapping_add(piece.first as usize * size),
            bytes: piece.length as usize * size,
        };
        let size = match element.from {
            Encoding::Same => {
                return self.written(pieces.iter().map(|piece| run(piece, itemsize)).collect());
            }
            Encoding::Bytes => 1,
            Encoding::Days => 4,
            Encoding::Bits => return self.booleans(pieces),
        };
        let runs: Vec<_> = pieces.iter().map(|piece| run(piece, size)).collect();
        let arrays = Arc::clone(self.arrays);
        Written::new(length_of(pieces) * itemsize as u64, move |to| {
            let mut numbers = to.chunks_exact_mut(itemsize);
            for run in &runs {
                for (at, number) in (0..run.bytes).step_by(size).zip(&mut numbers) {
                    if size == 1 {
                        number[0] = u8::from(run.byte(at) != 0);
                    } else {
                        let days =
                            i32::from_le_bytes(std::array::from_fn(|byte| run.byte(at + byte)));
                        number.copy_from_slice(&i64::from(days).to_le_bytes());
                    }
                }
            }
            drop(arrays);
        })
    }

    /// A byte for each bit.
    fn booleans(&self, pieces: &[Piece<'_>]) -> Written {
        let runs = pieces.iter().map(|piece| {
            let bytes = (piece.first + piece.length).div_ceil(8) as usize;
            (Run { start: piece.buffer(1) as usize, bytes }, piece.first, piece.length)
        });
        let runs: Vec<_> = runs.collect();
        let arrays = Arc::clone(self.arrays);
        Written::new(length_of(pieces), move |to| {
            let mut to = to.iter_mut();
            for (run, first, length) in &runs {
                for (at, byte) in (*first..first + length).zip(&mut to) {
                    *byte = u8::from(bit(run.byte((at / 8) as usize), at));
                }
            }
            drop(arrays);
        })
    }

    /// Returns lists of the items of a child, or arrays if these are numbers and none is None.
    fn lists(&self, items: &Type, spans: Spans<'_>) -> PyResult<(ColumnBuilder, AllItems)> {
        let child = &items.children[0];
        let pieces = child_pieces(&spans.spans, &child.path)?;
        let all = AllItems::new(spans.offsets.len() as u64 - 1).offsets(spans.offsets);
        let is_list = child.mark.is_some();
        if !is_list
            && let Some(Elements { element, shape, pieces }) = elements(child, &pieces)?
            && shape.is_empty()
        {
            let column = ColumnBuilder::arrays(element.dtype.clone(), 1).map_err(to_py)?;
            return Ok((column, all.values(self.elements(element, &pieces))));
        }
        let mut column = ColumnBuilder::lists(self.column(child, &pieces)?);
        if child.mark.as_deref() == Some("tuple") {
            column.set_item_type(ItemType::Tuple).map_err(to_py)?;
        }
        Ok((column, all))
    }

    /// Returns arrays of one shape, or the same with None, or lists if the items are no numbers.
    fn fixed_lists(
        &self,
        items: &Type,
        pieces: &[Piece<'_>],
        valid: Option<&Bits>,
        (count, shape): (u64, Option<&[u64]>),
    ) -> PyResult<(ColumnBuilder, AllItems)> {
        let child = &items.children[0];
        let spans = fixed_spans(items, pieces, valid, count)?;
        let inner = child_pieces(&spans.spans, &child.path)?;
        let length = length_of(pieces);
        let Some(Elements { element, shape: rest, pieces: values }) = elements(child, &inner)?
        else {
            let column = ColumnBuilder::lists(self.column(child, &inner)?);
            return Ok((column, AllItems::new(length).offsets(spans.offsets)));
        };
        let mut row = shape.map_or(vec![count], <[u64]>::to_vec);
        row.extend(&rest);
        let row: Vec<_> = row.into_iter().map(|count| count as i64).collect();
        let column = ColumnBuilder::arrays(element.dtype.clone(), row.len()).map_err(to_py)?;
        let all = AllItems::new(length).values(self.elements(element, &values));
        if valid.is_none() && length > 0 {
            return Ok((column, all.shapes(row)));
        }
        let each = rest.iter().fold(1u64, |product, count| product.wrapping_mul(*count)) as i64;
        let offsets = spans.offsets.iter().map(|offset| offset.wrapping_mul(each)).collect();
        let mut shapes = Vec::new();
        if row.len() > 1 {
            shapes = (0..length)
                .flat_map(|item| row.iter().map(move |count| (item, *count)))
                .map(|(item, count)| if is_there(valid, item) { count } else { 0 })
                .collect();
        }
        Ok((column, all.shapes(shapes).offsets(offsets)))
    }

    /// Returns arrays of a struct of their elements and their shapes.
    fn tensors(
        &self,
        items: &Type,
        pieces: &[Piece<'_>],
        valid: Option<&Bits>,
        ndim: usize,
    ) -> PyResult<(ColumnBuilder, AllItems)> {
        let [data, rows] = &items.children[..] else { return Err(broken("no tensors")) };
        let lists = field_pieces(pieces, 0, &data.path)?;
        let is_wide = matches!(data.kind, Kind::Lists { is_wide: true });
        let spans = spans(data, &lists, valid, is_wide)?;
        let inner = child_pieces(&spans.spans, &data.path)?;
        let Some(Elements { element, pieces: values, .. }) = elements(&data.children[0], &inner)?
        else {
            return Err(value_error(format!("{}: an element of an array is None", items.path)));
        };
        let mut shapes = Vec::new();
        let mut item = 0;
        for piece in field_pieces(pieces, 1, &rows.path)? {
            let numbers = &rows.children[0];
            let count = ndim as u64;
            let row = piece.child(0, piece.first * count, piece.length * count, &numbers.path)?;
            let is_wide =
                matches!(&numbers.kind, Kind::Numbers(number) if number.dtype.itemsize() == 8);
            for at in 0..row.length {
                let number = row.integer(1, row.first + at, is_wide);
                shapes.push(if is_there(valid, item + at / count) { number } else { 0 });
            }
            item += piece.length;
        }
        if ndim == 1 {
            shapes.clear();
        }
        let column = ColumnBuilder::arrays(element.dtype.clone(), ndim).map_err(to_py)?;
        let all = AllItems::new(item).values(self.elements(element, &values));
        Ok((column, all.offsets(spans.offsets).shapes(shapes)))
    }
}

fn is_there(valid: Option<&Bits>, item: u64) -> bool {
    valid.is_none_or(|bits| bits.get(item))
}

/// Numbers without None: those of the items of a type, the shape of each item, and where they are.
struct Elements<'t, 'a> {
    element: &'t Element,
    shape: Vec<u64>,
    pieces: Vec<Piece<'a>>,
}

/// Returns the numbers of items that are arrays of one shape or numbers, if none is None.
fn elements<'t, 'a>(items: &'t Type, pieces: &[Piece<'a>]) -> PyResult<Option<Elements<'t, 'a>>> {
    if validity(pieces).is_some() {
        return Ok(None);
    }
    match &items.kind {
        Kind::Numbers(element) => {
            Ok(Some(Elements { element, shape: Vec::new(), pieces: pieces.to_vec() }))
        }
        Kind::FixedLists { count, shape } => {
            let spans = fixed_spans(items, pieces, None, *count)?;
            let child = &items.children[0];
            let Some(inner) = elements(child, &child_pieces(&spans.spans, &child.path)?)? else {
                return Ok(None);
            };
            let mut own = shape.clone().unwrap_or_else(|| vec![*count]);
            own.extend(&inner.shape);
            Ok(Some(Elements { shape: own, ..inner }))
        }
        _ => Ok(None),
    }
}

/// Returns the items of a field of the records that pieces have.
fn field_pieces<'a>(pieces: &[Piece<'a>], number: usize, path: &str) -> PyResult<Vec<Piece<'a>>> {
    pieces.iter().map(|piece| piece.child(number, piece.first, piece.length, path)).collect()
}

/// Returns the items of the child of lists.
fn child_pieces<'a>(spans: &[Span<'a>], path: &str) -> PyResult<Vec<Piece<'a>>> {
    let child = |span: &Span<'a>| span.piece.child(0, span.start, span.end - span.start, path);
    spans.iter().map(child).collect()
}

/// Returns where items between offsets have values. Those that are None get none.
fn spans<'a>(
    items: &Type,
    pieces: &[Piece<'a>],
    valid: Option<&Bits>,
    is_wide: bool,
) -> PyResult<Spans<'a>> {
    let mut found = Spans::with_room(pieces);
    let mut item = 0;
    for piece in pieces.iter().filter(|piece| piece.length > 0) {
        let offset = |at: u64| piece.integer(1, piece.first + at, is_wide);
        let is_whole = valid.is_none_or(|bits| (0..piece.length).all(|at| bits.get(item + at)));
        if is_whole {
            let (start, end) = (offset(0), offset(piece.length));
            let base = found.end();
            found.add(items, *piece, (start, end))?;
            // Core refuses those in between, if they fall.
            let last = found.offsets.len() - 1;
            found.offsets.truncate(last);
            let each = |at| base.wrapping_add(offset(at).wrapping_sub(start));
            found.offsets.extend((1..=piece.length).map(each));
        } else {
            for at in 0..piece.length {
                if is_there(valid, item + at) {
                    found.add(items, *piece, (offset(at), offset(at + 1)))?;
                } else {
                    found.offsets.push(found.end());
                }
            }
        }
        item += piece.length;
    }
    Ok(found)
}

/// Returns where items with as many values each have them. Those that are None get none.
fn fixed_spans<'a>(
    items: &Type,
    pieces: &[Piece<'a>],
    valid: Option<&Bits>,
    count: u64,
) -> PyResult<Spans<'a>> {
    let mut found = Spans::with_room(pieces);
    let mut item = 0;
    for piece in pieces {
        let place = |at: u64| piece.first.checked_add(at)?.checked_mul(count)?.try_into().ok();
        for at in 0..piece.length {
            if is_there(valid, item + at) {
                let (Some(start), Some(end)) = (place(at), place(at + 1)) else {
                    return Err(value_error(format!("{}: too many values", items.path)));
                };
                found.add(items, *piece, (start, end))?;
            } else {
                found.offsets.push(found.end());
            }
        }
        item += piece.length;
    }
    Ok(found)
}

impl<'a> Spans<'a> {
    fn with_room(pieces: &[Piece<'_>]) -> Self {
        let mut offsets = Vec::with_capacity(length_of(pieces) as usize + 1);
        offsets.push(0);
        Self { offsets, spans: Vec::new() }
    }

    fn end(&self) -> i64 {
        self.offsets.last().copied().unwrap_or_default()
    }

    /// Adds an item's values, to those before it if they lie behind them.
    fn add(&mut self, items: &Type, piece: Piece<'a>, (start, end): (i64, i64)) -> PyResult<()> {
        let last = self.end();
        let (Ok(from), Ok(to), Some(sum)) =
            (u64::try_from(start), u64::try_from(end), last.checked_add(end.wrapping_sub(start)))
        else {
            return Err(wrong_offsets(items, start, end));
        };
        if from > to {
            return Err(wrong_offsets(items, start, end));
        }
        self.offsets.push(sum);
        match self.spans.last_mut() {
            Some(span) if span.end == from && std::ptr::eq(span.piece.array, piece.array) => {
                span.end = to;
            }
            _ if from == to => {}
            _ => self.spans.push(Span { piece, start: from, end: to }),
        }
        Ok(())
    }
}

fn wrong_offsets(items: &Type, start: i64, end: i64) -> PyErr {
    value_error(format!("{}: an array of Arrow has values from {start} to {end}", items.path))
}

/// Returns where the bytes of views are, and their offsets in the column.
fn views(
    items: &Type,
    pieces: &[Piece<'_>],
    valid: Option<&Bits>,
) -> PyResult<(Vec<i64>, Vec<Run>)> {
    let mut offsets = vec![0];
    let mut runs: Vec<Run> = Vec::new();
    let (mut item, mut end) = (0, 0);
    for piece in pieces {
        let count = piece.array.n_buffers as u64 - 3;
        for at in piece.first..piece.first + piece.length {
            if is_there(valid, item) {
                let run = view(piece, at, count).ok_or_else(|| {
                    value_error(format!("{}: a view of Arrow leads out of it", items.path))
                })?;
                end += run.bytes as i64;
                match runs.last_mut() {
                    Some(last) if last.start + last.bytes == run.start => last.bytes += run.bytes,
                    _ => runs.push(run),
                }
            }
            offsets.push(end);
            item += 1;
        }
    }
    Ok((offsets, runs))
}

/// Returns where the bytes of a view are, which are its own or in one of `count` buffers.
fn view(piece: &Piece<'_>, at: u64, count: u64) -> Option<Run> {
    let start = piece.buffer(1).wrapping_add(at as usize * VIEW_BYTES);
    let place = start.cast::<[i32; 4]>();
    // SAFETY: `check` found the buffer, and by the interface it has a view for each item.
    let [bytes, _, buffer, offset] = unsafe { place.read_unaligned() };
    let bytes = u64::try_from(bytes).ok()?;
    if bytes <= INLINE_BYTES {
        return Some(Run { start: start as usize + 4, bytes: bytes as usize });
    }
    let (buffer, offset) = (u64::try_from(buffer).ok()?, u64::try_from(offset).ok()?);
    let sizes = count as usize + 2;
    if buffer >= count || piece.buffer(sizes).is_null() {
        return None;
    }
    // The last buffer has the sizes of those between.
    let size = u64::try_from(piece.integer(sizes, buffer, true)).ok()?;
    let data = piece.buffer(buffer as usize + 2);
    (offset + bytes <= size && !data.is_null())
        .then(|| Run { start: data as usize + offset as usize, bytes: bytes as usize })
}
