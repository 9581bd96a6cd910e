//! `ndarray` views of an array (feature `ndarray`).

use ndarray::{IxDyn, RawArrayView, RawArrayViewMut, ShapeBuilder};

use crate::array::Array;
use crate::element::Element;
use crate::value::error::{Error, Result};

impl Array {
    /// Returns a raw `ndarray` view. Dereferencing it is unsafe, because another process may write
    /// to the memory: the caller promises that none does meanwhile.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`]; [`Error::InvalidArgument`] for strides that `ndarray` cannot
    /// express, because they are negative or not multiples of the item size, and for elements that
    /// are not aligned.
    ///
    /// ```
    /// use shmarray::{Array, DType, Options};
    /// let a = Array::create(DType::parse("<f4")?, &[2, 3], &Options::default())?;
    /// a.set(&[1, 0], 2.5f32)?;
    /// // SAFETY: no other process writes to this array, because nobody else has its handle.
    /// let view = unsafe { a.raw_view::<f32>()?.deref_into_view() };
    /// assert_eq!(view[[1, 0]], 2.5);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn raw_view<T: Element>(&self) -> Result<RawArrayView<T, IxDyn>> {
        let (shape, strides) = self.dimensions::<T>()?;
        let shape = IxDyn(&shape).strides(IxDyn(&strides));
        // SAFETY: the address and strides are those of elements of `T`: the layout was checked
        // against the segment when the array was made, and `dimensions` checked the dtype, strides
        // and alignment.
        #[allow(unsafe_code)]
        Ok(unsafe { RawArrayView::from_shape_ptr(shape, self.as_ptr().cast::<T>()) })
    }

    /// Returns a raw `ndarray` view as [`Array::raw_view`] does, to write through.
    ///
    /// # Errors
    /// As [`Array::raw_view`], and [`Error::ReadOnly`].
    pub fn raw_view_mut<T: Element>(&self) -> Result<RawArrayViewMut<T, IxDyn>> {
        if self.is_readonly() {
            return Err(Error::ReadOnly);
        }
        let (shape, strides) = self.dimensions::<T>()?;
        let shape = IxDyn(&shape).strides(IxDyn(&strides));
        // SAFETY: the address and strides are those of elements of `T`, as `dimensions` has
        // checked, and the pages are writable, since the array is not read-only.
        #[allow(unsafe_code)]
        Ok(unsafe { RawArrayViewMut::from_shape_ptr(shape, self.as_ptr().cast::<T>()) })
    }

    /// Returns the shape and the strides in elements.
    fn dimensions<T: Element>(&self) -> Result<(Vec<usize>, Vec<usize>)> {
        self.expect_dtype(T::dtype())?;
        let whole = |stride: &i64| {
            usize::try_from(*stride).ok().filter(|stride| stride % size_of::<T>() == 0)
        };
        let strides =
            self.strides().iter().map(|stride| whole(stride).map(|stride| stride / size_of::<T>()));
        let strides = strides.collect::<Option<Vec<_>>>();
        let misaligned = !(self.as_ptr() as usize).is_multiple_of(align_of::<T>());
        let strides = strides.filter(|_| !misaligned).ok_or_else(|| {
            Error::argument(
                "strides",
                format!("{:?}: ndarray needs aligned elements and positive steps", self.strides()),
            )
        })?;
        Ok((self.shape().iter().map(|&count| count as usize).collect(), strides))
    }
}
