//! Shapes and strides: checked arithmetic on numbers, without pointers.
//!
//! A [`Layout`] says which bytes an array's elements are: the shape in elements, the strides and
//! the offset in bytes, as in NumPy. The offset counts from the start of the data that the array
//! lies in. A layout is checked against that data once, when it is made ([`Layout::check`]). Slices
//! and transposes of a checked layout only choose among its elements, so they stay inside.
//!
//! Invariants of a checked layout:
//! * I1 shape and strides have the same length, at most [`MAX_NDIM`].
//! * I2 every element lies inside the data, or there are no elements.
//! * I3 the element count and the byte count fit an `i64`.

use crate::value::error::{Error, Result};

/// The most dimensions of an array: NumPy's limit.
pub const MAX_NDIM: usize = 64;

/// The order of elements in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Order {
    /// The last dimension varies fastest: row-major.
    #[default]
    C,
    /// The first dimension varies fastest: column-major.
    F,
}

/// The positions of an array's elements in the data that it lies in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "these three are all that there can be")]
pub struct Layout {
    /// The number of elements along each dimension.
    pub shape: Vec<u64>,
    /// The bytes from one element to the next along each dimension. May be zero or negative.
    pub strides: Vec<i64>,
    /// The bytes from the start of the data to the element whose indices are all zero.
    pub offset: u64,
}

impl Layout {
    /// Returns the layout of elements that lie side by side, from offset 0.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than [`MAX_NDIM`] dimensions or a size that overflows.
    ///
    /// ```
    /// use shmarray::{Layout, Order};
    /// assert_eq!(Layout::contiguous(&[2, 3, 3], 4, Order::C)?.strides, [36, 12, 4]);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn contiguous(shape: &[u64], itemsize: u64, order: Order) -> Result<Self> {
        size_bytes(shape, itemsize)?;
        let mut strides = vec![0i64; shape.len()];
        let mut step = i64::try_from(itemsize).map_err(|_| too_large(shape))?;
        for dim in memory_order(shape.len(), order) {
            strides[dim] = step;
            step = step.saturating_mul(shape[dim].max(1).min(i64::MAX as u64) as i64);
        }
        Ok(Self { shape: shape.to_vec(), strides, offset: 0 })
    }

    /// Checks I1 to I3 for data of `data_bytes` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] or [`Error::OutOfBounds`].
    pub fn check(&self, itemsize: u64, data_bytes: u64) -> Result<()> {
        if self.shape.len() != self.strides.len() {
            let reason =
                format!("{} strides for {} dimensions", self.strides.len(), self.shape.len());
            return Err(Error::argument("strides", reason));
        }
        size_bytes(&self.shape, itemsize)?;
        let (low, high) = self.span(itemsize)?;
        if low >= 0 && high <= i128::from(data_bytes) {
            Ok(())
        } else {
            Err(Error::OutOfBounds { what: "the array", low, high, size_bytes: data_bytes })
        }
    }

    /// Returns the first byte that the elements touch, and one past the last. Both are the offset
    /// if there are no elements.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the span overflows.
    pub fn span(&self, itemsize: u64) -> Result<(i128, i128)> {
        let start = i128::from(self.offset);
        if self.is_empty() {
            return Ok((start, start));
        }
        let mut low = start;
        let mut high = start + i128::from(itemsize);
        for (&count, &stride) in self.shape.iter().zip(&self.strides) {
            let reach = i128::from(stride) * i128::from(count - 1);
            let end = if reach < 0 { &mut low } else { &mut high };
            *end = end.checked_add(reach).ok_or_else(|| too_large(&self.shape))?;
        }
        Ok((low, high))
    }

    /// Returns the number of dimensions.
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        if self.is_empty() { 0 } else { self.shape.iter().product() }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the elements lie side by side in that order, as NumPy's flags define it: strides of
    /// dimensions with fewer than two elements do not count.
    #[must_use]
    pub fn is_contiguous(&self, itemsize: u64, order: Order) -> bool {
        if self.is_empty() {
            return true;
        }
        let mut step = i128::from(itemsize);
        for dim in memory_order(self.ndim(), order) {
            if self.shape[dim] > 1 && i128::from(self.strides[dim]) != step {
                return false;
            }
            step *= i128::from(self.shape[dim]);
        }
        true
    }

    /// Returns the same elements side by side, from offset 0: dimensions keep their order in memory
    /// and their directions. `None` if elements may overlap, because a stride is shorter than the
    /// elements within it, or if their size overflows.
    ///
    /// ```
    /// use shmarray::{Layout, Order};
    /// let columns = Layout::contiguous(&[4, 6], 8, Order::C)?.slice(1, None, None, -2)?;
    /// let dense = columns.without_gaps(8).expect("no elements overlap");
    /// assert_eq!((dense.shape, dense.strides, dense.offset), (vec![4, 3], vec![24, -8], 16));
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    #[must_use]
    pub fn without_gaps(&self, itemsize: u64) -> Option<Self> {
        let mut dense = Self::contiguous(&self.shape, itemsize, Order::C).ok()?;
        if self.is_empty() {
            return Some(dense);
        }
        let mut step = i64::try_from(itemsize).ok()?;
        let mut reach = itemsize;
        let mut inner_first: Vec<usize> = (0..self.ndim()).rev().collect();
        inner_first.sort_by_key(|dim| self.strides[*dim].unsigned_abs());
        for dim in inner_first {
            let others = self.shape[dim] - 1;
            let stride = self.strides[dim].unsigned_abs();
            if others > 0 && stride < reach {
                return None;
            }
            reach = reach.saturating_add(others.saturating_mul(stride));
            if self.strides[dim] < 0 {
                dense.strides[dim] = -step;
                dense.offset += others * step as u64;
            } else {
                dense.strides[dim] = step;
            }
            step *= self.shape[dim] as i64;
        }
        Some(dense)
    }

    /// Returns the elements `start, start + step, …` before `stop` along one dimension, as Python's
    /// slices do.
    ///
    /// Negative `start` and `stop` count from the end, and both are clamped to the dimension.
    /// `None` stands for the first or last possible index in the direction of the step.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a dimension that does not exist or a step of zero.
    ///
    /// ```
    /// use shmarray::{Layout, Order};
    /// let a = Layout::contiguous(&[10], 4, Order::C)?;
    /// let backwards = a.slice(0, None, None, -3)?;
    /// assert_eq!((backwards.shape[0], backwards.strides[0], backwards.offset), (4, -12, 36));
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn slice(
        &self,
        dim: usize,
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    ) -> Result<Self> {
        self.check_dim(dim)?;
        let (first, count) = slice_bounds(self.shape[dim], start, stop, step)?;
        let mut slice = self.clone();
        slice.offset = self.offset_at(dim, if count == 0 { 0 } else { first });
        slice.shape[dim] = count;
        slice.strides[dim] = self.strides[dim].saturating_mul(if count > 1 { step } else { 1 });
        Ok(slice)
    }

    /// Returns the elements at one index of a dimension, which is removed. A negative index counts
    /// from the end.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a dimension that does not exist, [`Error::IndexOutOfBounds`]
    /// for such an index.
    pub fn select(&self, dim: usize, index: i64) -> Result<Self> {
        self.check_dim(dim)?;
        let index = wrap_index(index, self.shape[dim])?;
        let mut rest = self.clone();
        rest.offset = self.offset_at(dim, index);
        rest.shape.remove(dim);
        rest.strides.remove(dim);
        Ok(rest)
    }

    /// Returns the dimensions in another order: dimension `i` of the result is `axes[i]` of this.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `axes` names each dimension once.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        let mut seen = vec![false; self.ndim()];
        for &axis in axes {
            self.check_dim(axis)?;
            if std::mem::replace(&mut seen[axis], true) {
                return Err(Error::argument("axes", format!("dimension {axis} is named twice")));
            }
        }
        if axes.len() != self.ndim() {
            return Err(Error::argument(
                "axes",
                format!("{} axes for {} dimensions", axes.len(), self.ndim()),
            ));
        }
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides = axes.iter().map(|&axis| self.strides[axis]).collect();
        Ok(Self { shape, strides, offset: self.offset })
    }

    /// Returns the dimensions in reverse order.
    #[must_use]
    pub fn transpose(&self) -> Self {
        let mut reversed = self.clone();
        reversed.shape.reverse();
        reversed.strides.reverse();
        reversed
    }

    /// Returns the same elements in the same C order in another shape.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the shape has another number of elements, or when no strides
    /// reach them in that order: then only a copy has that shape.
    ///
    /// ```
    /// use shmarray::{Layout, Order};
    /// let a = Layout::contiguous(&[4, 6], 1, Order::C)?;
    /// assert_eq!(a.slice(1, None, None, 2)?.reshape(1, &[2, 6])?.strides, [12, 2]);
    /// assert!(a.transpose().reshape(1, &[24]).is_err());
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    pub fn reshape(&self, itemsize: u64, shape: &[u64]) -> Result<Self> {
        let mut reshaped = Self::contiguous(shape, itemsize, Order::C)?;
        reshaped.offset = self.offset;
        if reshaped.len() != self.len() {
            let reason = format!("{shape:?} has another number of elements than {:?}", self.shape);
            return Err(Error::argument("shape", reason));
        }
        if self.is_empty() || self.reach(&mut reshaped).is_some() {
            Ok(reshaped)
        } else {
            Err(Error::argument("shape", format!("{shape:?} would need a copy")))
        }
    }

    /// Sets the strides of another shape with as many elements so that they reach these elements in
    /// C order. `None` if no strides do.
    ///
    /// Source: `NumPy`, `_attempt_nocopy_reshape`. Dimensions of both shapes are grouped until the
    /// groups have as many elements; those of this shape must have equal steps throughout.
    fn reach(&self, other: &mut Self) -> Option<()> {
        let dims = self.shape.iter().copied().zip(self.strides.iter().copied());
        let mut old = dims.filter(|(count, _)| *count != 1).rev();
        let Self { shape, strides, .. } = other;
        let mut new = (0..shape.len()).rev().filter(|&dim| shape[dim] != 1);
        while let (Some((mut olds, step)), Some(dim)) = (old.next(), new.next()) {
            let mut news = shape[dim];
            let mut next = step.checked_mul(shape[dim] as i64)?;
            strides[dim] = step;
            while olds != news {
                if olds < news {
                    let (count, stride) = old.next()?;
                    if stride != step.checked_mul(olds as i64)? {
                        return None;
                    }
                    olds *= count;
                } else {
                    let dim = new.next()?;
                    strides[dim] = next;
                    next = next.checked_mul(shape[dim] as i64)?;
                    news *= shape[dim];
                }
            }
        }
        Some(())
    }

    /// Returns the bytes from the start of the data to the element at `index`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for the wrong number of indices, [`Error::IndexOutOfBounds`] for
    /// an index that is too large.
    pub fn element_offset(&self, index: &[u64]) -> Result<u64> {
        if index.len() != self.ndim() {
            return Err(Error::argument(
                "index",
                format!("{} indices for {} dimensions", index.len(), self.ndim()),
            ));
        }
        let mut offset = i128::from(self.offset);
        for ((&at, &count), &stride) in index.iter().zip(&self.shape).zip(&self.strides) {
            if at >= count {
                return Err(index_out_of_bounds(i128::from(at), count));
            }
            offset += i128::from(at) * i128::from(stride);
        }
        u64::try_from(offset).map_err(|_| Error::argument("strides", "they leave the data"))
    }

    fn check_dim(&self, dim: usize) -> Result<()> {
        if dim < self.ndim() {
            Ok(())
        } else {
            Err(Error::argument("dimension", format!("{dim} of {}", self.ndim())))
        }
    }

    /// Returns the offset of an index along `dim`, which I2 keeps inside the data. Without elements
    /// there may be no data, and the offset stays.
    fn offset_at(&self, dim: usize, index: u64) -> u64 {
        if self.is_empty() {
            return self.offset;
        }
        let step = i128::from(self.strides[dim]) * i128::from(index);
        u64::try_from(i128::from(self.offset) + step).unwrap_or(self.offset)
    }
}

/// Returns the bytes that the elements take side by side. As in NumPy, a dimension of zero does not
/// hide an overflow of the others.
///
/// # Errors
/// [`Error::InvalidArgument`] for more than [`MAX_NDIM`] dimensions or a size over `i64::MAX`.
pub fn size_bytes(shape: &[u64], itemsize: u64) -> Result<u64> {
    if shape.len() > MAX_NDIM {
        return Err(Error::argument(
            "shape",
            format!("{} dimensions, at most {MAX_NDIM}", shape.len()),
        ));
    }
    let mut size = itemsize.max(1);
    for &count in shape {
        size = size.checked_mul(count.max(1)).ok_or_else(|| too_large(shape))?;
    }
    if size > i64::MAX as u64 {
        return Err(too_large(shape));
    }
    Ok(if shape.contains(&0) || itemsize == 0 { 0 } else { size })
}

/// Returns the dimensions from the one that varies fastest to the slowest.
fn memory_order(ndim: usize, order: Order) -> Box<dyn Iterator<Item = usize>> {
    match order {
        Order::C => Box::new((0..ndim).rev()),
        Order::F => Box::new(0..ndim),
    }
}

/// Returns the first index and the count of a slice, as Python's `slice.indices` defines them.
fn slice_bounds(
    count: u64,
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
) -> Result<(u64, u64)> {
    if step == 0 {
        return Err(Error::argument("step", "a slice's step cannot be zero"));
    }
    let step = i128::from(step);
    let len = i128::from(count);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp = |at: Option<i64>, default: i128| match at {
        None => default,
        Some(at) if at < 0 => (i128::from(at) + len).clamp(low, high),
        Some(at) => i128::from(at).clamp(low, high),
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    let start = clamp(start, first);
    let stop = clamp(stop, last);
    let distance = (stop - start) * step.signum();
    let count = if distance > 0 { (distance + step.abs() - 1) / step.abs() } else { 0 };
    Ok((start.max(0) as u64, count as u64))
}

fn wrap_index(index: i64, count: u64) -> Result<u64> {
    let wrapped = if index < 0 { i128::from(index) + i128::from(count) } else { i128::from(index) };
    match u64::try_from(wrapped) {
        Ok(at) if at < count => Ok(at),
        _ => Err(index_out_of_bounds(i128::from(index), count)),
    }
}

fn index_out_of_bounds(index: i128, count: u64) -> Error {
    Error::IndexOutOfBounds { index, count }
}

fn too_large(shape: &[u64]) -> Error {
    Error::argument("shape", format!("the size of {shape:?} overflows"))
}

#[cfg(test)]
mod tests;
