//! How much memory warm segments may have, and the sizes that their cells come in.
//!
//! A process keeps what it made and nobody uses, to use it again: its pages are there, its mapping
//! too, here and in processes that had it. What it keeps, in use or free, is never more than the
//! limit, so that an idle process does not keep more either: what is beyond it is made for one
//! array and goes with it. Nor do all processes' pools together take the last quarter of the file
//! system: a process that makes something when less is free does not keep it.

use crate::error::{Error, Result};
use crate::sys::Directory;

const VARIABLE: &str = "SHMARRAY_POOL_BYTES";
/// Without the variable: this part of the file system.
const DEFAULT_PART: u64 = 4;

/// Small arrays' cells, in pages: an array of a power of two of bytes fits one, with little left
/// over.
const SMALL_PAGES: [u64; 6] = [1, 2, 3, 5, 9, 17];
/// Sizes of larger ones between a power of two and the next: at most an eighth is for nothing.
const STEPS: u64 = 8;

/// No pool grows into this part of a file system: together they leave it to others.
const FREE_PART: u64 = 4;

/// Bytes that this process may keep in a directory when it makes so many more; 0 turns the pool
/// off.
pub(super) fn limit(directory: &Directory, wanted: u64) -> Result<u64> {
    let limit = own_limit(directory)?;
    Ok(if limit > 0 && find_room(directory, wanted).is_ok() { limit } else { 0 })
}

/// Whether a pool may grow by so many bytes.
///
/// # Errors
/// [`Error::NoSpace`] when it may not: the memory is there, but not to be kept.
pub(super) fn find_room(directory: &Directory, wanted: u64) -> Result<()> {
    let (free_bytes, total_bytes) = (directory.free_bytes()?, directory.total_bytes()?);
    if free_bytes.saturating_sub(wanted) >= total_bytes / FREE_PART {
        return Ok(());
    }
    Err(Error::NoSpace { asked_bytes: wanted, free_bytes, directory: directory.path().to_owned() })
}

fn own_limit(directory: &Directory) -> Result<u64> {
    match std::env::var_os(VARIABLE).filter(|text| !text.is_empty()) {
        None => Ok(directory.total_bytes()? / DEFAULT_PART),
        Some(text) => {
            let bytes = text.to_str().and_then(|text| text.trim().parse().ok());
            bytes
                .ok_or_else(|| Error::argument(VARIABLE, format!("{text:?} is no number of bytes")))
        }
    }
}

/// The size of the cell for an array: one byte larger at the least, so that no data starts where
/// another's ends. `None` when no memory is so large.
pub(super) fn cell_bytes_for(data_bytes: u64, page_bytes: u64) -> Option<u64> {
    let full = data_bytes / page_bytes; // one less than it needs
    let small = SMALL_PAGES.into_iter().find(|small| full < *small);
    small
        .unwrap_or_else(|| full.next_multiple_of((1 << full.ilog2()) / STEPS) + 1)
        .checked_mul(page_bytes)
}

/// Whether cells of that size share a segment with others.
pub(super) fn is_small(cell_bytes: u64, page_bytes: u64) -> bool {
    cell_bytes <= SMALL_PAGES[SMALL_PAGES.len() - 1] * page_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_larger_than_its_array_by_an_eighth_at_the_most() {
        let page = 4096;
        let step = if cfg!(miri) { 100 } else { 1 }; // Miri is slow
        for data_bytes in (0..4000).step_by(step).map(|n| n * n * 997) {
            let cell_bytes = cell_bytes_for(data_bytes, page).unwrap();
            assert!(cell_bytes > data_bytes && cell_bytes % page == 0);
            assert!(
                is_small(cell_bytes, page) || cell_bytes <= (data_bytes + page) / 8 * 9 + page,
                "{data_bytes}"
            );
        }
        assert_eq!(cell_bytes_for(u64::MAX, page), None);
    }
}
