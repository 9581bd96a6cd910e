//! The sizes of cells, and the number of cells in the next slab of a size.

use crate::header::format::{LARGE_HEAD_BYTES, PAGE_BYTES, SMALL_HEAD_BYTES, SlabLayout};
use crate::system::Directory;

/// The sizes of small cells, in pages. An array of a power of two of bytes fits one of them with
/// little left over.
const SMALL_PAGES: [u64; 6] = [1, 2, 3, 5, 9, 17];
/// The number of large cell sizes between one power of two and the next: at most an eighth is
/// unused.
const STEPS: u64 = 8;

/// The number of cells in a process's first slab of small cells, and in its largest. Each slab that
/// the process has of a size doubles the next.
const FIRST_CELLS: u32 = 4;
const MOST_CELLS: u32 = 256;
/// The most data of one slab of small cells, in bytes.
const MOST_BYTES: u64 = 2 << 20;

/// Returns the size of the cell for an array. It is at least one byte larger than the array, so
/// that no data starts where another's ends. `None` when no memory is that large.
pub(super) fn cell_bytes_for(data_bytes: u64, page_bytes: u64) -> Option<u64> {
    let full = data_bytes / page_bytes; // one less than the array needs
    let small = SMALL_PAGES.into_iter().find(|small| full < *small);
    small
        .unwrap_or_else(|| full.next_multiple_of((1 << full.ilog2()) / STEPS) + 1)
        .checked_mul(page_bytes)
}

/// Whether cells of that size share a slab with others.
pub(super) fn is_small(cell_bytes: u64, page_bytes: u64) -> bool {
    cell_bytes <= SMALL_PAGES[SMALL_PAGES.len() - 1] * page_bytes
}

/// Returns the size of an array that fills its cell, has a slab alone, and is at least so large.
/// `None` when no memory is that large.
pub(crate) fn bytes_alone(data_bytes: u64) -> Option<u64> {
    let least = SMALL_PAGES[SMALL_PAGES.len() - 1] * PAGE_BYTES;
    Some(cell_bytes_for(data_bytes.max(least), PAGE_BYTES)? - 1)
}

/// Returns the layout of a process's next slab for cells of that size, after `slabs` of them. A
/// large cell has a slab for itself.
pub(super) fn next_layout(cell_bytes: u64, page_bytes: u64, slabs: usize) -> SlabLayout {
    if !is_small(cell_bytes, page_bytes) {
        return SlabLayout { cell_bytes, cells: 1, head_bytes: LARGE_HEAD_BYTES };
    }
    let most = (MOST_BYTES / cell_bytes).clamp(1, u64::from(MOST_CELLS)) as u32;
    let cells = (FIRST_CELLS << slabs.min(6)).min(most);
    SlabLayout { cell_bytes, cells, head_bytes: SMALL_HEAD_BYTES }
}

/// Returns the size of a slab's file.
pub(super) fn slab_bytes(directory: &Directory, layout: SlabLayout) -> u64 {
    let header_bytes = (PAGE_BYTES + layout.heads_bytes()).next_multiple_of(directory.page_bytes());
    header_bytes + layout.cell_bytes * u64::from(layout.cells)
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
            assert!(cell_bytes > data_bytes && cell_bytes.is_multiple_of(page));
            assert!(
                is_small(cell_bytes, page) || cell_bytes <= (data_bytes + page) / 8 * 9 + page,
                "{data_bytes}"
            );
        }
        assert_eq!(cell_bytes_for(u64::MAX, page), None);
    }
}
