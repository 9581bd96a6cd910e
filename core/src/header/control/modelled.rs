//! Control words for loom: loom's atomics in place of mapped bytes, so that `lease` runs as it is
//! shipped.

use std::ptr::NonNull;

use super::word::{ControlWord, Entry};
use crate::header::format::SlabLayout;

/// The control words and the entries of a header or of a cell's head.
struct ModelPage {
    words: [ControlWord; 6],
    entries: Vec<Entry>,
    cells: Vec<ControlWords>,
}

/// The control words of one page. The page is never freed: it is the shared memory of a model.
#[derive(Clone, Copy)]
pub(crate) struct ControlWords(&'static ModelPage);

impl ControlWords {
    /// Makes a page with so many entries and cells. Each cell has as many entries.
    pub(crate) fn modelled(entries: usize, cells: usize) -> Self {
        let entry = |_| Entry { owner: ControlWord::zero(), owner_info: ControlWord::zero() };
        let words = [(); 6].map(|()| ControlWord::zero());
        let cells = (0..cells).map(|_| Self::modelled(entries, 0)).collect();
        Self(Box::leak(Box::new(ModelPage {
            words,
            entries: (0..entries).map(entry).collect(),
            cells,
        })))
    }

    /// # Safety
    /// None: this body touches no mapped memory.
    #[allow(unsafe_code)] // it has the signature of the mapped body
    pub(crate) unsafe fn new(
        _header: NonNull<u8>,
        _entries: usize,
        _layout: Option<SlabLayout>,
    ) -> Self {
        unreachable!("loom's atomics do not lie in mapped memory")
    }

    pub(crate) fn cell(&self, cell: u32) -> Option<Self> {
        self.0.cells.get(cell as usize).copied()
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = Self> + '_ {
        self.0.cells.iter().copied()
    }

    pub(super) fn word(&self, index: usize) -> &ControlWord {
        &self.0.words[index]
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0.entries
    }
}
