//! The cells that this process can give out: a free list for each size class, and the pool.
//!
//! The process that made a pooled slab holds an entry in the slab's own table, the pool lease, so
//! that the slab stays while all of its cells are free. A cell that this process freed is in the
//! free list at once. A cell that another process freed is found by a search of the slabs' states,
//! which takes no longer than making a new slab would.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cell::{Claimed, claim_cell};
use super::owned::Slab;
use super::size_class::{is_small, next_layout, slab_bytes};
use crate::header::format::SlabLayout;
use crate::header::lease::EntryIndex;
use crate::memory::mapping::Mapped;
use crate::system::{Directory, Mutex, MutexGuard, Owner};
use crate::value::name::SegmentId;

/// The number of slabs that are searched, before a new slab is made, for cells that other processes
/// freed.
const SEARCHED: usize = 64;
/// One more slab is searched for each so many bytes of a cell: a search of one slab takes as long
/// as the kernel takes to make memory of this size.
const BYTES_PER_SEARCH: u64 = 1 << 10;

/// A size class: the slabs of one cell size in one directory.
struct SizeClass {
    directory: Directory,
    cell_bytes: u64,
    slabs: FxHashMap<SegmentId, Slab>,
    /// The free list: cells that this process freed, or that a search found. A slab may have left
    /// `slabs` since; its cells are passed over.
    free: Vec<(SegmentId, u32)>,
    /// The slabs in the order in which they are searched, and some that have left `slabs`.
    ring: VecDeque<SegmentId>,
    /// The slab that has cells which were never used. It may have left `slabs`.
    newest: Option<SegmentId>,
    /// The bytes of pooled slabs, and of those that are being made for the pool.
    pooled_bytes: u64,
}

/// The free lists of a process.
#[derive(Default)]
pub(crate) struct FreeLists {
    all: Vec<SizeClass>,
    /// The number of times that a cell was used or freed.
    events: u64,
    /// The number of times that the pool was trimmed.
    trims: u64,
    /// Set in a forked child, where the slabs are the parent's.
    are_inherited: bool,
}

/// Locked before a fork, after the table of segments and before the table of mappings.
pub(crate) static FREE_LISTS: Mutex<Option<FreeLists>> = Mutex::new(None);

/// A slab to be made. It reserves room in the pool until it is dropped.
pub(super) struct NewSlab {
    directory: Directory,
    pub(super) layout: SlabLayout,
    pub(super) is_pooled: bool,
}

fn with<T>(change: impl FnOnce(&mut FreeLists) -> T) -> T {
    change(FREE_LISTS.lock().get_or_insert_default())
}

/// Claims a free cell of that size, if there is one.
pub(super) fn claim(directory: &Directory, cell_bytes: u64, me: Owner) -> Option<Claimed> {
    let mut gone = Vec::new(); // dropped when nothing is locked
    let claimed = with(|lists| {
        gone.extend(lists.take_inherited());
        let trims = lists.trims;
        let class = lists.of(directory, cell_bytes);
        let claimed = class.claim(me, &mut gone)?;
        class.slabs.entry(claimed.mapped.header.id).and_modify(|slab| slab.trims = trims);
        Some(claimed)
    });
    drop(gone);
    claimed
}

/// The limits of the pool of a process.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The most bytes of all pooled slabs.
    pub(super) bytes: u64,
    /// The most bytes of those without an array, when a slab is made.
    pub(super) spare: u64,
}

/// Makes room in the pool, within the limits, for another slab of that size.
pub(super) fn plan(directory: &Directory, cell_bytes: u64, limits: Limits) -> NewSlab {
    let (evicted, new) = with(|lists| {
        let slabs = lists.of(directory, cell_bytes).slabs.len();
        let layout = next_layout(cell_bytes, directory.page_bytes(), slabs);
        let wanted = slab_bytes(directory, layout);
        let (evicted, is_pooled) = lists.make_room(directory, wanted, limits);
        if is_pooled {
            lists.of(directory, cell_bytes).pooled_bytes += wanted;
        }
        (evicted, NewSlab { directory: directory.clone(), layout, is_pooled })
    });
    drop(evicted); // when nothing is locked
    new
}

impl Drop for NewSlab {
    fn drop(&mut self) {
        if self.is_pooled {
            let planned = slab_bytes(&self.directory, self.layout);
            with(|lists| {
                let class = lists.of(&self.directory, self.layout.cell_bytes);
                class.pooled_bytes = class.pooled_bytes.saturating_sub(planned);
            });
        }
    }
}

/// Gives out cells of a new slab from now on. Its first cell is in use.
pub(super) fn insert(new: NewSlab, mapped: &Arc<Mapped>, pool_lease: Option<EntryIndex>) {
    let Some(layout) = mapped.header.slab_layout else { return };
    let directory = new.directory.clone();
    drop(new); // the slab may be smaller than planned
    with(|lists| {
        lists.events += 1;
        let used_at = lists.events;
        let trims = lists.trims;
        let class = lists.of(&directory, layout.cell_bytes);
        if pool_lease.is_some() {
            class.pooled_bytes += slab_bytes(&directory, layout);
        }
        let id = mapped.header.id;
        let mapped = Arc::clone(mapped);
        class.slabs.insert(id, Slab { mapped, unused: 1, pool_lease, used_at, trims });
        class.ring.push_back(id);
        class.newest = Some(id);
        class.verify();
    });
}

/// Adds a cell that this process has freed to its free list.
pub(super) fn put_back(id: &SegmentId, cell: u32) {
    with(|lists| {
        lists.events += 1;
        let are_ours = !lists.are_inherited;
        let used_at = lists.events;
        let made_here = |class: &&mut SizeClass| are_ours && class.slabs.contains_key(id);
        if let Some(class) = lists.all.iter_mut().find(made_here) {
            class.free.push((*id, cell));
            class.slabs.entry(*id).and_modify(|slab| slab.used_at = used_at);
        }
    });
}

/// Takes a slab out of the lists. The caller drops it when nothing is locked.
pub(super) fn take(id: &SegmentId) -> Option<Slab> {
    with(|lists| lists.all.iter_mut().find_map(|class| class.remove(id)))
}

/// Takes out of the lists all slabs that `keep` refuses, or as many as it has memory to list.
pub(super) fn take_all(keep: impl Fn(&Slab) -> bool) -> Vec<Slab> {
    with(|lists| {
        let mut gone: Vec<_> = lists.take_inherited().collect();
        for class in &mut lists.all {
            let mut ids = Vec::new();
            let refused = class.slabs.iter().filter(|one| !keep(one.1));
            for (id, _) in refused {
                if ids.try_reserve(1).is_err() || gone.try_reserve(ids.len() + 1).is_err() {
                    break;
                }
                ids.push(*id);
            }
            gone.extend(ids.iter().filter_map(|id| class.remove(id)));
        }
        gone
    })
}

/// Trims the pool: takes out the unused slabs of which no cell was given out since the last trim.
pub(super) fn take_idle() -> Vec<Slab> {
    let trims = with(|lists| {
        lists.trims += 1;
        lists.trims
    });
    take_all(|slab| slab.trims + 1 == trims || slab.is_in_use())
}

/// Locks the lists before a fork.
pub(crate) fn before_fork() {
    MutexGuard::leak(FREE_LISTS.lock());
}

impl FreeLists {
    fn of(&mut self, directory: &Directory, cell_bytes: u64) -> &mut SizeClass {
        let is_it = |class: &SizeClass| {
            class.cell_bytes == cell_bytes && class.directory.path() == directory.path()
        };
        let at = self.all.iter().position(is_it).unwrap_or_else(|| {
            self.all.push(SizeClass::new(directory.clone(), cell_bytes));
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    /// Leaves all slabs to the parent, in a forked child. Allocates nothing.
    pub(crate) fn leave_to_parent(&mut self) {
        self.are_inherited = true;
    }

    /// Takes out the slabs that a child has inherited: it gives out none of their cells, and their
    /// pool leases are the parent's.
    fn take_inherited(&mut self) -> impl Iterator<Item = Slab> + use<> {
        let inherited = if std::mem::take(&mut self.are_inherited) {
            std::mem::take(&mut self.all)
        } else {
            Vec::new()
        };
        let slabs = inherited.into_iter().flat_map(|class| class.slabs.into_values());
        slabs.map(|mut slab| {
            slab.pool_lease = None;
            slab
        })
    }

    /// Evicts free slabs, the least recently used first, until `wanted` bytes have room within the
    /// limits. Returns the evicted slabs, and whether there is room.
    fn make_room(
        &mut self,
        directory: &Directory,
        wanted: u64,
        limits: Limits,
    ) -> (Vec<Slab>, bool) {
        let mut evicted = Vec::new();
        let here = |class: &&mut SizeClass| class.directory.path() == directory.path();
        let mut pooled: u64 =
            self.all.iter_mut().filter(here).map(|class| class.pooled_bytes).sum();
        let has_room = |pooled: u64| pooled.saturating_add(wanted) <= limits.bytes;
        if wanted > limits.bytes || has_room(pooled) && pooled <= limits.spare {
            return (evicted, wanted <= limits.bytes);
        }
        let slabs = self.all.iter_mut().filter(here).flat_map(|class| &class.slabs);
        let mut spare: Vec<_> = slabs
            .filter(|(_, slab)| slab.is_spare())
            .map(|(id, slab)| (slab.used_at, *id, slab.bytes()))
            .collect();
        spare.sort_unstable();
        let mut spare_bytes: u64 = spare.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, id, bytes) in spare {
            if has_room(pooled) && spare_bytes <= limits.spare {
                break;
            }
            evicted.extend(self.all.iter_mut().find_map(|class| class.remove(&id)));
            spare_bytes -= bytes;
            pooled = self.all.iter_mut().filter(here).map(|class| class.pooled_bytes).sum();
        }
        (evicted, has_room(pooled))
    }
}

impl SizeClass {
    fn new(directory: Directory, cell_bytes: u64) -> Self {
        let slabs = FxHashMap::default();
        let free = Vec::new();
        let ring = VecDeque::new();
        Self { directory, cell_bytes, slabs, free, ring, newest: None, pooled_bytes: 0 }
    }

    fn claim(&mut self, me: Owner, gone: &mut Vec<Slab>) -> Option<Claimed> {
        let claimed = self.claim_freed(me, gone).or_else(|| self.claim_unused(me, gone));
        claimed.or_else(|| {
            self.search();
            self.claim_freed(me, gone)
        })
    }

    fn claim_freed(&mut self, me: Owner, gone: &mut Vec<Slab>) -> Option<Claimed> {
        loop {
            let (id, cell) = self.free.pop()?;
            if let Some(claimed) = self.try_claim(&id, cell, me, gone) {
                return Some(claimed);
            }
        }
    }

    fn claim_unused(&mut self, me: Owner, gone: &mut Vec<Slab>) -> Option<Claimed> {
        loop {
            let id = self.newest?;
            let slab = self.slabs.get_mut(&id)?;
            if slab.unused == slab.cells() {
                return None;
            }
            let cell = slab.unused;
            slab.unused += 1;
            if let Some(claimed) = self.try_claim(&id, cell, me, gone) {
                return Some(claimed);
            }
        }
    }

    /// Searches slabs, the oldest first, for cells that other processes freed.
    fn search(&mut self) {
        let most = SEARCHED + (self.cell_bytes / BYTES_PER_SEARCH) as usize;
        for _ in 0..self.ring.len().min(most) {
            let Some(id) = self.ring.pop_front() else { return };
            let Some(slab) = self.slabs.get(&id) else { continue }; // it was taken out
            self.ring.push_back(id);
            self.free.extend(slab.free_cells().map(|cell| (id, cell)));
            if !self.free.is_empty() && !is_small(self.cell_bytes, self.directory.page_bytes()) {
                return;
            }
        }
    }

    /// Claims one cell. A slab that other processes have ended leaves the lists.
    fn try_claim(
        &mut self,
        id: &SegmentId,
        cell: u32,
        me: Owner,
        gone: &mut Vec<Slab>,
    ) -> Option<Claimed> {
        let claimed = claim_cell(&self.slabs.get(id)?.mapped, cell, me)?;
        if claimed.mapped.leases().settle_and_is_live() {
            return Some(claimed);
        }
        claimed.unclaim();
        gone.extend(self.remove(id));
        None
    }

    fn remove(&mut self, id: &SegmentId) -> Option<Slab> {
        let slab = self.slabs.remove(id)?;
        if let (Some(_), Some(layout)) = (slab.pool_lease, slab.mapped.header.slab_layout) {
            let bytes = slab_bytes(&self.directory, layout);
            self.pooled_bytes = self.pooled_bytes.saturating_sub(bytes);
        }
        self.verify();
        Some(slab)
    }

    /// Compares the count of pooled bytes with the slabs, in debug builds. Slabs that are being
    /// made count, too.
    fn verify(&self) {
        let pooled = self.slabs.values().filter(|slab| slab.pool_lease.is_some());
        let layouts = pooled.filter_map(|slab| slab.mapped.header.slab_layout);
        debug_assert!(
            layouts.map(|layout| slab_bytes(&self.directory, layout)).sum::<u64>()
                <= self.pooled_bytes,
            "each pooled slab is in the count of pooled bytes"
        );
    }
}
