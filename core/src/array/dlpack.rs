//! DLPack: an array as a tensor of other frameworks, and theirs as memory to copy.
//!
//! Source: DLPack 1.1, <https://dmlc.github.io/dlpack/latest/>, `dlpack.h`. The structs have its
//! names and its layout; versions with the same major number only add at the end.
#![allow(unsafe_code)] // structs of C, which their receiver frees

use std::ffi::c_void;
use std::ptr::NonNull;

use crate::array::Array;
use crate::system::Access;
use crate::value::dtype::{DType, TypeCode};
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, MAX_NDIM, Order, size_bytes};

/// The version whose types and flags are known here.
const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 1 };
/// `kDLCPU`.
const CPU: i32 = 1;

/// The elements must not be written.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;
/// Each element of fewer than eight bits has a byte.
pub const DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED: u64 = 4;

/// The version of the struct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLPackVersion {
    /// Another one may have another layout behind `deleter`.
    pub major: u32,
    /// A higher one has further types and flags.
    pub minor: u32,
}

/// Where the elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLDevice {
    /// 1 is the CPU.
    pub device_type: i32,
    /// 0 for the CPU.
    pub device_id: i32,
}

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLDataType {
    /// The kind of number.
    pub code: u8,
    /// Bits of one.
    pub bits: u8,
    /// Numbers of an element.
    pub lanes: u16,
}

/// A tensor, without its owner.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLTensor {
    /// The elements, from `byte_offset` on.
    pub data: *mut c_void,
    /// Where they are.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// Their type.
    pub dtype: DLDataType,
    /// `ndim` numbers of elements.
    pub shape: *mut i64,
    /// `ndim` distances, in elements. Null, before DLPack 1.2, for C order.
    pub strides: *mut i64,
    /// From `data` to the element whose indices are all zero.
    pub byte_offset: u64,
}

/// A tensor and its owner.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLManagedTensorVersioned {
    /// The version of this struct.
    pub version: DLPackVersion,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Gives the tensor back. Whoever has the tensor calls it once, in any thread.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// `DLPACK_FLAG_BITMASK_…`.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: DLTensor,
}

/// A tensor and its owner, before DLPack 1.0.
#[derive(Debug)]
#[repr(C)]
#[allow(clippy::exhaustive_structs, reason = "C has the struct, too")]
pub struct DLManagedTensor {
    /// The tensor.
    pub dl_tensor: DLTensor,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// As that of [`DLManagedTensorVersioned`].
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// What a tensor of an array keeps until its deleter is called.
struct Kept<T> {
    tensor: DLManagedTensorVersioned,
    _shape: Vec<i64>,
    _strides: Vec<i64>,
    _owner: T,
}

impl Array {
    /// Returns the array as a tensor of other frameworks: the same memory, which stays until the
    /// tensor's deleter was called. The tensor says that it must not be written if the access is
    /// [`Access::ReadOnly`], or if the array is read-only.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] when DLPack has no such type; [`Error::InvalidArgument`] when a
    /// stride is no multiple of the item size.
    pub fn to_dlpack(&self, access: Access) -> Result<NonNull<DLManagedTensorVersioned>> {
        self.to_dlpack_keeping(access, self.clone())
    }

    /// As [`Array::to_dlpack`]: the tensor keeps an owner that keeps this array, instead of the
    /// array.
    ///
    /// # Errors
    /// As for [`Array::to_dlpack`].
    pub fn to_dlpack_keeping<T: Send + 'static>(
        &self,
        access: Access,
        owner: T,
    ) -> Result<NonNull<DLManagedTensorVersioned>> {
        let (dtype, is_padded) = type_of(self.dtype())?;
        let itemsize = self.dtype().itemsize() as i64;
        let contiguous = Layout::contiguous(self.shape(), 1, Order::C)?.strides;
        let in_elements = |((&stride, &count), &other): ((&i64, &u64), &i64)| match stride {
            _ if count < 2 => Ok(other), // nobody steps by it
            stride if stride % itemsize == 0 => Ok(stride / itemsize),
            stride => {
                let reason = format!("DLPack counts in elements of {itemsize} bytes, not {stride}");
                Err(Error::argument("strides", reason))
            }
        };
        let each = self.strides().iter().zip(self.shape()).zip(&contiguous);
        let mut strides = each.map(in_elements).collect::<Result<Vec<_>>>()?;
        let mut shape: Vec<_> = self.shape().iter().map(|count| *count as i64).collect();
        let is_read_only = self.is_readonly() || access == Access::ReadOnly;
        let read_only = if is_read_only { DLPACK_FLAG_BITMASK_READ_ONLY } else { 0 };
        let padded = if is_padded { DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED } else { 0 };
        let dl_tensor = DLTensor {
            data: self.as_ptr().cast(),
            device: DLDevice { device_type: CPU, device_id: 0 },
            ndim: shape.len() as i32,
            dtype,
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let tensor = DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(give_back::<T>),
            flags: read_only | padded,
            dl_tensor,
        };
        let kept = Kept { tensor, _shape: shape, _strides: strides, _owner: owner };
        let context = Box::into_raw(Box::new(kept));
        // SAFETY: it is a box that nobody else has, because it was made just now.
        let kept = unsafe { &mut *context };
        kept.tensor.manager_ctx = context.cast();
        Ok(NonNull::from(&mut kept.tensor))
    }
}

/// The deleter of a tensor that [`Array::to_dlpack`] has made.
unsafe extern "C" fn give_back<T>(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor is valid, because DLPack's contract is that the deleter is called once.
    let context = unsafe { (*tensor).manager_ctx };
    // SAFETY: it is the box that `to_dlpack` made, which nobody has freed, by the same contract.
    drop(unsafe { Box::from_raw(context.cast::<Kept<T>>()) });
}

/// The elements of a tensor of another framework.
#[derive(Debug)]
#[non_exhaustive]
pub struct Foreign {
    /// The element whose indices are all zero.
    pub data: *const u8,
    /// Their dtype.
    pub dtype: DType,
    /// Their layout, from `data` on.
    pub layout: Layout,
}

/// Reads where the elements of a tensor are. They stay the tensor's: copy them with
/// [`Array::share`], and call its deleter afterwards.
///
/// # Errors
/// [`Error::InvalidArgument`] when the elements are on another device, are packed in fewer than
/// eight bits, have several lanes, or when the version or the shape is invalid;
/// [`Error::InvalidDType`] when there is no such dtype.
///
/// # Safety
/// The tensor is as DLPack says: its shape and strides have `ndim` numbers.
pub unsafe fn read(tensor: &DLManagedTensorVersioned) -> Result<Foreign> {
    if tensor.version.major != VERSION.major {
        let DLPackVersion { major, minor } = tensor.version;
        let reason = format!("it is of DLPack {major}.{minor}, and not of 1");
        return Err(Error::argument("tensor", reason));
    }
    // SAFETY: the caller promises the same.
    unsafe { read_with_flags(&tensor.dl_tensor, tensor.flags) }
}

/// As [`read`]: of a tensor with these flags, which one from before DLPack 1.0 has not.
///
/// # Errors
/// As for [`read`].
///
/// # Safety
/// As for [`read`].
pub unsafe fn read_with_flags(tensor: &DLTensor, flags: u64) -> Result<Foreign> {
    let refused = |reason: String| Err(Error::argument("tensor", reason));
    let DLTensor { data, device, ndim, dtype, shape, strides, byte_offset } = *tensor;
    if device.device_type != CPU {
        let DLDevice { device_type, device_id } = device;
        return refused(format!("it is on device {device_type}:{device_id}, and not on the CPU"));
    }
    let is_padded = flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED != 0;
    if dtype.bits < 8 && dtype.code != BOOL && !is_padded {
        return refused(format!("its elements of {} bits are packed", dtype.bits));
    }
    let dtype = dtype_of(dtype)?;
    let ndim = usize::try_from(ndim).ok().filter(|ndim| *ndim <= MAX_NDIM);
    let Some(ndim) = ndim else {
        return refused(format!("it has {} dimensions", tensor.ndim));
    };
    // SAFETY: `shape` has `ndim` numbers, as the caller promises.
    let shape = unsafe { numbers(shape, ndim) }.unwrap_or_default();
    let counts: Option<Vec<_>> = shape.iter().map(|count| u64::try_from(*count).ok()).collect();
    let Some(shape) = counts.filter(|counts| counts.len() == ndim) else {
        return refused(format!("its shape is {shape:?}"));
    };
    size_bytes(&shape, dtype.itemsize())?;
    let itemsize = dtype.itemsize();
    // SAFETY: `strides` has `ndim` numbers unless it is null, as the caller promises.
    let strides = match unsafe { numbers(strides, ndim) } {
        Some(strides) => {
            let bytes = strides.iter().map(|stride| stride.checked_mul(itemsize as i64));
            match bytes.collect::<Option<Vec<_>>>() {
                Some(bytes) => bytes,
                None => return refused(format!("its strides are {strides:?}")),
            }
        }
        None => Layout::contiguous(&shape, itemsize, Order::C)?.strides,
    };
    let layout = Layout { shape, strides, offset: 0 };
    if data.is_null() && !layout.is_empty() {
        return refused("its data is null".to_owned());
    }
    Ok(Foreign {
        data: data.cast_const().cast::<u8>().wrapping_add(byte_offset as usize),
        dtype,
        layout,
    })
}

/// Returns numbers that a tensor points to. `None` for null.
///
/// # Safety
/// There are `count` of them, unless the pointer is null.
unsafe fn numbers<'a>(first: *const i64, count: usize) -> Option<&'a [i64]> {
    match count {
        0 => Some(&[]),
        _ if first.is_null() => None,
        // SAFETY: there are `count` numbers, as the caller promises.
        _ => Some(unsafe { std::slice::from_raw_parts(first, count) }),
    }
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;
const BCOMPLEX: u8 = 18;

/// Each dtype with DLPack's code and bits.
const TYPES: [(TypeCode, u8, u8); 34] = [
    (TypeCode::Bool, BOOL, 8),
    (TypeCode::Int8, INT, 8),
    (TypeCode::Int16, INT, 16),
    (TypeCode::Int32, INT, 32),
    (TypeCode::Int64, INT, 64),
    (TypeCode::UInt8, UINT, 8),
    (TypeCode::UInt16, UINT, 16),
    (TypeCode::UInt32, UINT, 32),
    (TypeCode::UInt64, UINT, 64),
    (TypeCode::Float16, FLOAT, 16),
    (TypeCode::Float32, FLOAT, 32),
    (TypeCode::Float64, FLOAT, 64),
    (TypeCode::Complex32, COMPLEX, 32),
    (TypeCode::Complex64, COMPLEX, 64),
    (TypeCode::Complex128, COMPLEX, 128),
    (TypeCode::BFloat16, BFLOAT, 16),
    (TypeCode::BComplex32, BCOMPLEX, 32),
    (TypeCode::Float8E3M4, 7, 8),
    (TypeCode::Float8E4M3, 8, 8),
    (TypeCode::Float8E4M3B11FNUZ, 9, 8),
    (TypeCode::Float8E4M3FN, 10, 8),
    (TypeCode::Float8E4M3FNUZ, 11, 8),
    (TypeCode::Float8E5M2, 12, 8),
    (TypeCode::Float8E5M2FNUZ, 13, 8),
    (TypeCode::Float8E8M0FNU, 14, 8),
    (TypeCode::Float6E2M3FN, 15, 6),
    (TypeCode::Float6E3M2FN, 16, 6),
    (TypeCode::Float4E2M1FN, 17, 4),
    (TypeCode::Int1, INT, 1),
    (TypeCode::Int2, INT, 2),
    (TypeCode::Int4, INT, 4),
    (TypeCode::UInt1, UINT, 1),
    (TypeCode::UInt2, UINT, 2),
    (TypeCode::UInt4, UINT, 4),
];

/// Returns DLPack's type, and whether each element of fewer than eight bits has a byte.
fn type_of(dtype: &DType) -> Result<(DLDataType, bool)> {
    let found = TYPES.iter().find(|(row, ..)| *row == dtype.code());
    let (_, code, bits) = *found.ok_or_else(|| Error::InvalidDType {
        dtype: dtype.text().to_owned(),
        reason: "DLPack has no such type".to_owned(),
    })?;
    Ok((DLDataType { code, bits, lanes: 1 }, bits < 8))
}

fn dtype_of(found: DLDataType) -> Result<DType> {
    let DLDataType { code, bits, lanes } = found;
    let row = TYPES.iter().find(|(_, row, size)| (*row, *size) == (code, bits));
    let dtype = row.and_then(|(row, ..)| DType::ALL.iter().find(|dtype| dtype.code() == *row));
    dtype.filter(|_| lanes == 1).cloned().ok_or_else(|| Error::InvalidDType {
        dtype: format!("DLPack's code {code}, {bits} bits, {lanes} lanes"),
        reason: "there is no such dtype".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Options;

    fn array(dtype: &str, shape: &[u64]) -> Array {
        Array::create(DType::parse(dtype).unwrap(), shape, &Options::new()).unwrap()
    }

    /// Returns what a tensor says, and calls its deleter.
    fn read_and_give_back(tensor: NonNull<DLManagedTensorVersioned>) -> Foreign {
        // SAFETY: the tensor is valid until its deleter is called.
        let tensor = unsafe { &mut *tensor.as_ptr() };
        // SAFETY: an array made it, with as many numbers as dimensions.
        let found = unsafe { read(tensor) }.unwrap();
        // SAFETY: this is the only call.
        unsafe { tensor.deleter.unwrap()(tensor) };
        found
    }

    #[test]
    fn every_dtype_that_dlpack_has_comes_back_as_it_was() {
        let mut none = Vec::new();
        let mut came_back = 0;
        for dtype in DType::ALL {
            let array = array(dtype.text(), &[2, 3]);
            match array.to_dlpack(Access::ReadWrite) {
                Ok(tensor) => {
                    let found = read_and_give_back(tensor);
                    assert_eq!((&found.dtype, &found.layout.shape), (dtype, &vec![2, 3]));
                    assert_eq!(found.data, array.as_ptr().cast_const());
                    assert_eq!(found.layout.strides, array.strides());
                    came_back += 1;
                }
                Err(error) => none.push((dtype.name(), error)),
            }
        }
        // A dtype that is added may be another one that DLPack lacks.
        assert!(
            none.iter().all(|(_, error)| matches!(error, Error::InvalidDType { .. })),
            "{none:?}"
        );
        assert_eq!((none[0].0, came_back >= 34), ("float8_e5m3fnu", true), "{none:?}");
        let opaque = array("<M8[s]", &[1]).to_dlpack(Access::ReadWrite).unwrap_err();
        assert!(opaque.to_string().contains("DLPack has no such type"), "{opaque}");
    }

    struct Sent(NonNull<DLManagedTensorVersioned>);

    // SAFETY: by DLPack's contract any thread may read a tensor and give it back.
    unsafe impl Send for Sent {}

    #[test]
    fn a_tensor_keeps_the_memory_until_it_is_given_back() {
        let array = array("<i4", &[4]);
        array.set(&[2], 7i32).unwrap();
        let handle = array.handle();
        let tensor = array.to_dlpack(Access::ReadWrite).unwrap();
        drop(array);
        assert!(Array::attach(&handle, Access::ReadOnly).is_ok());
        // SAFETY: the tensor is valid until its deleter is called.
        let first = unsafe { tensor.as_ref() }.dl_tensor.data.cast::<i32>();
        // SAFETY: it has four elements.
        let third = unsafe { first.wrapping_add(2).read() };
        assert_eq!(third, 7);
        let tensor = Sent(tensor);
        let other = move || read_and_give_back({ tensor }.0).layout;
        let found = std::thread::spawn(other).join().unwrap();
        assert_eq!(found.shape, [4]);
        assert!(Array::attach(&handle, Access::ReadOnly).is_err());
    }

    #[test]
    fn strides_are_in_elements_and_each_view_has_its_own() {
        let array = array("<i4", &[2, 3, 4]);
        for view in [array.transpose(), array.slice(1, Some(2), None, -1).unwrap()] {
            let tensor = view.to_dlpack(Access::ReadWrite).unwrap();
            let found = read_and_give_back(tensor);
            assert_eq!(
                (&found.layout.shape[..], found.data),
                (view.shape(), view.as_ptr().cast_const())
            );
            assert_eq!(found.layout.strides, view.strides());
        }
        let odd = array.view(&[2], &[6], 0).unwrap().to_dlpack(Access::ReadWrite).unwrap_err();
        assert!(odd.to_string().contains("in elements of 4 bytes, not 6"), "{odd}");
        let read_only = Array::attach(&array.handle(), Access::ReadOnly).unwrap();
        for (array, access) in [(read_only, Access::ReadWrite), (array, Access::ReadOnly)] {
            let tensor = array.to_dlpack(access).unwrap();
            // SAFETY: the tensor is valid until its deleter is called.
            assert_eq!(unsafe { tensor.as_ref() }.flags, DLPACK_FLAG_BITMASK_READ_ONLY);
            read_and_give_back(tensor);
        }
    }

    /// Changes a tensor of two by three `<f4`, and returns the error of reading it.
    fn refusal(change: impl FnOnce(&mut DLManagedTensorVersioned)) -> String {
        let mut tensor = array("<f4", &[2, 3]).to_dlpack(Access::ReadWrite).unwrap();
        // SAFETY: the tensor is valid until its deleter is called.
        let changed = unsafe { tensor.as_mut() };
        let deleter = changed.deleter.unwrap();
        change(changed);
        // SAFETY: it still has two numbers each, or says so.
        let error = unsafe { read(changed) }.unwrap_err().to_string();
        // SAFETY: this is the only call, and the deleter needs `manager_ctx` alone.
        unsafe { deleter(changed) };
        error
    }

    #[test]
    fn what_cannot_be_copied_is_refused_by_name() {
        type Change = fn(&mut DLManagedTensorVersioned);
        let cases: [(Change, &str); 9] = [
            (|tensor| tensor.version.major = 2, "it is of DLPack 2.1"),
            (|tensor| tensor.dl_tensor.device.device_type = 2, "it is on device 2:0"),
            (|tensor| tensor.dl_tensor.ndim = 65, "it has 65 dimensions"),
            (|tensor| tensor.dl_tensor.ndim = -1, "it has -1 dimensions"),
            (|tensor| tensor.dl_tensor.data = std::ptr::null_mut(), "its data is null"),
            (|tensor| tensor.dl_tensor.shape = std::ptr::null_mut(), "its shape"),
            (|tensor| tensor.dl_tensor.dtype.lanes = 4, "code 2, 32 bits, 4 lanes"),
            (|tensor| tensor.dl_tensor.dtype.bits = 31, "code 2, 31 bits, 1 lanes"),
            (
                |tensor| tensor.dl_tensor.dtype = DLDataType { code: INT, bits: 4, lanes: 1 },
                "its elements of 4 bits are packed",
            ),
        ];
        for (change, says) in cases {
            let error = refusal(change);
            assert!(error.contains(says), "{error}");
        }
        let strides = refusal(|tensor| {
            // SAFETY: the shape has two numbers.
            unsafe { *tensor.dl_tensor.strides = i64::MAX }
        });
        assert!(strides.contains("its strides are"), "{strides}");
        let shape = refusal(|tensor| {
            // SAFETY: the shape has two numbers.
            unsafe { *tensor.dl_tensor.shape = -2 }
        });
        assert!(shape.contains("its shape is"), "{shape}");
    }

    #[test]
    fn tensors_without_strides_are_in_c_order_and_start_at_their_offset() {
        let mut tensor = array("<f4", &[2, 3]).to_dlpack(Access::ReadWrite).unwrap();
        // SAFETY: the tensor is valid until its deleter is called.
        let changed = unsafe { tensor.as_mut() };
        changed.dl_tensor.strides = std::ptr::null_mut();
        changed.dl_tensor.byte_offset = 8;
        let first = changed.dl_tensor.data.cast_const().cast::<u8>();
        let found = read_and_give_back(tensor);
        assert_eq!((found.data, found.layout.strides), (first.wrapping_add(8), vec![12, 4]));
    }
}
