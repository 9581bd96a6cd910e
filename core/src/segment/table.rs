//! What this process has mapped and holds, by id and by address.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::Segment;
use super::cache::Cache;
use super::mapped::Mapped;
use crate::name::{SegmentId, SegmentText};
use crate::sys::{Access, Mutex};

/// What this process has mapped and holds.
#[derive(Default)]
pub(super) struct Table {
    by_id: FxHashMap<(SegmentText, Access), Weak<Segment>>,
    /// By where the data starts, and by the segment: without data, two may start at one place.
    by_address: BTreeMap<(usize, usize), Weak<Segment>>,
    mapped: FxHashMap<(SegmentId, Access), Weak<Mapped>>,
    cache: Cache,
}

pub(super) static TABLE: Mutex<Option<Table>> = Mutex::new(None);

/// Whether who attaches the same again gets the same memory.
fn is_common(access: Access) -> bool {
    access != Access::CopyOnWrite
}

impl Table {
    fn with<T>(change: impl FnOnce(&mut Self) -> T) -> T {
        change(TABLE.lock().get_or_insert_default())
    }

    /// Every segment in the table, while it is locked.
    #[allow(unsafe_code)]
    pub(super) fn for_each(table: &Option<Self>, mut visit: impl FnMut(&Segment)) {
        for entry in table.iter().flat_map(|table| table.by_address.values()) {
            // SAFETY: a segment takes itself out of the table before anything of it is dropped,
            // and waits for the lock to do so; its memory stays as long as this weak pointer.
            visit(unsafe { &*entry.as_ptr() });
        }
    }

    pub(super) fn find(text: &SegmentText, access: Access) -> Option<Arc<Segment>> {
        Self::with(|table| table.by_id.get(&(*text, access))?.upgrade())
    }

    /// Whether this process holds all that a segment has: nobody's death changes anything there.
    pub(super) fn holds_all_of(id: &SegmentId) -> bool {
        let only = |cell| Self::find(&SegmentText { id: *id, cell }, Access::ReadWrite);
        only(None).or_else(|| only(Some(0))).is_some_and(|segment| segment.is_alone())
    }

    pub(super) fn insert(segment: &Arc<Segment>) {
        let key = (segment.text(), segment.access());
        Self::with(|table| {
            if is_common(key.1) {
                table.by_id.insert(key, Arc::downgrade(segment));
            }
            table.by_address.insert(segment.address(), Arc::downgrade(segment));
        });
    }

    /// Only the entries that are this segment's own: a later mapping may have taken the key.
    pub(super) fn remove(segment: &Segment) {
        let key = (segment.text(), segment.access());
        let own = |entry: &Weak<Segment>| std::ptr::eq(entry.as_ptr(), segment);
        Self::with(|table| {
            if table.by_id.get(&key).is_some_and(own) {
                table.by_id.remove(&key);
            }
            table.by_address.remove(&segment.address());
        });
    }

    /// Whose cells come again.
    pub(super) fn cache(mapped: &Arc<Mapped>) {
        drop(Self::with(|table| table.cache.keep(mapped)));
    }

    /// What is kept is used last now. What this process made itself is on a shelf, and not here.
    pub(super) fn use_again(mapped: &Arc<Mapped>) {
        Self::with(|table| table.cache.use_again(mapped));
    }

    pub(super) fn cache_private(mapped: Arc<Mapped>) {
        drop(Self::with(|table| table.cache.keep_private(mapped)));
    }

    pub(super) fn take_private(id: &SegmentId) -> Option<Arc<Mapped>> {
        Self::with(|table| table.cache.take_private(id))
    }

    pub(super) fn forget_cached(id: &SegmentId) {
        drop(Self::with(|table| table.cache.forget(id)));
    }

    /// Mappings that are only kept; to be dropped when nothing is locked.
    pub(super) fn empty_cache(is_all: bool) -> Vec<Arc<Mapped>> {
        Self::with(|table| table.cache.empty(is_all))
    }

    pub(super) fn find_mapped(id: &SegmentId, access: Access) -> Option<Arc<Mapped>> {
        Self::with(|table| table.mapped.get(&(*id, access))?.upgrade())
    }

    /// A file that has cells: others of its cells find it here.
    pub(super) fn insert_mapped(mapped: &Arc<Mapped>) {
        let key = (mapped.header.id, mapped.access);
        if !is_common(mapped.access) {
            return;
        }
        Self::with(|table| table.mapped.insert(key, Arc::downgrade(mapped)));
    }

    pub(super) fn remove_mapped(mapped: &Mapped) {
        let key = (mapped.header.id, mapped.access);
        let own = |entry: &Weak<Mapped>| std::ptr::eq(entry.as_ptr(), mapped);
        Self::with(|table| {
            if table.mapped.get(&key).is_some_and(own) {
                table.mapped.remove(&key);
            }
        });
    }

    /// The segment with that byte; for the byte behind its last, too, where a view without
    /// elements may stand.
    pub(super) fn containing(address: usize) -> Option<Arc<Segment>> {
        let (start, there) = Self::with(|table| {
            let ((start, _), _) = table.by_address.range(..=(address, usize::MAX)).next_back()?;
            let there = table.by_address.range((*start, 0)..=(*start, usize::MAX));
            Some((*start, there.filter_map(|(_, entry)| entry.upgrade()).collect::<Vec<_>>()))
        })?;
        let common = there.into_iter().filter(|segment| is_common(segment.access()));
        let largest = common.max_by_key(|segment| segment.data_bytes())?;
        (address - start <= largest.data_bytes() as usize).then_some(largest)
    }
}
