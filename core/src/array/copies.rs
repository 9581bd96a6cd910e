//! Copies of elements from and to private memory.
#![allow(unsafe_code)] // copies between addresses

use super::Array;
use crate::element::copy::{Strided, copy_elements, copy_in_parts, copy_uncounted, parts_of};
use crate::system;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order};

impl Array {
    /// Returns the elements as bytes, side by side in C order.
    ///
    /// # Errors
    /// [`Error::NoMemory`]: with strides of zero, an array may have far more elements than memory.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let count = self.layout().len() * self.dtype.itemsize();
        let mut bytes = system::room_for("a copy of the elements", count)?;
        let size = count as usize;
        // SAFETY: the vector has room for all elements, as was just reserved.
        unsafe { self.copy_to(bytes.as_mut_ptr())? };
        // SAFETY: the copy wrote every byte of that size.
        unsafe { bytes.set_len(size) };
        Ok(bytes)
    }

    /// Copies the elements into `bytes`, side by side in C order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the elements do not take as many bytes.
    pub fn read_into(&self, bytes: &mut [u8]) -> Result<()> {
        let wanted = self.layout().len() * self.dtype.itemsize();
        if bytes.len() as u64 != wanted {
            let found = bytes.len();
            return Err(Error::argument(
                "bytes",
                format!("the elements are {wanted} bytes, and there is room for {found}"),
            ));
        }
        // SAFETY: the slice is private, and just as long as the elements.
        unsafe { self.copy_to(bytes.as_mut_ptr()) }
    }

    /// # Safety
    /// All elements, side by side, can be written at `start`, and none is an element of this array.
    unsafe fn copy_to(&self, start: *mut u8) -> Result<()> {
        let itemsize = self.dtype.itemsize();
        let layout = Layout::contiguous(&self.layout().shape, itemsize, Order::C)?;
        // SAFETY: `copy_elements` needs one shape, which the contiguous layout has, and mapped
        // ends: this array's layout was checked when it was made, and the caller promises that the
        // elements can be written at `start`.
        unsafe { copy_elements(Strided { start, layout: &layout }, self.strided(), itemsize) };
        Ok(())
    }

    /// Copies elements in from memory of the same shape and dtype.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::InvalidArgument`] when the shapes differ.
    ///
    /// # Safety
    /// Every element of `layout`, from `source` on, can be read, and none is an element of this
    /// array.
    pub unsafe fn fill_from(&self, source: *const u8, layout: &Layout) -> Result<()> {
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        if layout.shape != self.layout().shape {
            return Err(Error::argument(
                "shape",
                format!("{:?} differs from the array's {:?}", layout.shape, self.layout().shape),
            ));
        }
        let from = Strided { start: source.cast_mut(), layout };
        let itemsize = self.dtype.itemsize();
        // SAFETY: the caller promises that the source can be read and does not overlap this array.
        // The shapes were just compared, and this array's layout was checked when it was made.
        if unsafe { self.segment().write_elements(self.layout(), from, itemsize) } {
            return Ok(());
        }
        self.segment().prepare_stores(layout.len() * itemsize);
        // SAFETY: the shapes were just compared; this array's layout was checked when it was made,
        // and it is not read-only; the caller promises that the source can be read and does not
        // overlap it.
        unsafe { copy_elements(self.strided(), from, itemsize) };
        Ok(())
    }

    /// Copies bytes that are no array's data into a contiguous array of bytes, from its byte `at`
    /// on. [`copied_bytes`](crate::copied_bytes) does not count them.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::InvalidArgument`] when the bytes have no room there, or the
    /// array is not a contiguous one of bytes.
    ///
    /// # Safety
    /// None of the bytes is an element of this array.
    pub unsafe fn write_bytes(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() as u64;
        let room = self.layout().len();
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        if self.dtype.itemsize() != 1
            || !self.is_contiguous(Order::C)
            || room.saturating_sub(at) < count
        {
            return Err(Error::argument(
                "bytes",
                format!("{count} from {at} on do not fit into {room}"),
            ));
        }
        let source = Layout::contiguous(&[count], 1, Order::C)?;
        let target = Layout { offset: self.layout().offset + at, ..source.clone() };
        self.segment().prepare_stores(count);
        let to = Strided { start: self.segment().data_start().as_ptr(), layout: &target };
        // SAFETY: both layouts have the shape `[count]`; the target lies inside this array, as was
        // just checked, which is not read-only; the caller promises that `bytes` does not overlap
        // it.
        unsafe {
            copy_uncounted(to, Strided { start: bytes.as_ptr().cast_mut(), layout: &source })
        };
        Ok(())
    }
}

/// Copies elements of private memory to bytes where they lie as `dense` says, uncounted. The
/// elements of `layout` are counted from `source`.
///
/// # Errors
/// [`Error::InvalidArgument`] when the shapes differ; [`Error::OutOfBounds`] when `dense` leaves
/// the bytes.
///
/// # Safety
/// Every element of `layout`, from `source` on, can be read, and is not one of `bytes`.
///
/// ```
/// use shmarray::{Layout, gather};
/// let source = [1u8, 2, 3, 4, 5, 6];
/// let backwards = Layout { shape: vec![3], strides: vec![-2], offset: 4 };
/// let dense = backwards.without_gaps(1).expect("no elements overlap");
/// let mut bytes = [0; 3];
/// // SAFETY: the elements at 4, 2 and 0 are elements of `source`.
/// unsafe { gather(source.as_ptr(), &backwards, &dense, 1, &mut bytes)? };
/// assert_eq!(bytes, [1, 3, 5]); // in their order in memory
/// // SAFETY: as in the first call.
/// assert!(unsafe { gather(source.as_ptr(), &backwards, &dense, 1, &mut bytes[..2]) }.is_err());
/// # Ok::<(), shmarray::Error>(())
/// ```
#[allow(unsafe_code)]
pub unsafe fn gather(
    source: *const u8,
    layout: &Layout,
    dense: &Layout,
    itemsize: u64,
    bytes: &mut [u8],
) -> Result<()> {
    if layout.shape != dense.shape {
        let reason = format!("{:?} is not {:?}", dense.shape, layout.shape);
        return Err(Error::argument("shape", reason));
    }
    dense.check(itemsize, bytes.len() as u64)?;
    let to = Strided { start: bytes.as_mut_ptr(), layout: dense };
    let from = Strided { start: source.cast_mut(), layout };
    // SAFETY: `copy_in_parts` needs one shape and elements of `to` that can be written: both were
    // checked above. The caller promises that those of `from` can be read and are others.
    unsafe { copy_in_parts(to, from, itemsize, parts_of(layout.len() * itemsize)) };
    Ok(())
}
