//! The array: typed n-dimensional memory that several processes see at once.

mod base;
mod copies;
mod options;
mod create;
mod elements;
mod handles;
pub mod dlpack;
pub(crate) mod reduce;
#[cfg(feature = "ndarray")]
mod views;

use std::ptr::NonNull;
use std::sync::Arc;

use crate::element::Element;
use crate::element::copy::Strided;
use crate::memory::mapping::{Fill, FillFn, PiecesFn};
use crate::memory::operation::Operation;
use crate::memory::segment::{CreationOptions, Segment};
use crate::system::{self, Access, Directory};
use crate::value::descriptor::Descriptor;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order};
use base::Base;
pub(crate) use base::{SlotRef, Slots, UseId};
pub use copies::gather;
pub use create::prepare_pool;
pub(crate) use create::segment_of as create_segment;
pub use handles::{discard, take_ticket};
pub use options::Options;

/// Typed n-dimensional memory that several processes see at once.
///
/// Cloning it or making a view copies nothing: all of them are the same memory, which stays as long
/// as any of them exists in any process.
///
/// ```
/// use shmarray::{Access, Array, DType, Options};
/// let a = Array::create(DType::parse("<i4")?, &[2, 3, 3], &Options::default())?;
/// let b = Array::attach(&a.handle(), Access::ReadOnly)?; // in any process
/// a.set(&[0, 1, 2], 5i32)?;
/// assert_eq!(b.get::<i32>(&[0, 1, 2])?, 5);
/// # Ok::<(), shmarray::Error>(())
/// ```
///
/// # Data races
/// Another process may write an element while this one reads it; that is what shared memory is for.
/// So no safe method makes a `&[T]` or a `&mut [T]`: elements are read and written one at a time,
/// by raw, volatile accesses. A read that races with a write returns some of the bytes of both, and
/// never leaves the array. To hand data over without a race, finish writing before the handle is
/// sent.
#[derive(Clone)]
pub struct Array {
    base: Base,
    dtype: DType,
}

impl Array {
    /// Creates an array of zeros, unless `uninitialized` is set. Its memory is reserved now.
    ///
    /// # Errors
    /// * [`Error::NoSpace`] when shared memory is full, [`Error::FileTooLarge`] beyond the
    ///   process's limit of a file's size;
    /// * [`Error::NameExists`] when an array has the name, [`Error::InvalidName`] when it is none;
    /// * [`Error::InvalidArgument`] for more than [`MAX_NDIM`](crate::MAX_NDIM) dimensions, a size
    ///   that overflows, `persist` without a name, or a mode without 0600;
    /// * [`Error::Os`] when a system call fails, and [`Error::Unsupported`] in a process that a
    ///   signal handler forked, and for `persist` on the portable backend.
    #[allow(unsafe_code)]
    pub fn create(dtype: DType, shape: &[u64], options: &Options) -> Result<Self> {
        let fill = if options.uninitialized { Fill::Nothing } else { Fill::Zeros };
        // SAFETY: `create_filled` needs readable elements only for `Fill::Elements`, and this fill
        // has no elements.
        unsafe { Self::create_filled(dtype, shape, options, &fill) }
    }

    /// # Safety
    /// The elements of `fill` can be read, and have this shape.
    #[allow(unsafe_code)]
    unsafe fn create_filled(
        dtype: DType,
        shape: &[u64],
        options: &Options,
        fill: &Fill<'_>,
    ) -> Result<Self> {
        dtype.check_shared()?;
        let layout = Layout::contiguous(shape, dtype.itemsize(), options.order)?;
        let creation = CreationOptions {
            name: options.check()?,
            persist: options.persist,
            mode: options.mode,
        };
        // SAFETY: the caller promises that the elements of `fill` can be read and have this shape,
        // which is the layout's.
        let segment = unsafe { create::segment(&dtype, &layout, &creation, fill)? };
        Ok(Self::of(segment, dtype, layout))
    }

    /// Creates an array whose bytes `fill` writes, side by side in the order of `options`. No other
    /// process sees it before, and after an error there is no array.
    ///
    /// # Errors
    /// As [`Array::create`], and those of `fill`.
    #[allow(unsafe_code)]
    pub(crate) fn create_by(
        dtype: DType,
        shape: &[u64],
        options: &Options,
        fill: &FillFn<'_>,
    ) -> Result<Self> {
        // SAFETY: `create_filled` needs readable elements only for `Fill::Elements`, and this fill
        // has a function.
        unsafe { Self::create_filled(dtype, shape, options, &Fill::By(fill)) }
    }

    /// Creates an array, in a segment of its own, whose bytes `pieces` gives from the first to the
    /// last, once. Its memory grows with them.
    ///
    /// # Errors
    /// As [`Array::create`], and those of `pieces`.
    #[allow(unsafe_code)]
    pub(crate) fn create_in_pieces(
        dtype: DType,
        shape: &[u64],
        options: &Options,
        pieces: &PiecesFn<'_>,
    ) -> Result<Self> {
        // SAFETY: `create_filled` needs readable elements only for `Fill::Elements`, and this fill
        // has a function.
        unsafe { Self::create_filled(dtype, shape, options, &Fill::Pieces(pieces)) }
    }

    /// Creates an array with a copy of private memory: the elements of `layout`, counted from
    /// `source`.
    ///
    /// `options.order` is the order of the new array. The source may have any strides.
    ///
    /// # Errors
    /// As [`Array::create`].
    ///
    /// ```
    /// use shmarray::{Array, DType, Layout, Options, Order};
    /// let image = [[1u8, 2, 3], [4, 5, 6]];
    /// let layout = Layout::contiguous(&[2, 3], 1, Order::C)?;
    /// let (dtype, options) = (DType::parse("|u1")?, Options::default());
    /// // SAFETY: the six bytes of the layout are those of `image`.
    /// let a = unsafe { Array::share(image.as_ptr().cast(), dtype, &layout, &options)? };
    /// assert_eq!(a.get::<u8>(&[1, 0])?, 4);
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Safety
    /// Every element of `layout`, from `source` on, can be read.
    #[allow(unsafe_code)]
    pub unsafe fn share(
        source: *const u8,
        dtype: DType,
        layout: &Layout,
        options: &Options,
    ) -> Result<Self> {
        let in_order = if options.order == Order::F { layout.transpose() } else { layout.clone() };
        let fill = Fill::Elements(
            Strided { start: source.cast_mut(), layout: &in_order },
            dtype.itemsize(),
        );
        // SAFETY: the caller promises that every element of `layout` can be read, and the new array
        // has the same shape.
        unsafe { Self::create_filled(dtype, &layout.shape, options, &fill) }
    }

    /// Attaches the array of a handle, or of a name. A text that begins with `{` is a handle.
    ///
    /// # Errors
    /// * [`Error::InvalidHandle`] or [`Error::InvalidName`] when the text is neither;
    /// * [`Error::SegmentNotFound`] or [`Error::NameNotFound`] when the array was given back, or is
    ///   of another machine or another SHMARRAY_DIR;
    /// * [`Error::StaleHandle`] when its memory belongs to a later array;
    /// * [`Error::InvalidSegment`] or [`Error::UnknownLayout`] when this version cannot read it;
    /// * [`Error::NotOwner`] when it belongs to another user, who does not share it;
    /// * [`Error::Os`] when a system call fails, and [`Error::Unsupported`] in a process that a
    ///   signal handler forked.
    pub fn attach(handle_or_name: &str, access: Access) -> Result<Self> {
        if Descriptor::is_handle(handle_or_name) {
            Self::attach_descriptor(&Descriptor::parse(handle_or_name)?, access)
        } else {
            Self::attach_name(handle_or_name, access)
        }
    }

    /// Attaches the array of a descriptor.
    ///
    /// # Errors
    /// As [`Array::attach`].
    pub fn attach_descriptor(descriptor: &Descriptor, access: Access) -> Result<Self> {
        let array = Self::attach_with_ticket(descriptor, access)?;
        array.receive(descriptor);
        Ok(array)
    }

    /// Attaches the array of a message, and leaves the message its ticket.
    pub(crate) fn attach_with_ticket(descriptor: &Descriptor, access: Access) -> Result<Self> {
        let operation = Operation::enter_to_attach()?;
        let segment = Segment::attach(operation, descriptor, access)?.refuse_channel()?;
        let fits = descriptor.layout.check(descriptor.dtype.itemsize(), segment.data_bytes());
        fits.map_err(|error| Error::handle("shape, strides, offset", error.to_string()))?;
        let dtype = descriptor.dtype.clone();
        let layout = descriptor.layout.clone();
        Ok(Self::of(segment, dtype, layout))
    }

    /// Attaches the arrays of a message that was sent out of band. All are attached before the
    /// first ticket is given back, so one handle may be there twice.
    ///
    /// # Errors
    /// As for [`Array::attach`]. Then the message still holds what it held.
    pub fn attach_all(descriptors: &[(Descriptor, Access)]) -> Result<Vec<Self>> {
        let attach = |(descriptor, access): &(Descriptor, Access)| {
            Self::attach_with_ticket(descriptor, *access)
        };
        let arrays: Vec<_> = descriptors.iter().map(attach).collect::<Result<_>>()?;
        for (array, (descriptor, _)) in arrays.iter().zip(descriptors) {
            array.receive(descriptor);
        }
        Ok(arrays)
    }

    /// Gives back a ticket of a message that was sent out of band. A message in a pipe gives its
    /// own tickets back.
    fn receive(&self, descriptor: &Descriptor) {
        if let Some(ticket) =
            descriptor.ticket.filter(|ticket| system::family_of(*ticket).is_some())
        {
            self.release_ticket(ticket);
        }
    }

    fn attach_name(name: &str, access: Access) -> Result<Self> {
        let operation = Operation::enter_to_attach()?;
        let segment = Segment::attach_name(operation, &name.parse()?, access)?.refuse_channel()?;
        let (dtype, layout) = segment.described();
        let dtype = dtype.clone();
        let layout = layout.clone();
        Ok(Self::of(segment, dtype, layout))
    }

    /// Returns the array at an address, if that lies in a segment which this process holds. For
    /// languages whose arrays know an address but not a segment.
    ///
    /// `None` when the memory is private. The address is never read.
    #[must_use]
    pub fn over_memory(
        address: usize,
        dtype: DType,
        shape: &[u64],
        strides: &[i64],
    ) -> Option<Self> {
        let _operation = Operation::enter().ok()?;
        let segment = Segment::containing(address)?;
        let offset = (address - segment.data_start().as_ptr() as usize) as u64;
        let layout = Layout { shape: shape.to_vec(), strides: strides.to_vec(), offset };
        layout.check(dtype.itemsize(), segment.data_bytes()).ok()?;
        Some(Self::of(segment, dtype, layout))
    }

    /// Returns a view: the same elements, or others of this array. `strides` and `offset` are in
    /// bytes, and the offset counts from this array's first element.
    ///
    /// ```
    /// # use shmarray::{Array, DType, Options};
    /// let a = Array::create(DType::parse("<i4")?, &[4, 6], &Options::default())?;
    /// a.set(&[1, 2], 7i32)?;
    /// let second_row = a.view(&[6], &[4], 24)?;
    /// assert_eq!(second_row.get::<i32>(&[2])?, 7);
    /// assert!(a.view(&[25], &[4], 0).is_err()); // it has 24 elements
    /// # Ok::<(), shmarray::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] when an element would lie outside the bytes that this array spans;
    /// [`Error::InvalidArgument`] unless there is one stride for each of at most
    /// [`MAX_NDIM`](crate::MAX_NDIM) dimensions.
    pub fn view(&self, shape: &[u64], strides: &[i64], offset: i64) -> Result<Self> {
        let start = i128::from(self.layout().offset) + i128::from(offset);
        let (low, high) = self.layout().span(self.dtype.itemsize())?;
        let outside = |low, high| Error::OutOfBounds {
            what: "the view",
            low,
            high,
            size_bytes: self.segment().data_bytes(),
        };
        let start = u64::try_from(start).map_err(|_| outside(start, start))?;
        let layout = Layout { shape: shape.to_vec(), strides: strides.to_vec(), offset: start };
        layout.check(self.dtype.itemsize(), self.segment().data_bytes())?;
        match layout.span(self.dtype.itemsize())? {
            (view_low, view_high) if view_low >= low && view_high <= high => {
                Ok(self.with_layout(layout))
            }
            (view_low, view_high) => Err(outside(view_low, view_high)),
        }
    }

    /// Returns a view of a slice of one dimension, as [`Layout::slice`] does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a dimension that does not exist or a step of zero.
    pub fn slice(
        &self,
        dim: usize,
        start: Option<i64>,
        stop: Option<i64>,
        step: i64,
    ) -> Result<Self> {
        Ok(self.with_layout(self.layout().slice(dim, start, stop, step)?))
    }

    /// Returns a view of the elements at one index of a dimension, as [`Layout::select`] does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a dimension that does not exist, [`Error::IndexOutOfBounds`]
    /// for such an index.
    pub fn select(&self, dim: usize, index: i64) -> Result<Self> {
        Ok(self.with_layout(self.layout().select(dim, index)?))
    }

    /// Returns a view with the dimensions in reverse order.
    #[must_use]
    pub fn transpose(&self) -> Self {
        self.with_layout(self.layout().transpose())
    }

    /// Returns a view whose dimension `i` is dimension `axes[i]` of this array.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] unless `axes` names each dimension once.
    pub fn permute(&self, axes: &[usize]) -> Result<Self> {
        Ok(self.with_layout(self.layout().permute(axes)?))
    }

    /// Returns a view of the same elements in the same C order in another shape, as
    /// [`Layout::reshape`] does.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the shape has another number of elements, or would need a
    /// copy.
    pub fn reshape(&self, shape: &[u64]) -> Result<Self> {
        Ok(self.with_layout(self.layout().reshape(self.dtype.itemsize(), shape)?))
    }

    /// Returns a view of all data of the segment as bytes: one dimension of dtype `|u1`. For copies
    /// of whole segments, and for elements of dtypes that Rust has no type for.
    #[must_use]
    pub fn whole(&self) -> Self {
        let (start, bytes) = if self.is_in_slot() {
            self.segment().slot_at(self.layout().offset)
        } else {
            (0, self.segment().data_bytes())
        };
        let layout = Layout { shape: vec![bytes], strides: vec![1], offset: start };
        Self { base: self.base.with_layout(layout), dtype: u8::dtype() }
    }

    /// Returns an array over memory of a segment. In a slot of a channel it does not keep the slot.
    pub(crate) fn of(segment: Arc<Segment>, dtype: DType, layout: Layout) -> Self {
        Self { base: Base::Segment(segment, Arc::new(layout)), dtype }
    }

    /// Returns the array that is the message in a slot of a channel. `layout` is that of this
    /// message, if not all have one shape.
    #[inline]
    pub(crate) fn in_slot(slot: SlotRef, layout: Option<Layout>) -> Self {
        let base = Base::Slot(slot, layout.map(Arc::new));
        let dtype = base.segment().described().0.clone();
        Self { base, dtype }
    }

    /// Returns what keeps the slot of a channel that the array lies in.
    pub(crate) fn slot(&self) -> Option<&SlotRef> {
        self.base.slot()
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        self.base.segment()
    }

    /// Whether the array lies in a slot of a channel. No handle leads to it.
    #[must_use]
    pub fn is_in_slot(&self) -> bool {
        self.segment().is_channel()
    }

    /// Returns the same array, which keeps its segment alone and not the slot of a channel that it
    /// lies in, for bindings that say themselves how long it may be used. The memory stays mapped,
    /// and the slot may have another message.
    #[must_use]
    pub fn without_slot(&self) -> Self {
        let segment = Arc::clone(self.segment());
        Self::of(segment, self.dtype.clone(), self.layout().clone())
    }

    fn with_layout(&self, layout: Layout) -> Self {
        debug_assert!(
            layout.check(self.dtype.itemsize(), self.segment().data_bytes()).is_ok(),
            "I1 to I3 of `shape`: a view has elements of its array only"
        );
        let mut layout = layout;
        if self.is_in_slot() && layout.is_empty() {
            layout.offset = self.layout().offset; // at the end of a slot it would lie in the next
        }
        Self { base: self.base.with_layout(layout), dtype: self.dtype.clone() }
    }

    pub(crate) fn directory(&self) -> &Directory {
        self.segment().directory()
    }

    /// Returns the dtype.
    #[must_use]
    pub fn dtype(&self) -> &DType {
        &self.dtype
    }

    /// Returns the number of elements along each dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.layout().shape
    }

    /// Returns the bytes between elements along each dimension.
    #[must_use]
    pub fn strides(&self) -> &[i64] {
        &self.layout().strides
    }

    /// Returns the shape, the strides, and the offset in the segment's data.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        self.base.layout()
    }

    /// Whether no other array of this process shares its memory. If so, dropping it ends this
    /// process's hold of the memory. For bindings that tell a garbage collector of memory.
    #[must_use]
    pub fn is_last_in_process(&self) -> bool {
        !self.is_in_slot() && Arc::strong_count(self.segment()) == 1
    }

    /// Whether the array's pages are mapped read-only, so that a store faults.
    #[must_use]
    pub fn is_readonly(&self) -> bool {
        self.segment().access() == Access::ReadOnly
    }

    /// Whether its memory is private to this process: it was attached [`Access::Owned`] or
    /// [`Access::CopyOnWrite`]. Such an array is copied to be sent, and no handle leads to it.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.segment().access().is_private()
    }

    /// Whether its elements lie side by side in that order.
    #[must_use]
    pub fn is_contiguous(&self, order: Order) -> bool {
        self.layout().is_contiguous(self.dtype.itemsize(), order)
    }

    /// Whether the address of every element is a multiple of `alignment`, which is not 0. A new
    /// array begins at a multiple of 64; a view may not.
    #[must_use]
    pub fn is_aligned(&self, alignment: u64) -> bool {
        let layout = self.layout();
        let dims = layout.shape.iter().zip(&layout.strides);
        let mut strides = dims.filter(|(count, _)| **count > 1).map(|(_, stride)| stride);
        let starts_aligned = (self.as_ptr() as u64).is_multiple_of(alignment);
        let is_whole = |stride: &i64| stride.unsigned_abs().is_multiple_of(alignment);
        layout.is_empty() || starts_aligned && strides.all(is_whole)
    }

    /// Returns the address of the first element, the one whose indices are all zero. It is valid
    /// while any clone of this array lives.
    ///
    /// In a read-only array a store through it faults.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.segment().data_start().as_ptr().wrapping_add(self.layout().offset as usize)
    }

    /// Returns the data of the segment that this array lies in, and its size in bytes. For
    /// languages whose views keep a base.
    #[must_use]
    pub fn segment_data(&self) -> (NonNull<u8>, u64) {
        (self.segment().data_start(), self.segment().data_bytes())
    }

    pub(crate) fn strided(&self) -> Strided<'_> {
        Strided { start: self.segment().data_start().as_ptr(), layout: self.layout() }
    }
}

impl std::fmt::Debug for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Array({})", self.handle())
    }
}
