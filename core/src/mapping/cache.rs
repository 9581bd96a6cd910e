//! The cache of mappings that no array of this process uses: mappings of slabs, in which other
//! processes may send more arrays.
//!
//! A cached mapping is no lease. Its segment may end, and the memory go, at any time; an attach
//! through it takes an entry and looks at the state, as through a new mapping. A cached mapping
//! keeps the kernel's lock on the file, so a slab that is LOCK_ONLY is not cached. It pins address
//! space and nothing else, because the process that ends a slab releases its pages first.
//!
//! A mapping that copies on write has one user at a time. Before the next user gets it, the pages
//! that the last one wrote are dropped, so that it shows the shared memory again.

use std::sync::Arc;

use super::mapped::Mapped;
use crate::name::SegmentId;

/// The most mappings of each kind: a message with a hundred arrays needs as many, with a hundred to
/// spare.
const MOST: usize = 256;

/// The cached mappings, the most recently used last.
#[derive(Default)]
pub(super) struct Cache {
    shared: Vec<Arc<Mapped>>,
    private: Vec<Arc<Mapped>>,
}

impl Cache {
    /// Adds a new mapping. Returns the one that it evicts, to be dropped when nothing is locked.
    pub(super) fn insert(&mut self, mapped: &Arc<Mapped>) -> Option<Arc<Mapped>> {
        self.shared.push(Arc::clone(mapped));
        (self.shared.len() > MOST).then(|| self.shared.remove(0))
    }

    pub(super) fn use_again(&mut self, mapped: &Arc<Mapped>) {
        if let Some(at) = self.shared.iter().rposition(|one| Arc::ptr_eq(one, mapped)) {
            self.shared[at..].rotate_left(1);
        }
    }

    /// Adds a mapping that is no longer used and whose written pages were dropped. Returns the one
    /// that it evicts, to be dropped when nothing is locked.
    pub(super) fn insert_private(&mut self, mapped: Arc<Mapped>) -> Option<Arc<Mapped>> {
        self.private.push(mapped);
        (self.private.len() > MOST).then(|| self.private.remove(0))
    }

    pub(super) fn take_private(&mut self, id: &SegmentId) -> Option<Arc<Mapped>> {
        let at = self.private.iter().rposition(|one| one.header.id == *id)?;
        Some(self.private.remove(at))
    }

    /// Removes the mappings of a file that is LOCK_ONLY now. Returns them, to be dropped.
    pub(super) fn evict(&mut self, id: &SegmentId) -> Vec<Arc<Mapped>> {
        self.take_out(|one| one.header.id == *id)
    }

    /// Removes the mappings that no array uses: all of them, or those of files that are LOCK_ONLY.
    /// Returns them, to be dropped.
    pub(super) fn empty(&mut self, is_all: bool) -> Vec<Arc<Mapped>> {
        self.take_out(|one| is_all || one.leases().is_lock_only())
    }

    fn take_out(&mut self, is_evicted: impl Fn(&Mapped) -> bool) -> Vec<Arc<Mapped>> {
        let mut gone = Vec::new();
        for kind in [&mut self.shared, &mut self.private] {
            let (out, stay) = std::mem::take(kind).into_iter().partition(|one| is_evicted(one));
            *kind = stay;
            gone.extend::<Vec<_>>(out);
        }
        gone
    }
}
