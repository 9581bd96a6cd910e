//! Access to single elements.

use super::Array;
use crate::element::{Element, count_down};
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::number::Number;
#[cfg(doc)]
use crate::value::shape::Layout;

/// Access to single elements.
impl Array {
    /// Reads one element.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`], or as for [`Layout::element_offset`].
    #[allow(unsafe_code)]
    pub fn get<T: Element>(&self, index: &[u64]) -> Result<T> {
        let address = self.element_address::<T>(index)?;
        // SAFETY: one element can be read at the address: `element_address` checked that `T` has
        // the array's dtype and that the index lies in its checked layout.
        Ok(unsafe { T::read(address) })
    }

    /// Writes one element.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::DTypeMismatch`], or as for [`Layout::element_offset`].
    #[allow(unsafe_code)]
    pub fn set<T: Element>(&self, index: &[u64], value: T) -> Result<()> {
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        let address = self.element_address::<T>(index)?;
        // SAFETY: one element can be written at the address: `element_address` checked the dtype
        // and the index, and the pages are writable, since the array is not read-only.
        unsafe { T::write(address, value) };
        Ok(())
    }

    /// Subtracts one from an element of type `<u8` that is not zero, atomically for all processes,
    /// and returns the result. For counts of what several processes have still to do, such as the
    /// readers of a message.
    ///
    /// # Errors
    /// As for [`Array::set`]; [`Error::InvalidArgument`] where the element is not aligned.
    ///
    /// # Safety
    /// While this runs, no other thread of this process accesses the element but by this method:
    /// the other methods access an element byte by byte, which would race with its eight at once.
    #[allow(unsafe_code)]
    pub unsafe fn count_down(&self, index: &[u64]) -> Result<u64> {
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        let address = self.element_address::<u64>(index)?;
        // SAFETY: 8 bytes can be read and written at the address: `element_address` checked the
        // dtype `<u8` and the index, and the array is not read-only. The caller promises that no
        // thread accesses them in another way.
        unsafe { count_down(address) }
            .ok_or_else(|| Error::argument("index", "the element is not aligned"))
    }

    /// Reads one element as a number, whatever its dtype.
    ///
    /// ```
    /// use shmarray::{Array, DType, Number, Options};
    /// let a = Array::create(DType::parse("<u2")?, &[3], &Options::default())?;
    /// a.set_number(&[1], Number::Integer(65_535))?;
    /// assert_eq!(a.get_number(&[1])?, Number::Integer(65_535));
    /// assert!(a.set_number(&[1], Number::Integer(65_536)).is_err());
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for a dtype outside the table; as for [`Layout::element_offset`].
    #[allow(unsafe_code)]
    pub fn get_number(&self, index: &[u64]) -> Result<Number> {
        let address = self.address_of(index)?;
        // SAFETY: an element of the array's dtype can be read at the address: `address_of` checked
        // that the index lies in the array's checked layout.
        unsafe { Number::read(self.dtype().code(), address) }
            .ok_or_else(|| wrong_dtype("one whose elements are numbers", self.dtype()))
    }

    /// Writes the element nearest to a number.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::DTypeMismatch`] for a number of another kind than the dtype's
    /// elements, and for an integer that does not fit; as for [`Layout::element_offset`].
    #[allow(unsafe_code)]
    pub fn set_number(&self, index: &[u64], number: Number) -> Result<()> {
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        let address = self.address_of(index)?;
        // SAFETY: an element of the array's dtype can be written at the address: `address_of`
        // checked the index, and the pages are writable, since the array is not read-only.
        if unsafe { number.write(self.dtype().code(), address) } {
            Ok(())
        } else {
            Err(wrong_dtype(&format!("one that has the value {number}"), self.dtype()))
        }
    }

    fn element_address<T: Element>(&self, index: &[u64]) -> Result<*mut u8> {
        self.expect_dtype(T::dtype())?;
        self.address_of(index)
    }

    fn address_of(&self, index: &[u64]) -> Result<*mut u8> {
        let offset = self.layout().element_offset(index)?;
        debug_assert!(
            offset + self.dtype.itemsize() <= self.segment().data_bytes(),
            "I2 of `shape`: every element lies inside the data"
        );
        Ok(self.segment().data_start().as_ptr().wrapping_add(offset as usize))
    }

    /// Refuses a dtype other than the array's.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`].
    pub fn expect_dtype(&self, expected: DType) -> Result<()> {
        if self.dtype == expected {
            Ok(())
        } else {
            Err(Error::DTypeMismatch {
                expected: expected.to_string(),
                found: self.dtype.to_string(),
            })
        }
    }
}

fn wrong_dtype(expected: &str, dtype: &DType) -> Error {
    Error::DTypeMismatch { expected: expected.to_owned(), found: dtype.to_string() }
}
