//! The mapped files of this process, found by id, and the cache of those that no array uses.

use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::cache::Cache;
use super::mapped::Mapped;
use crate::system::{Access, Mutex};
use crate::value::name::SegmentId;

/// The table is pruned when it has as many entries as this, and then whenever half of its entries
/// may be dead.
const LEAST_PRUNED: usize = 64;

/// The mapped files that hold several arrays: further arrays of a file are found here.
#[derive(Default)]
pub(crate) struct Mappings {
    by_id: FxHashMap<(SegmentId, Access), Weak<Mapped>>,
    /// The number of entries that were left when the table was pruned last.
    left: usize,
    cache: Cache,
}

/// Locked before a fork, after the free lists. At any other time no lock of this library is held
/// while it is locked.
pub(crate) static MAPPINGS: Mutex<Option<Mappings>> = Mutex::new(None);

fn with<T>(change: impl FnOnce(&mut Mappings) -> T) -> T {
    change(MAPPINGS.lock().get_or_insert_default())
}

/// Returns the mapping of a file, if this process has one: a shared one, or an unused private one.
pub(crate) fn find(id: &SegmentId, access: Access) -> Option<Arc<Mapped>> {
    if access.is_private() {
        let found = with(|mappings| mappings.cache.take_private(id, access))?;
        found.begin_private_use();
        return Some(found);
    }
    with(|mappings| {
        let mapped = mappings.by_id.get(&(*id, access))?.upgrade()?;
        mappings.cache.use_again(&mapped);
        Some(mapped)
    })
}

/// Lets later attaches of the same file find this mapping. A private one is left out, because it
/// has one user.
pub(crate) fn insert(mapped: &Arc<Mapped>) {
    let key = (mapped.header.id, mapped.access);
    if !mapped.access.is_private() {
        with(|mappings| {
            // Without memory for its entry the next attach maps the file once more.
            if mappings.by_id.try_reserve(1).is_ok() {
                mappings.by_id.insert(key, Arc::downgrade(mapped));
            }
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

/// Caches a new mapping, if further arrays may come in the same file.
pub(crate) fn cache_if_reusable(mapped: &Arc<Mapped>) {
    let is_reusable = mapped.header.slab_layout.is_some()
        && !mapped.leases().is_lock_only()
        && !mapped.access.is_private();
    if is_reusable {
        drop(with(|mappings| mappings.cache.insert(mapped)));
    }
}

/// Caches a private mapping whose use has ended.
pub(crate) fn cache_private(mapped: Arc<Mapped>) {
    drop(with(|mappings| mappings.cache.insert_private(mapped)));
}

/// Evicts the mappings of a file that is LOCK_ONLY, because a cached mapping would hold it, or that
/// has ended.
pub(crate) fn evict_cached(id: &SegmentId) {
    drop(with(|mappings| mappings.cache.evict(|one| one.header.id == *id)));
}

/// Evicts the mappings of files that are LOCK_ONLY.
pub(crate) fn evict_lock_only() {
    drop(with(|mappings| mappings.cache.evict(|one| one.leases().is_lock_only())));
}

/// Evicts the mappings of files that have ended or cannot be found any more.
pub(crate) fn evict_ended() {
    drop(with(|mappings| mappings.cache.evict(Mapped::is_over)));
}

/// Evicts all cached mappings. Allocates nothing.
pub(crate) fn empty_cache() {
    drop(with(|mappings| mappings.cache.empty())); // unmapped when nothing is locked
}
