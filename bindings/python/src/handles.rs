//! The handle as a Python object: a descriptor that prints as its text.

use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use shmarray::Descriptor;

use crate::dtypes;
use crate::error::to_py;

/// The position of an array, for any process of this machine. ``str(handle)`` is one line of text.
///
/// Equal handles are handles of the same elements. A handle can be pickled and be a key.
/// ``Handle(text)`` reads the text back, and raises ValueError naming the field that is wrong.
#[pyclass(frozen, eq, hash, module = "shmarray")]
#[derive(PartialEq, Eq)]
pub(crate) struct Handle {
    descriptor: Descriptor,
}

impl Handle {
    pub(crate) fn new(descriptor: Descriptor) -> Self {
        Self { descriptor }
    }

    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }
}

impl Hash for Handle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.descriptor.segment.hash(state);
        self.descriptor.generation.hash(state);
        self.descriptor.layout.hash(state);
        self.descriptor.dtype.hash(state);
    }
}

#[pymethods]
impl Handle {
    #[new]
    fn parse(text: &str) -> PyResult<Self> {
        Descriptor::parse(text).map(Self::new).map_err(to_py)
    }

    /// Element type, a ``numpy.dtype``.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dtypes::to_numpy(py, &self.descriptor.dtype)
    }

    /// Elements along each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.descriptor.layout.shape)
    }

    /// Bytes from one element to the next along each dimension.
    #[getter]
    fn strides<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.descriptor.layout.strides)
    }

    /// Bytes from the start of the segment's data to the first element.
    #[getter]
    fn offset(&self) -> u64 {
        self.descriptor.layout.offset
    }

    /// The segment's own id; for a small array with its cell there, as ``id.17``.
    #[getter]
    fn segment(&self) -> String {
        self.descriptor.segment.to_string()
    }

    /// The number of the segment's life.
    #[getter]
    fn generation(&self) -> u64 {
        self.descriptor.generation
    }

    fn __str__(&self) -> String {
        self.descriptor.to_handle()
    }

    fn __repr__(&self) -> String {
        format!(
            "Handle('{}')",
            self.descriptor.to_handle().replace('\\', "\\\\").replace('\'', "\\'")
        )
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (String,)) {
        (py.get_type::<Self>(), (self.descriptor.to_handle(),))
    }
}
