//! Plain objects: None, bools, ints, floats, texts, bytes, functions, small tuples, lists and dicts
//! of those, and objects of a class that are pickled as a dict of those. Most small messages are
//! plain. Complex numbers are not: `copyreg` has a reducer for them, which a program may replace.
//!
//! The pickler writes plain objects by itself, whatever reducers there are, and they contain no
//! arrays. Looking for arrays while such an object is pickled would take longer than everything
//! else that is done for a small message.

use pyo3::PyTypeInfo;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::dtypes;
use crate::first_use::{FirstUse, interned};
use crate::memory::{Facts, ndarray};

const OBJECTS_MOST: usize = 256;
const DEPTH_MOST: usize = 8;
/// A pickler passes longer texts on without a copy when it writes to a stream.
const TEXT_MOST: usize = 60 << 10;

/// Returns whether an object is plain and has few parts. `reducers` are the tables of reducers.
#[pyfunction]
#[pyo3(signature = (object, reducers, /))]
pub(crate) fn is_plain<'py>(
    object: &Bound<'py, PyAny>,
    reducers: &Bound<'py, PyTuple>,
) -> PyResult<bool> {
    Search { reducers, left: OBJECTS_MOST }.is_plain(object, DEPTH_MOST)
}

/// A search for anything that is not plain.
struct Search<'a, 'py> {
    reducers: &'a Bound<'py, PyTuple>,
    /// How many objects more may be looked at.
    left: usize,
}

impl<'py> Search<'_, 'py> {
    fn is_plain(&mut self, object: &Bound<'py, PyAny>, depth: usize) -> PyResult<bool> {
        if depth == 0 || self.left == 0 {
            return Ok(false);
        }
        self.left -= 1;
        if is_plain_item(object)? {
            return Ok(true);
        }
        if let Ok(dict) = object.cast_exact::<PyDict>() {
            return self.is_plain_dict(dict, depth);
        }
        if let Ok(tuple) = object.cast_exact::<PyTuple>() {
            return all(tuple.iter(), |part| self.is_plain(&part, depth - 1));
        }
        if let Ok(list) = object.cast_exact::<PyList>() {
            return all(list.iter(), |part| self.is_plain(&part, depth - 1));
        }
        if !self.is_plain_class(&object.get_type())? {
            return Ok(false);
        }
        match object.getattr_opt(interned!(object.py(), "__dict__"))? {
            Some(state) if state.is_exact_instance_of::<PyDict>() => {
                self.is_plain_dict(state.cast()?, depth)
            }
            _ => Ok(false), // such as `object()`
        }
    }

    fn is_plain_dict(&mut self, dict: &Bound<'py, PyDict>, depth: usize) -> PyResult<bool> {
        if 2 * dict.len() > self.left {
            return Ok(false);
        }
        let mut part = |part| self.is_plain(&part, depth - 1);
        all(dict.iter(), |(key, value)| Ok(part(key)? && part(value)?))
    }

    /// Returns whether objects of a class are pickled by the class's name and their `__dict__`,
    /// without code of their own.
    fn is_plain_class(&self, class: &Bound<'py, PyType>) -> PyResult<bool> {
        let py = class.py();
        if !class.get_type().is(py.get_type::<PyType>()) {
            return Ok(false);
        }
        for table in self.reducers {
            if table.contains(class)? {
                return Ok(false);
            }
        }
        let own = [
            interned!(py, "__reduce_ex__"),
            interned!(py, "__reduce__"),
            interned!(py, "__getstate__"),
            interned!(py, "__getnewargs_ex__"),
            interned!(py, "__getnewargs__"),
            interned!(py, "__getattr__"),
            interned!(py, "__getattribute__"),
            interned!(py, "__slots__"),
        ];
        // pyo3's own `mro` locks a cell at its first use, see `first_use`.
        let bases = class.getattr(interned!(py, "__mro__"))?.cast_into::<PyTuple>()?;
        for base in bases.iter().take(bases.len() - 1) {
            // Not a class like `list`, whose objects have more than a `__dict__`.
            let names = base.getattr(interned!(py, "__dict__"))?;
            if !names.contains(interned!(py, "__module__"))? {
                return Ok(false);
            }
            for name in own {
                if names.contains(name)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn all<T>(
    parts: impl Iterator<Item = T>,
    mut is_plain: impl FnMut(T) -> PyResult<bool>,
) -> PyResult<bool> {
    for part in parts {
        if !is_plain(part)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_plain_item(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = object.py();
    let class = object.get_type_ptr();
    if class == PyInt::type_object_raw(py)
        || class == PyFloat::type_object_raw(py)
        || class == PyBool::type_object_raw(py)
        || object.is_none()
    {
        return Ok(true);
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        return Ok(text.len()? <= TEXT_MOST);
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(bytes.as_bytes().len() <= TEXT_MOST);
    }
    Ok(class == function(py)?.as_type_ptr())
}

/// Returns the class of Python's functions.
pub(crate) fn function(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static FUNCTION: FirstUse<Py<PyType>> = FirstUse::new();
    FUNCTION.import(py, "types", "FunctionType")
}

/// The payload of an object that was encoded without a pickler: pieces that follow one another.
pub(crate) struct PlainPayload<'py> {
    front: Vec<u8>,
    /// `bytes`, or a text.
    body: Bound<'py, PyAny>,
    back: Vec<u8>,
}

// Pickles without frame and memo: WIRE.md, "Texts, bytes and small arrays".
const PROTO: [u8; 2] = [0x80, 5];
const BINUNICODE: u8 = b'X';
const BINBYTES: u8 = b'B';
const NDARRAY: &[u8] = b"cnumpy\nndarray\n";
const MARK: u8 = b'(';
const BININT: u8 = b'J';
const TUPLE: u8 = b't';
const SHORT_BINUNICODE: u8 = 0x8c;
const BYTEARRAY8: u8 = 0x96;
const TUPLE3: u8 = 0x87;
const REDUCE: u8 = b'R';
const STOP: u8 = b'.';

impl<'py> PlainPayload<'py> {
    /// Encodes a plain object, or a text, bytes or an array of up to `text_bytes`. Returns `None`
    /// for anything else.
    pub(crate) fn of(
        object: &Bound<'py, PyAny>,
        text_bytes: usize,
        reducers: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Self>> {
        let py = object.py();
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            let length = bytes.as_bytes().len();
            return Ok((length <= text_bytes).then(|| Self::text(BINBYTES, object.clone(), length)));
        }
        if let Ok(text) = object.cast_exact::<PyString>() {
            if text.len()? > text_bytes {
                return Ok(None);
            }
            let (body, length) = match text.to_str() {
                Ok(utf8) => (object.clone(), utf8.len()),
                Err(_) => {
                    // Surrogates, which the pickler writes, too.
                    let encoded = text.call_method1("encode", ("utf-8", "surrogatepass"))?;
                    let length = encoded.len()?;
                    (encoded, length)
                }
            };
            return Ok((length <= text_bytes).then(|| Self::text(BINUNICODE, body, length)));
        }
        let class = object.get_type();
        if class.is(ndarray(py)?) {
            return Self::array(object, &class, text_bytes, reducers);
        }
        if !is_plain(object, reducers)? {
            return Ok(None);
        }
        let stream = pickle(py)?.call1((object, PROTO[1]))?;
        let length = stream.cast::<PyBytes>()?.as_bytes().len();
        let back = (length as u64).to_le_bytes().to_vec();
        Ok(Some(Self { front: Vec::new(), body: stream, back }))
    }

    fn text(opcode: u8, body: Bound<'py, PyAny>, length: usize) -> Self {
        let mut front = PROTO.to_vec();
        front.push(opcode);
        front.extend((length as u32).to_le_bytes());
        Self::with_tail(front, body, length, &[STOP])
    }

    /// Encodes a private array of numbers in C order of up to `most_bytes`, which its receiver may
    /// write to. Returns `None` for any other.
    fn array(
        array: &Bound<'py, PyAny>,
        class: &Bound<'py, PyType>,
        most_bytes: usize,
        reducers: &Bound<'py, PyTuple>,
    ) -> PyResult<Option<Self>> {
        let py = array.py();
        let facts = Facts::of(array)?;
        let bytes = facts.bytes();
        if bytes == 0
            || bytes > most_bytes as u64
            || !(facts.is_numeric() && facts.is_c_contiguous() && facts.is_writeable())
            || (!array.getattr(interned!(py, "base"))?.is_none() && facts.is_in_segment()?)
        {
            return Ok(None);
        }
        let dtype = dtypes::compact(&array.getattr(interned!(py, "dtype"))?)?;
        let Ok(dtype) = dtype.cast::<PyString>() else { return Ok(None) };
        let (dtype, shape) = (dtype.to_str()?, facts.shape());
        if dtype.len() > usize::from(u8::MAX) {
            return Ok(None);
        }
        for table in reducers {
            if table.contains(class)? {
                return Ok(None);
            }
        }
        let mut front = PROTO.to_vec();
        front.extend(NDARRAY);
        front.push(MARK);
        for count in shape {
            front.push(BININT);
            front.extend((*count as i32).to_le_bytes()); // there are no more than `most_bytes`
        }
        front.extend([TUPLE, SHORT_BINUNICODE, dtype.len() as u8]);
        front.extend(dtype.as_bytes());
        front.push(BYTEARRAY8);
        front.extend(bytes.to_le_bytes());
        let body = PyBytes::new(py, facts.memory()).into_any();
        Ok(Some(Self::with_tail(front, body, bytes as usize, &[TUPLE3, REDUCE, STOP])))
    }

    /// Returns a pickle of these pieces. `length` is that of the body.
    fn with_tail(front: Vec<u8>, body: Bound<'py, PyAny>, length: usize, tail: &[u8]) -> Self {
        let mut back = tail.to_vec();
        back.extend(((front.len() + length + tail.len()) as u64).to_le_bytes());
        Self { front, body, back }
    }

    pub(crate) fn pieces(&self) -> PyResult<[&[u8]; 3]> {
        let body = match self.body.cast::<PyString>() {
            Ok(text) => text.to_str()?.as_bytes(),
            Err(_) => self.body.cast::<PyBytes>()?.as_bytes(),
        };
        Ok([&self.front, body, &self.back])
    }
}

/// Returns the payload of a plain object, or of a text, bytes or an array of up to `text_bytes`, in
/// pieces. Returns `None` for anything else.
#[pyfunction]
#[pyo3(signature = (object, text_bytes, reducers, /))]
pub(crate) fn encode_plain<'py>(
    object: &Bound<'py, PyAny>,
    text_bytes: usize,
    reducers: &Bound<'py, PyTuple>,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(payload) = PlainPayload::of(object, text_bytes, reducers)? else { return Ok(None) };
    let [front, _, back] = payload.pieces()?;
    let py = object.py();
    let back = PyBytes::new(py, back).into_any();
    let mut pieces = vec![payload.body.clone(), back];
    if !front.is_empty() {
        pieces.insert(0, PyBytes::new(py, front).into_any());
    }
    PyTuple::new(py, pieces).map(Some)
}

fn pickle(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static DUMPS: FirstUse<Py<PyAny>> = FirstUse::new();
    DUMPS.import(py, "_pickle", "dumps") // `pickle` may be replaced by then, as tests do
}
