//! Creating an array: in a free cell, in a new slab, or in a segment of its own.

use std::sync::Arc;

use super::Array;
use crate::element::copy::Strided;
use crate::header::format::Header;
use crate::memory::mapping::Fill;
use crate::memory::operation::{Awaited, Operation};
use crate::memory::segment::{CreationOptions, Segment, reserve};
use crate::memory::slab::{CellRequest, MakeRoom};
use crate::memory::sweep::Room;
use crate::system::{self, Access, Directory};
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::name::SegmentId;
use crate::value::shape::{Layout, Order};

/// Returns memory for a new array, held by this process. No other process sees it before it is
/// complete.
///
/// # Safety
/// The elements of `fill` can be read, and are as many as the layout's.
#[allow(unsafe_code)]
pub(super) unsafe fn segment(
    dtype: &DType,
    layout: &Layout,
    options: &CreationOptions,
    fill: &Fill<'_>,
) -> Result<Arc<Segment>> {
    let operation = Operation::enter_to_create()?;
    let directory = Directory::current();
    system::is_usable(&directory)?;
    let room = Room::check(&directory);
    if !options.needs_own_segment()
        && !fill.is_in_pieces()
        && let Some(request) = CellRequest::new(&directory, dtype, layout, fill)?
        && let Some(array) = request.make(&room)?
    {
        return Ok(Segment::in_cell(&operation, array));
    }
    let id = SegmentId::random()?;
    let page_bytes = directory.page_bytes();
    let header = Header::new(id, options.name.clone(), dtype.clone(), layout.clone(), page_bytes)?;
    // SAFETY: the caller promises that the elements of `fill` can be read and are as many as the
    // layout's, which is the header's.
    unsafe { of_its_own(&operation, &directory, &room, header, options, fill) }
}

/// Returns a new segment with this header and without contents, held by this process.
#[allow(unsafe_code)]
pub(crate) fn segment_of(header: Header, options: &CreationOptions) -> Result<Arc<Segment>> {
    let operation = Operation::enter_to_create()?;
    let directory = Directory::current();
    system::is_usable(&directory)?;
    let room = Room::unchecked(&directory);
    // SAFETY: `of_its_own` needs readable elements only for `Fill::Elements`, and this fill has no
    // elements.
    unsafe { of_its_own(&operation, &directory, &room, header, options, &Fill::Zeros) }
}

/// # Safety
/// The elements of `fill` can be read, and are as many as the header's layout has.
#[allow(unsafe_code)]
unsafe fn of_its_own(
    operation: &Awaited,
    directory: &Directory,
    room: &Room<'_>,
    header: Header,
    options: &CreationOptions,
    fill: &Fill<'_>,
) -> Result<Arc<Segment>> {
    room.before_growing(header.segment_bytes());
    let mut file = reserve(directory, &header, options, fill);
    // A sweep makes room before shared memory is reported as full.
    if matches!(file, Err(Error::NoSpace { .. })) && room.sweep()? {
        file = reserve(directory, &header, options, fill);
    }
    // SAFETY: the caller promises that the elements of `fill` can be read and are as many as those
    // of the header's layout.
    unsafe { Segment::create(operation, file?, header, options, fill) }
}

/// Reserves memory in the pool for a later array of so many bytes and maps its pages, unless a cell
/// of that size is free there. A process does it while it waits or computes. The array is then made
/// and filled in the time that a copy takes. Returns whether a cell is free now: `false` if the
/// pool has no room, or such an array never lies in a cell.
///
/// # Errors
/// Those of making an array, but [`Error::NoSpace`].
pub fn prepare_pool(bytes: u64) -> Result<bool> {
    let Some(array) = in_pool(bytes, &Fill::Nothing, u64::MAX)? else { return Ok(false) };
    array.segment().prepare_stores(bytes);
    Ok(true) // the array is dropped, which frees the cell
}

/// Returns a new array of bytes in a cell of the pool, or `None` if the pool has no room.
fn in_pool(bytes: u64, fill: &Fill<'_>, most_spare: u64) -> Result<Option<Array>> {
    let operation = Operation::enter()?.awaited();
    let directory = Directory::current();
    let byte = DType::parse("|u1")?;
    let layout = Layout::contiguous(&[bytes], 1, Order::C)?;
    let Some(request) = CellRequest::new(&directory, &byte, &layout, fill)? else {
        return Ok(None);
    };
    let made = request.make_in_pool(&Room::unchecked(&directory), most_spare)?;
    let of = |array| Array::of(Segment::in_cell(&operation, array), byte, layout);
    Ok(made.map(of))
}

impl Array {
    /// Returns a new array of bytes in a cell of the pool, which this process owns. `None` if the
    /// pool has no room. If the pool grows for it, it keeps at most so many bytes without an array.
    pub(crate) fn owned_in_pool(
        bytes: u64,
        is_zero: bool,
        most_spare: u64,
    ) -> Result<Option<Self>> {
        let fill = if is_zero { Fill::Zeros } else { Fill::Nothing };
        let Some(made) = in_pool(bytes, &fill, most_spare)? else { return Ok(None) };
        let owned = Self::attach_descriptor(&made.descriptor(), Access::Owned)?;
        owned.segment().prepare_stores(bytes);
        Ok(Some(owned))
    }

    /// Whether its memory is private to this process, and still the cell's.
    pub(crate) fn is_owned(&self) -> bool {
        self.segment().is_owned()
    }

    /// Returns a copy of bytes in a segment of its own, whose memory is free when nobody holds it.
    ///
    /// # Errors
    /// As [`Array::create`].
    #[allow(unsafe_code)]
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self> {
        let operation = Operation::enter_to_create()?;
        let directory = Directory::current();
        system::is_usable(&directory)?;
        let room = Room::unchecked(&directory);
        let (id, page_bytes) = (SegmentId::random()?, directory.page_bytes());
        let byte = DType::parse("|u1")?;
        let layout = Layout::contiguous(&[bytes.len() as u64], 1, Order::C)?;
        let header = Header::new(id, None, byte.clone(), layout.clone(), page_bytes)?;
        let options = CreationOptions { mode: 0o600, ..CreationOptions::default() };
        let elements = Strided { start: bytes.as_ptr().cast_mut(), layout: &layout };
        let fill = Fill::Elements(elements, 1);
        // SAFETY: the elements are `bytes`, and as many as the layout, which is the header's, has.
        let segment =
            unsafe { of_its_own(&operation, &directory, &room, header, &options, &fill)? };
        Ok(Self::of(segment, byte, layout))
    }

    /// Returns a shared copy of bytes.
    ///
    /// # Errors
    /// As [`Array::create`].
    ///
    /// # Safety
    /// So many bytes can be read there.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn share_bytes(source: *const u8, bytes: usize) -> Result<Self> {
        let layout = Layout::contiguous(&[bytes as u64], 1, Order::C)?;
        let options = super::Options::default();
        // SAFETY: the caller lets all bytes of the layout be read.
        unsafe { Self::share(source, DType::parse("|u1")?, &layout, &options) }
    }
}
