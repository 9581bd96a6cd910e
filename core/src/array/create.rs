//! Creating an array: in a free cell, in a new slab, or in a segment of its own.

use std::sync::Arc;

use crate::header::format::Header;
use crate::memory::mapping::Fill;
use crate::memory::operation::{Awaited, Operation};
use crate::memory::segment::{CreationOptions, Segment, reserve};
use crate::memory::slab::{CellRequest, Reuse};
use crate::memory::sweep::{self, Occasion};
use crate::system::{self, Directory};
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
    let must_check = sweep::check_before_reuse(&directory);
    if !options.needs_own_segment()
        && let Some(segment) = in_cell(&operation, &directory, dtype, layout, fill, must_check)?
    {
        return Ok(segment);
    }
    let id = SegmentId::random()?;
    let page_bytes = directory.page_bytes();
    let header = Header::new(id, options.name.clone(), dtype.clone(), layout.clone(), page_bytes)?;
    // SAFETY: the caller promises that the elements of `fill` can be read and are as many as the
    // layout's, which is the header's.
    unsafe { of_its_own(&operation, &directory, header, options, fill) }
}

/// Returns a new segment with this header and without contents, held by this process.
#[cfg(linux_backend)]
#[allow(unsafe_code)]
pub(crate) fn segment_of(header: Header, options: &CreationOptions) -> Result<Arc<Segment>> {
    let operation = Operation::enter_to_create()?;
    let directory = Directory::current();
    system::is_usable(&directory)?;
    // SAFETY: `of_its_own` needs readable elements only for `Fill::Elements`, and this fill has no
    // elements.
    unsafe { of_its_own(&operation, &directory, header, options, &Fill::Zeros) }
}

/// # Safety
/// The elements of `fill` can be read, and are as many as the header's layout has.
#[allow(unsafe_code)]
unsafe fn of_its_own(
    operation: &Awaited,
    directory: &Directory,
    header: Header,
    options: &CreationOptions,
    fill: &Fill<'_>,
) -> Result<Arc<Segment>> {
    before_growing(directory, header.segment_bytes());
    let mut file = reserve(directory, &header, options);
    // A sweep makes room before shared memory is reported as full.
    if matches!(file, Err(Error::NoSpace { .. })) && sweep::sweep_for_room(directory)? {
        file = reserve(directory, &header, options);
    }
    // SAFETY: the caller promises that the elements of `fill` can be read and are as many as those
    // of the header's layout.
    unsafe { Segment::create(operation, file?, header, options, fill) }
}

/// Makes an array in a cell. `None` when it needs a segment of its own.
fn in_cell(
    operation: &Awaited,
    directory: &Directory,
    dtype: &DType,
    layout: &Layout,
    fill: &Fill<'_>,
    must_check: bool,
) -> Result<Option<Arc<Segment>>> {
    let Some(request) = CellRequest::new(directory, dtype, layout, fill)? else { return Ok(None) };
    match request.reuse(must_check)? {
        Reuse::Made(array) => return Ok(Some(Segment::in_cell(operation, array))),
        Reuse::Impossible => return Ok(None),
        Reuse::NoneFree => {}
    }
    let Some(growth) = request.grow()? else { return Ok(None) };
    before_growing(directory, request.cell_bytes());
    Ok(request.make(growth)?.map(|array| Segment::in_cell(operation, array)))
}

/// Reserves memory in the pool for a later array of so many bytes and maps its pages, unless a cell
/// of that size is free there. A process does it while it waits or computes. The array is then made
/// and filled in the time that a copy takes. Returns whether a cell is free now: `false` if the
/// pool has no room, or such an array never lies in a cell.
///
/// # Errors
/// Those of making an array, but [`Error::NoSpace`].
pub fn prepare_pool(bytes: u64) -> Result<bool> {
    let operation = Operation::enter()?.awaited();
    let directory = Directory::current();
    let byte = DType::parse("|u1")?;
    let layout = Layout::contiguous(&[bytes], 1, Order::C)?;
    let Some(request) = CellRequest::new(&directory, &byte, &layout, &Fill::Nothing)? else {
        return Ok(false);
    };
    let made = match request.reuse(false)? {
        Reuse::Made(array) => Some(array),
        Reuse::Impossible => None,
        Reuse::NoneFree => match request.grow()?.filter(CellRequest::is_for_pool) {
            Some(growth) => {
                before_growing(&directory, request.cell_bytes());
                request.make(growth)?
            }
            None => None,
        },
    };
    let segment = made.map(|array| Segment::in_cell(&operation, array));
    segment.iter().for_each(|segment| segment.prepare_stores(bytes));
    Ok(segment.is_some()) // it is dropped, which frees the cell
}

fn before_growing(directory: &Directory, bytes: u64) {
    sweep::before_file(directory, bytes);
    sweep::check(directory, Occasion::Growing);
}
