//! The mapped files of this process, found by id, and the cache of those that no array uses.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::cache::Cache;
use super::mapped::Mapped;
use crate::name::SegmentId;
use crate::sys::{Access, Mutex};

/// Entries whose mapping is gone are removed when there are as many as this, and then whenever
/// half of all entries may be such.
const LEAST_PRUNED: usize = 64;

/// Files that hold several arrays: a further array of the file is found here.
#[derive(Default)]
pub(crate) struct Mappings {
    by_id: FxHashMap<(SegmentId, Access), Weak<Mapped>>,
    /// The number of entries that were left when it was pruned last.
    left: usize,
    cache: Cache,
}

/// Locked by a fork: after the free lists, and never while another lock of this library is taken.
pub(crate) static MAPPINGS: Mutex<Option<Mappings>> = Mutex::new(None);

fn with<T>(change: impl FnOnce(&mut Mappings) -> T) -> T {
    change(MAPPINGS.lock().get_or_insert_default())
}

/// The mapping of that file, if this process has one: a shared one, or an unused one that copies
/// on write.
pub(crate) fn find(id: &SegmentId, access: Access) -> Option<Arc<Mapped>> {
    with(|mappings| match access {
        Access::CopyOnWrite => mappings.cache.take_private(id),
        _ => {
            let mapped = mappings.by_id.get(&(*id, access))?.upgrade()?;
            mappings.cache.use_again(&mapped);
            Some(mapped)
        }
    })
}

/// Lets later attaches of the same file find this mapping. One that copies on write has one user.
pub(crate) fn insert(mapped: &Arc<Mapped>) {
    let key = (mapped.header.id, mapped.access);
    if mapped.access != Access::CopyOnWrite {
        with(|mappings| {
            mappings.by_id.insert(key, Arc::downgrade(mapped));
            mappings.prune();
        });
    }
}

impl Mappings {
    fn prune(&mut self) {
        if self.by_id.len() >= LEAST_PRUNED + 2 * self.left {
            self.by_id.retain(|_, entry| entry.strong_count() > 0);
            self.left = self.by_id.len();
        }
    }
}

/// Keeps a new mapping after its arrays have gone, if further arrays may come in the same file.
pub(crate) fn keep_if_reusable(mapped: &Arc<Mapped>) {
    let is_reusable = mapped.header.slab_layout.is_some()
        && !mapped.leases().is_lock_only()
        && mapped.access != Access::CopyOnWrite;
    if is_reusable {
        drop(with(|mappings| mappings.cache.keep(mapped)));
    }
}

/// Keeps a mapping that copies on write and whose written pages were dropped.
pub(crate) fn cache_private(mapped: Arc<Mapped>) {
    drop(with(|mappings| mappings.cache.keep_private(mapped)));
}

/// Evicts the mappings of a file that is LOCK_ONLY: its mapping would hold it.
pub(crate) fn forget_cached(id: &SegmentId) {
    drop(with(|mappings| mappings.cache.forget(id)));
}

/// Evicts what the cache holds: all of it, or the mappings of files that are LOCK_ONLY.
pub(crate) fn empty_cache(is_all: bool) {
    drop(with(|mappings| mappings.cache.empty(is_all))); // unmapped when nothing is locked
}
