//! The columns of a list from Python's objects, in one pass.
//!
//! The first item of a column that is not None says what the items are. If a later one does not
//! agree, all items of the column are pickled from then on, those that are there already, too.

use std::time::{Duration, Instant};

use pyo3::PyTypeInfo;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType,
};
use shmarray::{ColumnBuilder, DType, ErrorKind, ItemType, List, Options};

use super::items::{ListMemory, item};
use crate::dtypes;
use crate::error::to_py;
use crate::first_use::{FirstUse, interned};
use crate::memory::{Facts, is_ndarray};

/// How many columns may lie above one another: core/LISTS.md.
const MAX_DEPTH: usize = 16;
/// Records of more fields are pickled.
const MOST_FIELDS: usize = 4096;
/// How often a progress callback is called.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Puts the items of an iterable into a column.
pub(super) fn column(
    py: Python<'_>,
    iterable: Option<&Bound<'_, PyAny>>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<ColumnBuilder> {
    let mut items = Items::new();
    if let Some(iterable) = iterable {
        let iterator = super::helper(py, "iterator")?.call1((iterable,))?;
        each(py, &iterator, progress, |value, index| {
            items.push(value, &Place { up: None, field: "", index })
        })?;
    }
    Ok(items.column)
}

/// Calls a function with each item and its number, lets a signal end it, and tells of the progress.
pub(super) fn each<'py>(
    py: Python<'py>,
    items: &Bound<'py, PyAny>,
    progress: Option<Bound<'py, PyAny>>,
    mut add: impl FnMut(&Bound<'py, PyAny>, usize) -> PyResult<()>,
) -> PyResult<()> {
    let mut told = (0, Instant::now());
    let mut count = 0;
    for value in items.try_iter()? {
        add(&value?, count)?;
        count += 1;
        if count % 1024 == 0 {
            py.check_signals()?;
        }
        if let Some(progress) = &progress
            && told.1.elapsed() >= PROGRESS_EVERY
        {
            progress.call1((count - told.0,))?;
            told = (count, Instant::now());
        }
    }
    if let Some(progress) = &progress
        && count > told.0
    {
        progress.call1((count - told.0,))?;
    }
    Ok(())
}

/// Says how far a list got for which there is no room.
pub(super) fn does_not_fit(
    py: Python<'_>,
    error: shmarray::Error,
    count: u64,
    bytes: u64,
) -> PyErr {
    let is_full = matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::NoMemory);
    let error = to_py(error);
    if !is_full {
        return error;
    }
    let text = format!("a list of {count} items and {bytes} bytes: {}", error.value(py));
    PyMemoryError::new_err(text)
}

/// Where an item is, for errors.
pub(super) struct Place<'a> {
    pub(super) up: Option<&'a Place<'a>>,
    pub(super) field: &'a str,
    pub(super) index: usize,
}

impl Place<'_> {
    fn text(&self) -> String {
        match self.up {
            None => format!("item {}", self.index),
            Some(up) if self.field.is_empty() => format!("{}, item {}", up.text(), self.index),
            Some(up) => format!("{}, field {:?}", up.text(), self.field),
        }
    }

    fn type_error(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let text = format!("{}: {}", self.text(), error.value(py));
        let named = if error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py)
            || is_pickling_error(py, &error)
        {
            PyTypeError::new_err(text)
        } else {
            return error;
        };
        named.set_cause(py, Some(error));
        named
    }
}

fn is_pickling_error(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import("pickle").and_then(|pickle| pickle.getattr("PicklingError"));
    class.is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

/// What the items of a column are, as Python sees them.
#[derive(Default)]
enum Spec {
    /// Nothing but None so far.
    #[default]
    Undecided,
    Bools,
    Ints,
    Floats,
    Complexes,
    /// Scalars of NumPy of a dtype, and their class.
    Scalars(Py<PyAny>, Py<PyType>),
    Arrays(ArraySpec),
    Strings,
    Bytes,
    /// With these fields.
    Records(RecordSpec),
    Lists(IsTuple),
    Pickles,
}

type IsTuple = bool;

struct ArraySpec {
    dtype: Py<PyAny>,
    ndim: usize,
}

struct RecordSpec {
    names: Vec<Py<PyString>>,
    class: RecordClass,
}

enum RecordClass {
    Dict,
    Tuple,
    /// A dataclass, whose fields are attributes.
    Attributes(Py<PyType>),
    NamedTuple(Py<PyType>),
}

/// What is known of a column and its children.
#[derive(Default)]
struct Node {
    spec: Spec,
    depth: usize,
    children: Vec<Node>,
}

/// A column and what is known of it.
pub(super) struct Items {
    node: Node,
    pub(super) column: ColumnBuilder,
}

impl Items {
    pub(super) fn new() -> Self {
        Self { node: Node::default(), column: ColumnBuilder::nothing() }
    }

    pub(super) fn push(&mut self, value: &Bound<'_, PyAny>, place: &Place<'_>) -> PyResult<()> {
        push(&mut self.node, &mut self.column, value, place)
    }
}

/// Adds an item to a column.
fn push(
    node: &mut Node,
    column: &mut ColumnBuilder,
    value: &Bound<'_, PyAny>,
    place: &Place<'_>,
) -> PyResult<()> {
    if value.is_none() {
        return column.push_none().map_err(to_py);
    }
    if matches!(node.spec, Spec::Undecided) {
        let (spec, children, new) = decide(value, node.depth)?;
        let nones = std::mem::replace(column, new).len();
        (0..nones).try_for_each(|_| column.push_none()).map_err(to_py)?;
        node.spec = spec;
        node.children = children;
    }
    if push_typed(node, column, value, place)? {
        return Ok(());
    }
    if !matches!(node.spec, Spec::Pickles) {
        let typed = std::mem::replace(column, ColumnBuilder::nothing());
        *column = pickled(value.py(), typed, place)?;
        *node = Node { spec: Spec::Pickles, depth: node.depth, children: Vec::new() };
    }
    push_pickle(column, value).map_err(|error| place.type_error(value.py(), error))
}

/// Returns what a column is whose first item is this.
fn decide(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<(Spec, Vec<Node>, ColumnBuilder)> {
    let py = value.py();
    let class = value.get_type_ptr();
    let simple = |spec, column| Ok((spec, Vec::new(), column));
    let scalars = |text: &str| {
        let mut column = ColumnBuilder::numbers(DType::parse(text)?)?;
        column.set_item_type(ItemType::Scalar).map(|()| column)
    };
    if class == PyBool::type_object_raw(py) {
        return simple(Spec::Bools, scalars("|b1").map_err(to_py)?);
    }
    if class == PyInt::type_object_raw(py) {
        return simple(Spec::Ints, scalars("<i8").map_err(to_py)?);
    }
    if class == PyFloat::type_object_raw(py) {
        return simple(Spec::Floats, scalars("<f8").map_err(to_py)?);
    }
    if class == PyComplex::type_object_raw(py) {
        return simple(Spec::Complexes, scalars("<c16").map_err(to_py)?);
    }
    if class == PyString::type_object_raw(py) {
        return simple(Spec::Strings, ColumnBuilder::strings());
    }
    if class == PyBytes::type_object_raw(py) {
        return simple(Spec::Bytes, ColumnBuilder::bytes());
    }
    if is_ndarray(value)? {
        let facts = Facts::of(value)?;
        let dtype = value.getattr(interned!(py, "dtype"))?;
        let ndim = facts.shape().len();
        if ndim > 0
            && let Some(core) = shared_dtype(&dtype)?
        {
            let column = ColumnBuilder::arrays(core, ndim).map_err(to_py)?;
            return simple(Spec::Arrays(ArraySpec { dtype: dtype.unbind(), ndim }), column);
        }
    } else if is_numpy_scalar(value)? {
        let dtype = value.getattr(interned!(py, "dtype"))?;
        let class = value.get_type();
        // Those of texts end at a zero.
        let is_text = "SU".contains(dtype.getattr(interned!(py, "kind"))?.extract::<char>()?);
        if !is_text
            && let Some(core) = shared_dtype(&dtype)?
            && dtypes::to_numpy(py, &core)?.getattr(interned!(py, "type"))?.is(&class)
        {
            let column = ColumnBuilder::numbers(core).map_err(to_py)?;
            return simple(Spec::Scalars(dtype.unbind(), class.unbind()), column);
        }
    } else if depth + 1 < MAX_DEPTH {
        if let Some(decided) = decide_records(value, depth)? {
            return Ok(decided);
        }
        let is_tuple = class == PyTuple::type_object_raw(py);
        if is_tuple || class == PyList::type_object_raw(py) {
            let mut column = ColumnBuilder::lists(ColumnBuilder::nothing());
            if is_tuple {
                column.set_item_type(ItemType::Tuple).map_err(to_py)?;
            }
            return Ok((Spec::Lists(is_tuple), nodes(1, depth), column));
        }
    }
    simple(Spec::Pickles, ColumnBuilder::pickles())
}

fn nodes(count: usize, depth: usize) -> Vec<Node> {
    (0..count).map(|_| Node { depth: depth + 1, ..Node::default() }).collect()
}

fn decide_records(
    value: &Bound<'_, PyAny>,
    depth: usize,
) -> PyResult<Option<(Spec, Vec<Node>, ColumnBuilder)>> {
    let py = value.py();
    let (names, class, item) = if let Ok(dict) = value.cast_exact::<PyDict>() {
        let names = dict.keys().into_iter().map(|key| key.cast_into_exact::<PyString>());
        let Ok(names) = names.collect::<Result<Vec<_>, _>>() else { return Ok(None) };
        (names, RecordClass::Dict, ItemType::Plain)
    } else if let Ok(tuple) = value.cast_exact::<PyTuple>() {
        if !has_several_kinds(tuple)? {
            return Ok(None);
        }
        let names = (0..tuple.len()).map(|number| PyString::new(py, &number.to_string()));
        (names.collect(), RecordClass::Tuple, ItemType::Tuple)
    } else {
        let class = value.get_type();
        let found = super::helper(py, "record_class")?.call1((&class,))?;
        if found.is_none() {
            return Ok(None);
        }
        let (text, is_tuple, names): (String, bool, Vec<Bound<'_, PyString>>) = found.extract()?;
        let class = class.unbind();
        let class =
            if is_tuple { RecordClass::NamedTuple(class) } else { RecordClass::Attributes(class) };
        (names, class, ItemType::Class(text))
    };
    if names.len() > MOST_FIELDS {
        return Ok(None);
    }
    let mut fields = Vec::with_capacity(names.len());
    for name in &names {
        let Ok(name) = name.to_str() else { return Ok(None) }; // surrogates
        fields.push((name, ColumnBuilder::nothing()));
    }
    let count = fields.len();
    let mut column = ColumnBuilder::records(fields).map_err(to_py)?;
    column.set_item_type(item).map_err(to_py)?;
    let names = names.into_iter().map(Bound::unbind).collect();
    Ok(Some((Spec::Records(RecordSpec { names, class }), nodes(count, depth), column)))
}

/// Whether the items of a tuple would not agree as those of one column.
fn has_several_kinds(tuple: &Bound<'_, PyTuple>) -> PyResult<bool> {
    let mut first = None;
    for value in tuple.iter().filter(|value| !value.is_none()) {
        let Some(first) = &first else {
            first = Some(value);
            continue;
        };
        if !value.get_type().is(first.get_type()) {
            return Ok(true);
        }
        let has_dtype = is_ndarray(&value)? || is_numpy_scalar(&value)?;
        if has_dtype {
            let (one, rank) = dtype_and_ndim(first)?;
            let (other, other_rank) = dtype_and_ndim(&value)?;
            if rank != other_rank || !one.eq(other)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn dtype_and_ndim<'py>(value: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, usize)> {
    let py = value.py();
    let ndim = value.getattr(interned!(py, "ndim"))?.extract()?;
    Ok((value.getattr(interned!(py, "dtype"))?, ndim))
}

/// Returns core's dtype, or `None` for one that cannot be shared, or that loses something.
fn shared_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if !dtype.getattr(interned!(dtype.py(), "metadata"))?.is_none() {
        return Ok(None);
    }
    match dtypes::from_numpy(dtype) {
        Ok(core) => Ok(Some(core)),
        Err(error) if error.is_instance_of::<PyTypeError>(dtype.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_numpy_scalar(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    static GENERIC: FirstUse<Py<PyType>> = FirstUse::new();
    value.is_instance(GENERIC.import(value.py(), "numpy", "generic")?)
}

/// Adds an item as what the column's items are. Returns whether it is one, and adds nothing if not.
fn push_typed(
    node: &mut Node,
    column: &mut ColumnBuilder,
    value: &Bound<'_, PyAny>,
    place: &Place<'_>,
) -> PyResult<bool> {
    let py = value.py();
    let class = value.get_type_ptr();
    let pushed = match &node.spec {
        Spec::Undecided | Spec::Pickles => return Ok(false),
        Spec::Bools if class == PyBool::type_object_raw(py) => {
            column.push_number(&[u8::from(value.is_truthy()?)])
        }
        Spec::Ints if class == PyInt::type_object_raw(py) => match value.extract::<i64>() {
            Ok(number) => column.push_number(&number.to_le_bytes()),
            Err(_) => return Ok(false),
        },
        Spec::Floats if class == PyFloat::type_object_raw(py) => {
            column.push_number(&value.extract::<f64>()?.to_le_bytes())
        }
        Spec::Complexes if class == PyComplex::type_object_raw(py) => {
            let complex = value.cast::<PyComplex>()?;
            let parts = [complex.real().to_le_bytes(), complex.imag().to_le_bytes()];
            column.push_number(parts.as_flattened())
        }
        Spec::Strings if class == PyString::type_object_raw(py) => {
            match value.cast::<PyString>()?.to_str() {
                Ok(text) => column.push_string(text),
                Err(_) => return Ok(false), // surrogates
            }
        }
        Spec::Bytes if class == PyBytes::type_object_raw(py) => {
            column.push_bytes(value.cast::<PyBytes>()?.as_bytes())
        }
        Spec::Scalars(dtype, class) => {
            if !value.get_type().is(class) || !is_dtype(value, dtype)? {
                return Ok(false);
            }
            let bytes = value.call_method0(interned!(py, "tobytes"))?;
            column.push_number(bytes.cast::<PyBytes>()?.as_bytes())
        }
        Spec::Arrays(spec) => return push_array(spec, column, value),
        Spec::Records(_) => return push_record(node, column, value, place),
        Spec::Lists(is_tuple) => {
            let wanted =
                if *is_tuple { PyTuple::type_object_raw(py) } else { PyList::type_object_raw(py) };
            if class != wanted {
                return Ok(false);
            }
            for (index, part) in value.try_iter()?.enumerate() {
                let child = column.field_mut(0).expect("lists have one");
                let place = Place { up: Some(place), field: "", index };
                push(&mut node.children[0], child, &part?, &place)?;
                if index % 1024 == 1023 {
                    py.check_signals()?;
                }
            }
            column.push_list()
        }
        _ => return Ok(false),
    };
    pushed.map_err(to_py).map(|()| true)
}

/// Whether an array or a scalar has a dtype.
fn is_dtype(value: &Bound<'_, PyAny>, dtype: &Py<PyAny>) -> PyResult<bool> {
    let own = value.getattr(interned!(value.py(), "dtype"))?;
    let has_more = || Ok::<_, PyErr>(!own.getattr(interned!(value.py(), "metadata"))?.is_none());
    Ok(own.is(dtype) || own.eq(dtype)? && !has_more()?)
}

fn push_array(
    spec: &ArraySpec,
    column: &mut ColumnBuilder,
    value: &Bound<'_, PyAny>,
) -> PyResult<bool> {
    if !is_ndarray(value)? || !is_dtype(value, &spec.dtype)? {
        return Ok(false);
    }
    let facts = Facts::of(value)?;
    if facts.shape().len() != spec.ndim {
        return Ok(false);
    }
    if !facts.is_c_contiguous() {
        let py = value.py();
        let copy =
            py.import(interned!(py, "numpy"))?.call_method1("ascontiguousarray", (value,))?;
        return push_array(spec, column, &copy);
    }
    let mut shape = [0; shmarray::MAX_NDIM];
    let shape = &mut shape[..spec.ndim];
    shape.iter_mut().zip(facts.shape()).for_each(|(to, from)| *to = *from as u64);
    column.push_array(shape, facts.memory()).map_err(to_py).map(|()| true)
}

fn push_record(
    node: &mut Node,
    column: &mut ColumnBuilder,
    value: &Bound<'_, PyAny>,
    place: &Place<'_>,
) -> PyResult<bool> {
    let Spec::Records(spec) = &node.spec else { return Ok(false) };
    let py = value.py();
    let dict = match &spec.class {
        RecordClass::Dict => {
            let Ok(dict) = value.cast_exact::<PyDict>() else { return Ok(false) };
            if dict.iter().any(|(key, _)| !key.is_exact_instance_of::<PyString>()) {
                return Ok(false);
            }
            check_fields(spec, dict, place)?;
            Some(dict.clone())
        }
        RecordClass::Tuple => match value.cast_exact::<PyTuple>() {
            Ok(tuple) if tuple.len() == spec.names.len() => None,
            _ => return Ok(false),
        },
        RecordClass::NamedTuple(class) => {
            if !value.get_type().is(class) {
                return Ok(false);
            }
            None
        }
        RecordClass::Attributes(class) => {
            if !value.get_type().is(class) {
                return Ok(false);
            }
            match value.getattr_opt(interned!(py, "__dict__"))? {
                // More, or fewer, than its fields.
                Some(own) if own.len()? != spec.names.len() => return Ok(false),
                Some(own) => own.cast_into_exact::<PyDict>().ok(),
                None => None,
            }
        }
    };
    let tuple = value.cast::<PyTuple>().ok();
    let mut values = Vec::with_capacity(spec.names.len());
    for (number, name) in spec.names.iter().enumerate() {
        let value = match (&dict, tuple) {
            (Some(dict), _) => dict.get_item(name)?,
            (None, Some(tuple)) => Some(tuple.get_item(number)?),
            (None, None) => value.getattr_opt(name.bind(py))?,
        };
        let Some(value) = value else { return Ok(false) };
        values.push(value);
    }
    for (number, value) in values.iter().enumerate() {
        let Spec::Records(spec) = &node.spec else { return Ok(false) };
        let field = spec.names[number].bind(py).to_str()?;
        let place = Place { up: Some(place), field, index: 0 };
        let child = column.field_mut(number).expect("there is one for each name");
        push(&mut node.children[number], child, value, &place)?;
    }
    column.push_records(1).map_err(to_py).map(|()| true)
}

/// Refuses a dict whose keys are not the fields of the first.
fn check_fields(spec: &RecordSpec, dict: &Bound<'_, PyDict>, place: &Place<'_>) -> PyResult<()> {
    let py = dict.py();
    if dict.len() == spec.names.len() {
        let mut has_all = true;
        for name in &spec.names {
            has_all &= dict.contains(name)?;
        }
        if has_all {
            return Ok(());
        }
    }
    let first = PyList::new(py, &spec.names)?;
    Err(PyValueError::new_err(format!(
        "{} has the fields {}, and those before it have {first}",
        place.text(),
        dict.keys(),
    )))
}

/// Returns a column of pickles with the items of another one.
fn pickled(py: Python<'_>, typed: ColumnBuilder, place: &Place<'_>) -> PyResult<ColumnBuilder> {
    let mut column = ColumnBuilder::pickles();
    if typed.is_empty() {
        return Ok(column);
    }
    let (count, bytes) = (typed.len(), typed.size_bytes());
    let list = py.detach(|| List::create(typed, &Options::new()));
    let list = list.map_err(|error| does_not_fit(py, error, count, bytes))?;
    let memory = Bound::new(py, ListMemory::new(py, list, true, None)?)?;
    for index in 0..count {
        let value = item(&memory, memory.get().column(0), index)?;
        if value.is_none() {
            column.push_none().map_err(to_py)?;
        } else {
            push_pickle(&mut column, &value).map_err(|error| place.type_error(py, error))?;
        }
    }
    Ok(column)
}

fn push_pickle(column: &mut ColumnBuilder, value: &Bound<'_, PyAny>) -> PyResult<()> {
    static DUMPS: FirstUse<Py<PyAny>> = FirstUse::new();
    let py = value.py();
    let buffers = PyList::empty(py);
    let keywords = PyDict::new(py);
    keywords.set_item(interned!(py, "protocol"), 5)?;
    keywords
        .set_item(interned!(py, "buffer_callback"), buffers.getattr(interned!(py, "append"))?)?;
    let stream = DUMPS.import(py, "pickle", "dumps")?.call((value,), Some(&keywords))?;
    let raw = buffers.iter().map(|buffer| {
        pyo3::buffer::PyUntypedBuffer::get(&buffer.call_method0(interned!(py, "raw"))?)
    });
    let raw = raw.collect::<PyResult<Vec<_>>>()?;
    let slices: Vec<_> = raw.iter().map(bytes_of).collect();
    column.push_pickle(stream.cast::<PyBytes>()?.as_bytes(), &slices).map_err(to_py)
}

#[allow(unsafe_code)]
fn bytes_of(buffer: &pyo3::buffer::PyUntypedBuffer) -> &[u8] {
    if buffer.len_bytes() == 0 {
        return &[];
    }
    // SAFETY: `PickleBuffer.raw` returns a view of bytes without gaps, so so many initialized
    // bytes lie there, as long as the buffer lives. The thread keeps the GIL meanwhile.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) }
}
