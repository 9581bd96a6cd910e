//! Mappings that nobody here uses and that somebody will: of segments of cells, whose arrays come
//! again.
//!
//! A cached mapping is no lease: what it maps may end, and its memory go, at any time; who attaches
//! takes an entry and looks, as through a new mapping. It keeps the kernel's lock on the file, and
//! so nothing that is held by lock is cached. It pins address space and nothing else: who ends a
//! segment of cells frees its pages first.
//!
//! A mapping that copies on write is one holder's at a time. Before the next has it, the pages that
//! the last one wrote are given back, so that it shows what is shared.

use std::sync::Arc;

use super::mapped::Mapped;
use crate::name::SegmentId;

/// The most mappings of each kind: what a hundred arrays in one message need, and as many again.
const MOST: usize = 256;

/// Those used last are last.
#[derive(Default)]
pub(super) struct Cache {
    shared: Vec<Arc<Mapped>>,
    private: Vec<Arc<Mapped>>,
}

impl Cache {
    /// It was mapped. Returns one to drop when nothing is locked.
    pub(super) fn keep(&mut self, mapped: &Arc<Mapped>) -> Option<Arc<Mapped>> {
        self.shared.push(Arc::clone(mapped));
        (self.shared.len() > MOST).then(|| self.shared.remove(0))
    }

    pub(super) fn use_again(&mut self, mapped: &Arc<Mapped>) {
        if let Some(at) = self.shared.iter().rposition(|one| Arc::ptr_eq(one, mapped)) {
            self.shared[at..].rotate_left(1);
        }
    }

    /// No longer in use, and as if never written to. Returns one to drop.
    pub(super) fn keep_private(&mut self, mapped: Arc<Mapped>) -> Option<Arc<Mapped>> {
        self.private.push(mapped);
        (self.private.len() > MOST).then(|| self.private.remove(0))
    }

    pub(super) fn take_private(&mut self, id: &SegmentId) -> Option<Arc<Mapped>> {
        let at = self.private.iter().rposition(|one| one.header.id == *id)?;
        Some(self.private.remove(at))
    }

    /// What is held by lock now. Returns it to be dropped.
    pub(super) fn forget(&mut self, id: &SegmentId) -> Vec<Arc<Mapped>> {
        self.take_out(|one| one.header.id == *id)
    }

    /// Those that nobody uses: all, or of what is held by lock. Returns them to be dropped.
    pub(super) fn empty(&mut self, is_all: bool) -> Vec<Arc<Mapped>> {
        self.take_out(|one| is_all || one.leases().is_lock_only())
    }

    fn take_out(&mut self, goes: impl Fn(&Mapped) -> bool) -> Vec<Arc<Mapped>> {
        let mut gone = Vec::new();
        for kind in [&mut self.shared, &mut self.private] {
            let (out, stay) = std::mem::take(kind).into_iter().partition(|one| goes(one));
            *kind = stay;
            gone.extend::<Vec<_>>(out);
        }
        gone
    }
}
