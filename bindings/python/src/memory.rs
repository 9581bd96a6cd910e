//! The memory of an ndarray: its position, and what core does with it.
#![allow(unsafe_code)] // core reads memory that NumPy describes

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};
use shmarray::{Array, DType, Layout, Options, Order};

use crate::dtypes;
use crate::error::{expected, to_py, value_error};
use crate::first_use::{FirstUse, interned};

/// More than this is copied or released without the GIL, while other threads of Python run. For
/// less it is not worth it: getting the GIL again means waiting for another thread's turn to end.
pub(crate) const LARGE_BYTES: u64 = 64 << 10;

/// `PyArrayInterface`, which an ndarray's `__array_struct__` points to.
///
/// Source: NumPy reference, "The array interface protocol", "C-struct access".
#[repr(C)]
struct Interface {
    two: c_int,
    nd: c_int,
    typekind: c_char,
    itemsize: c_int,
    flags: c_int,
    shape: *const isize,
    strides: *const isize,
    data: *const c_void,
    descr: *const c_void,
}

// NumPy's flags, `NPY_ARRAY_C_CONTIGUOUS` and so on.
const C_CONTIGUOUS: c_int = 0x1;
const F_CONTIGUOUS: c_int = 0x2;
const ALIGNED: c_int = 0x100;
const WRITEABLE: c_int = 0x400;

/// NumPy's description of the memory of an ndarray.
pub(crate) struct Facts<'py> {
    /// Keeps `interface` alive.
    _capsule: Bound<'py, PyCapsule>,
    interface: NonNull<Interface>,
    dimensions: usize,
    flags: c_int,
}

impl<'py> Facts<'py> {
    /// Reads the description of a `numpy.ndarray`. A subclass is a TypeError.
    pub(crate) fn of(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        if !is_ndarray(array)? {
            return Err(expected(
                "a plain numpy.ndarray (numpy.asarray makes one of a subclass)",
                array,
            ));
        }
        let capsule =
            array.getattr(interned!(array.py(), "__array_struct__"))?.cast_into::<PyCapsule>()?;
        let interface = capsule.pointer_checked(None)?.cast::<Interface>();
        // SAFETY: the capsule of an ndarray's own `__array_struct__` points to a
        // `PyArrayInterface`, checked by `is_ndarray` above, which lives as long as the capsule.
        let fields = unsafe { interface.as_ref() };
        let flags = if fields.descr.is_null() {
            fields.flags
        } else {
            // NumPy clears all flags of structured arrays in the struct.
            array
                .getattr(interned!(array.py(), "flags"))?
                .getattr(interned!(array.py(), "num"))?
                .extract()?
        };
        match (usize::try_from(fields.nd), fields.two) {
            (Ok(dimensions), 2) => Ok(Self { _capsule: capsule, interface, dimensions, flags }),
            _ => Err(value_error("the array's __array_struct__ is of another version")),
        }
    }

    fn interface(&self) -> &Interface {
        // SAFETY: `interface` was taken from the capsule in `of`, and `self` keeps the capsule.
        unsafe { self.interface.as_ref() }
    }

    /// Elements along each dimension.
    pub(crate) fn shape(&self) -> &[isize] {
        // SAFETY: NumPy's interface has `nd` numbers at `shape`, and `dimensions` is `nd`, checked
        // in `of`. They live as long as the capsule.
        unsafe { numbers(self.interface().shape, self.dimensions) }
    }

    /// Bytes from one element to the next along each dimension.
    fn strides(&self) -> &[isize] {
        // SAFETY: NumPy's interface has `nd` numbers at `strides`, and `dimensions` is `nd`,
        // checked in `of`. They live as long as the capsule.
        unsafe { numbers(self.interface().strides, self.dimensions) }
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> *const u8 {
        self.interface().data.cast()
    }

    pub(crate) fn itemsize(&self) -> u64 {
        self.interface().itemsize as u64
    }

    /// The size of all elements in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.shape().iter().map(|count| *count as u64).product::<u64>() * self.itemsize()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        self.flags & (C_CONTIGUOUS | F_CONTIGUOUS) != 0
    }

    pub(crate) fn is_aligned(&self) -> bool {
        self.flags & ALIGNED != 0
    }

    pub(crate) fn is_c_contiguous(&self) -> bool {
        self.flags & C_CONTIGUOUS != 0
    }

    pub(crate) fn is_writeable(&self) -> bool {
        self.flags & WRITEABLE != 0
    }

    /// Returns whether its elements contain Python objects.
    pub(crate) fn has_objects(&self, array: &Bound<'py, PyAny>) -> PyResult<bool> {
        if self.is_numeric() {
            Ok(false)
        } else {
            let dtype = array.getattr(interned!(array.py(), "dtype"))?;
            dtype.getattr(interned!(array.py(), "hasobject"))?.extract()
        }
    }

    /// Returns whether its elements are numbers, which every consumer of buffers knows.
    pub(crate) fn is_numeric(&self) -> bool {
        matches!(self.interface().typekind as u8, b'b' | b'i' | b'u' | b'f' | b'c')
    }

    /// Returns whether it is memory of a segment.
    pub(crate) fn is_in_segment(&self) -> PyResult<bool> {
        let layout = self.layout();
        let dtype = dtypes::of_size(self.itemsize())?;
        Ok(Array::over_memory(self.address() as usize, dtype, &layout.shape, &layout.strides)
            .is_some())
    }

    /// Returns the bytes of all elements of a contiguous array. The caller must not let the array
    /// get other memory meanwhile.
    pub(crate) fn memory(&self) -> &[u8] {
        debug_assert!(self.is_contiguous());
        // SAFETY: the array is contiguous, so NumPy's `data` is followed by `bytes` initialized
        // bytes. The thread keeps the GIL while the slice is used, so no Python code writes to
        // them.
        unsafe { std::slice::from_raw_parts(self.address(), self.bytes() as usize) }
    }

    /// Returns whether two contiguous arrays are the same bytes.
    pub(crate) fn are_same_bytes(&self, other: &Self, py: Python<'py>) -> PyResult<bool> {
        let bytes = self.bytes();
        if !(self.is_contiguous() && other.is_contiguous() && other.bytes() == bytes) {
            return Ok(false);
        }
        let (one, another) = (self.address() as usize, other.address() as usize);
        // SAFETY: both arrays are contiguous, so NumPy's `data` is followed by `bytes` initialized
        // bytes, and the caller's references to the arrays keep them.
        let compare = || unsafe {
            shmarray::are_same_bytes(one as *const u8, another as *const u8, bytes as usize)
        };
        Ok(if bytes < LARGE_BYTES { compare() } else { py.detach(compare) })
    }

    /// Returns the shape and the strides, from the first element on.
    pub(crate) fn layout(&self) -> Layout {
        let shape = self.shape().iter().map(|count| *count as u64).collect();
        Layout {
            shape,
            strides: self.strides().iter().map(|step| *step as i64).collect(),
            offset: 0,
        }
    }
}

/// The elements of an ndarray.
///
/// Invariant M1: it borrows a `numpy.ndarray`, no subclass, so all elements of `layout` from
/// `address` on can be read while it lives.
pub(crate) struct Memory<'a, 'py> {
    array: &'a Bound<'py, PyAny>,
    address: usize,
    itemsize: u64,
    is_writeable: bool,
    /// The order that a copy of it gets.
    order: Order,
    layout: Layout,
}

impl<'a, 'py> Memory<'a, 'py> {
    /// Establishes M1, or returns a TypeError.
    pub(crate) fn of(array: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        let facts = Facts::of(array)?;
        let itemsize = facts.itemsize();
        let is_writeable = facts.is_writeable();
        let is_f_order = facts.is_contiguous() && !facts.is_c_contiguous();
        Ok(Self {
            array,
            address: facts.address() as usize,
            itemsize,
            is_writeable,
            order: if is_f_order { Order::F } else { Order::C },
            layout: facts.layout(),
        })
    }

    /// The address of the first element.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// The shape and the strides, from the first element on.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// That of its elements if they lie side by side, else C order.
    pub(crate) fn order(&self) -> Order {
        self.order
    }

    /// The writeable flag of the ndarray.
    pub(crate) fn is_writeable(&self) -> bool {
        self.is_writeable
    }

    /// Returns the array of opaque items in the segment that has this memory, or `None`.
    pub(crate) fn items_in_segment(&self) -> PyResult<Option<Array>> {
        Ok(self.in_segment(dtypes::of_size(self.itemsize)?))
    }

    /// Returns the array in the segment that has this memory, or `None`.
    pub(crate) fn in_segment(&self, dtype: DType) -> Option<Array> {
        Array::over_memory(self.address, dtype, &self.layout.shape, &self.layout.strides)
    }

    /// Copies it to shared memory. Other threads of Python run meanwhile.
    pub(crate) fn share(&self, dtype: DType, options: &Options) -> PyResult<Array> {
        let address = self.address;
        let layout = &self.layout;
        // SAFETY: `share` reads all elements of `layout` from `address` on. By M1 they can be read
        // while the ndarray lives, and `self` borrows it until the copy is done.
        let copy = || unsafe { Array::share(address as *const u8, dtype, layout, options) };
        match self.layout.len() * self.itemsize {
            0..LARGE_BYTES => copy(),
            _ => self.array.py().detach(copy),
        }
        .map_err(to_py)
    }
}

/// Copies an array's bytes to private memory: an ndarray of bytes. Other threads of Python run
/// meanwhile.
pub(crate) fn private_copy<'py>(py: Python<'py>, bytes: &Array) -> PyResult<Bound<'py, PyAny>> {
    let count = bytes.layout().len();
    let copy =
        py.import(interned!(py, "numpy"))?.call_method1(interned!(py, "empty"), (count, "u1"))?;
    let address = Memory::of(&copy)?.address;
    // SAFETY: `numpy.empty` has allocated `count` bytes at `address` in the call above. No other
    // reference to them exists yet, and `copy` keeps them alive.
    let room = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, count as usize) };
    match count {
        0..LARGE_BYTES => bytes.read_into(room),
        _ => py.detach(|| bytes.read_into(room)),
    }
    .map_err(to_py)?;
    Ok(copy)
}

/// Returns the numbers at an address. NumPy has no address if there are none.
///
/// # Safety
/// If `count` is not 0, there are `count` initialized numbers at `start` during `'a`.
unsafe fn numbers<'a>(start: *const isize, count: usize) -> &'a [isize] {
    match count {
        0 => &[],
        // SAFETY: the caller guarantees `count` numbers at `start` during `'a`, as the contract
        // above says.
        _ => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// Returns whether it is a `numpy.ndarray` and no subclass.
pub(crate) fn is_ndarray(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(object.get_type().is(ndarray(object.py())?))
}

/// Returns the class `numpy.ndarray`.
pub(crate) fn ndarray(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static NDARRAY: FirstUse<Py<PyType>> = FirstUse::new();
    NDARRAY.import(py, "numpy", "ndarray")
}
