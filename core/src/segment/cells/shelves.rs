//! What this process has made for cells, and gives out again: a shelf for each size.
//!
//! A file that is kept has this process's entry in its own table, so that it stays while all its
//! cells are free. A cell that this process freed is known at once; one that another process freed
//! is found by a look at the files, as many as making a new one would cost.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Claimed, claim_cell, end_file};
use crate::format::{Division, LARGE_HEAD_BYTES, PAGE_BYTES, SMALL_HEAD_BYTES};
use crate::lease::{Closed, Leases, Place};
use crate::name::SegmentId;
use crate::segment::mapped::Mapped;
use crate::segment::{pool, sys};
use crate::sys::{Directory, Mutex, MutexGuard};
use crate::words::Ordering;

/// Cells of the first file of small ones that a process makes, and of the largest; each that it has
/// doubles the next.
const FIRST_CELLS: u32 = 4;
const MOST_CELLS: u32 = 256;
/// The most data of one file of small cells, in bytes.
const MOST_BYTES: u64 = 2 << 20;
/// Files that are looked at for what others have freed before a new one is made: a look takes as
/// long as a new file of this size.
const LOOKS: usize = 64;
const BYTES_OF_A_LOOK: u64 = 1 << 10;

/// A segment of cells that this process made.
pub(in crate::segment) struct File {
    pub(super) mapped: Arc<Mapped>,
    /// Cells from here on were never used.
    pub(super) unused: u32,
    /// Our entry in its own table, when we keep it.
    pub(super) keeper: Option<Place>,
    /// When a cell of it was last used or freed here, by the count of such events.
    used_at: u64,
    /// The trim before which a cell of it was last given out.
    taken_in: u64,
}

/// The files for cells of one size in one directory.
struct Shelf {
    directory: Directory,
    cell_bytes: u64,
    files: FxHashMap<SegmentId, File>,
    /// Cells that this process itself has freed.
    free: Vec<(SegmentId, u32)>,
    /// The order in which files are looked at.
    ring: VecDeque<SegmentId>,
    /// The file that has cells which were never used.
    newest: Option<SegmentId>,
    /// Of files that are kept, and of those that are just being made to be kept.
    kept_bytes: u64,
}

/// What this process gives cells out of. Locked after the table, never before it.
#[derive(Default)]
pub(in crate::segment) struct Shelves {
    all: Vec<Shelf>,
    events: u64,
    /// How often the pool was trimmed.
    trims: u64,
    /// In a forked child: its parent gives them out, and keeps them.
    are_parents: bool,
}

pub(in crate::segment) static SHELVES: Mutex<Option<Shelves>> = Mutex::new(None);

/// What is to be made, and what had to go for it.
pub(super) struct Plan {
    pub(super) division: Division,
    pub(super) is_kept: bool,
    /// To be dropped when nothing is locked.
    pub(super) gone: Vec<File>,
}

fn with<T>(change: impl FnOnce(&mut Shelves) -> T) -> T {
    change(SHELVES.lock().get_or_insert_default())
}

/// A cell of that size which is free.
pub(super) fn claim(directory: &Directory, cell_bytes: u64, me: sys::Identity) -> Option<Claimed> {
    let mut gone = Vec::new(); // dropped when nothing is locked
    let claimed = with(|shelves| {
        gone.extend(shelves.parents());
        let trims = shelves.trims;
        let shelf = shelves.of(directory, cell_bytes);
        let claimed = shelf.claim(me, &mut gone)?;
        shelf.files.entry(claimed.mapped.header.id).and_modify(|file| file.taken_in = trims);
        Some(claimed)
    });
    drop(gone);
    claimed
}

/// Makes room within the limit. What is kept then is counted already.
pub(super) fn plan(directory: &Directory, cell_bytes: u64, limit: u64) -> Plan {
    with(|shelves| {
        let division = shelves.of(directory, cell_bytes).next_division();
        let wanted = kept_bytes(directory, division);
        let (gone, is_kept) = shelves.make_room(directory, wanted, limit);
        if is_kept {
            shelves.of(directory, cell_bytes).kept_bytes += wanted;
        }
        Plan { division, is_kept, gone }
    })
}

/// What was planned could not be made.
pub(super) fn give_up(directory: &Directory, plan: &Plan) {
    if plan.is_kept {
        let planned = kept_bytes(directory, plan.division);
        with(|shelves| {
            let shelf = shelves.of(directory, plan.division.cell_bytes);
            shelf.kept_bytes = shelf.kept_bytes.saturating_sub(planned);
        });
    }
}

/// A new file whose first cell is in use.
pub(super) fn put(directory: &Directory, plan: &Plan, mapped: &Arc<Mapped>, keeper: Option<Place>) {
    let Some(division) = mapped.header.division else { return };
    give_up(directory, plan); // it may have become another
    with(|shelves| {
        shelves.events += 1;
        let (used_at, taken_in) = (shelves.events, shelves.trims);
        let shelf = shelves.of(directory, division.cell_bytes);
        if keeper.is_some() {
            shelf.kept_bytes += kept_bytes(directory, division);
        }
        let id = mapped.header.id;
        shelf
            .files
            .insert(id, File { mapped: Arc::clone(mapped), unused: 1, keeper, used_at, taken_in });
        shelf.ring.push_back(id);
        shelf.newest = Some(id);
    });
}

fn kept_bytes(directory: &Directory, division: Division) -> u64 {
    let header_bytes =
        (PAGE_BYTES + division.heads_bytes()).next_multiple_of(directory.page_bytes());
    header_bytes + division.cell_bytes * u64::from(division.cells)
}

/// A cell has become free by this process.
pub(super) fn put_back(id: &SegmentId, cell: u32) {
    with(|shelves| {
        shelves.events += 1;
        let (are_ours, used_at) = (!shelves.are_parents, shelves.events);
        let made_here =
            shelves.all.iter_mut().find(|shelf| are_ours && shelf.files.contains_key(id));
        if let Some(shelf) = made_here {
            shelf.free.push((*id, cell));
            shelf.files.entry(*id).and_modify(|file| file.used_at = used_at);
        }
    });
}

/// A file of which no more cells are given out. To be dropped when nothing is locked.
pub(super) fn take(id: &SegmentId) -> Option<File> {
    with(|shelves| shelves.all.iter_mut().find_map(|shelf| shelf.remove(id)))
}

/// Those that meet a condition.
pub(super) fn take_all(unless: impl Fn(&File) -> bool) -> Vec<File> {
    with(|shelves| {
        let mut gone: Vec<_> = shelves.parents().collect();
        for shelf in &mut shelves.all {
            let ids: Vec<_> =
                shelf.files.iter().filter(|(_, file)| !unless(file)).map(|(id, _)| *id).collect();
            gone.extend(ids.iter().filter_map(|id| shelf.remove(id)));
        }
        gone
    })
}

/// Those that nobody uses and of which no cell was given out since the last trim. This is one.
pub(super) fn take_idle() -> Vec<File> {
    let trims = with(|shelves| {
        shelves.trims += 1;
        shelves.trims
    });
    take_all(|file| file.taken_in + 1 == trims || file.is_in_use())
}

/// Before a fork, after the table.
pub(in crate::segment) fn before_fork() {
    MutexGuard::leak(SHELVES.lock());
}

impl Shelves {
    fn of(&mut self, directory: &Directory, cell_bytes: u64) -> &mut Shelf {
        let is_it = |shelf: &Shelf| {
            shelf.cell_bytes == cell_bytes && shelf.directory.path() == directory.path()
        };
        let at = self.all.iter().position(is_it).unwrap_or_else(|| {
            self.all.push(Shelf::new(directory.clone(), cell_bytes));
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    /// After a fork, in the child. Allocates nothing.
    pub(in crate::segment) fn leave_to_parent(&mut self) {
        self.are_parents = true;
    }

    /// What a child does not give out. Its parent keeps it.
    fn parents(&mut self) -> impl Iterator<Item = File> + use<> {
        let shelves = if std::mem::take(&mut self.are_parents) {
            std::mem::take(&mut self.all)
        } else {
            Vec::new()
        };
        let files = shelves.into_iter().flat_map(|shelf| shelf.files.into_values());
        files.map(|mut file| {
            file.keeper = None;
            file
        })
    }

    /// Takes the files that were free for longest until there is room; whether there is now.
    fn make_room(&mut self, directory: &Directory, wanted: u64, limit: u64) -> (Vec<File>, bool) {
        let mut gone = Vec::new();
        let here = |shelf: &&mut Shelf| shelf.directory.path() == directory.path();
        let mut kept: u64 = self.all.iter_mut().filter(here).map(|shelf| shelf.kept_bytes).sum();
        if kept.saturating_add(wanted) <= limit || wanted > limit {
            return (gone, wanted <= limit);
        }
        let files = self.all.iter_mut().filter(here).flat_map(|shelf| &shelf.files);
        let mut free: Vec<_> = files
            .filter(|(_, file)| file.is_spare())
            .map(|(id, file)| (file.used_at, *id))
            .collect();
        free.sort_unstable();
        for (_, id) in free {
            if kept.saturating_add(wanted) <= limit {
                break;
            }
            gone.extend(self.all.iter_mut().find_map(|shelf| shelf.remove(&id)));
            kept = self.all.iter_mut().filter(here).map(|shelf| shelf.kept_bytes).sum();
        }
        (gone, kept.saturating_add(wanted) <= limit)
    }
}

impl Shelf {
    fn new(directory: Directory, cell_bytes: u64) -> Self {
        let (files, free, ring) = (FxHashMap::default(), Vec::new(), VecDeque::new());
        Self { directory, cell_bytes, files, free, ring, newest: None, kept_bytes: 0 }
    }

    /// How the next file is divided: what is small lies together, more and more of it.
    fn next_division(&self) -> Division {
        let cell_bytes = self.cell_bytes;
        if !self.is_small() {
            return Division { cell_bytes, cells: 1, head_bytes: LARGE_HEAD_BYTES };
        }
        let most = (MOST_BYTES / cell_bytes).clamp(1, u64::from(MOST_CELLS)) as u32;
        let cells = (FIRST_CELLS << self.files.len().min(6)).min(most);
        Division { cell_bytes, cells, head_bytes: SMALL_HEAD_BYTES }
    }

    fn is_small(&self) -> bool {
        pool::is_small(self.cell_bytes, self.directory.page_bytes())
    }

    fn claim(&mut self, me: sys::Identity, gone: &mut Vec<File>) -> Option<Claimed> {
        let known = self.claim_known(me, gone).or_else(|| self.claim_unused(me, gone));
        known.or_else(|| {
            self.look_around();
            self.claim_known(me, gone)
        })
    }

    fn claim_known(&mut self, me: sys::Identity, gone: &mut Vec<File>) -> Option<Claimed> {
        loop {
            let (id, cell) = self.free.pop()?;
            if let Some(claimed) = self.try_claim(&id, cell, me, gone) {
                return Some(claimed);
            }
        }
    }

    fn claim_unused(&mut self, me: sys::Identity, gone: &mut Vec<File>) -> Option<Claimed> {
        loop {
            let id = self.newest?;
            let file = self.files.get_mut(&id)?;
            if file.unused == file.cells() {
                return None;
            }
            let cell = file.unused;
            file.unused += 1;
            if let Some(claimed) = self.try_claim(&id, cell, me, gone) {
                return Some(claimed);
            }
        }
    }

    /// What others have freed meanwhile: those that were made first are asked first.
    fn look_around(&mut self) {
        let looks = LOOKS + (self.cell_bytes / BYTES_OF_A_LOOK) as usize;
        for _ in 0..self.ring.len().min(looks) {
            let Some(id) = self.ring.pop_front() else { return };
            let Some(file) = self.files.get(&id) else { continue }; // it is gone
            self.ring.push_back(id);
            self.free.extend(file.free_cells().map(|cell| (id, cell)));
            if !self.free.is_empty() && !self.is_small() {
                return;
            }
        }
    }

    /// A file that others have ended goes.
    fn try_claim(
        &mut self,
        id: &SegmentId,
        cell: u32,
        me: sys::Identity,
        gone: &mut Vec<File>,
    ) -> Option<Claimed> {
        let claimed = claim_cell(&self.files.get(id)?.mapped, cell, me)?;
        if claimed.mapped.leases().look() {
            return Some(claimed);
        }
        let leases = claimed.leases();
        leases.unclaim();
        leases.leave(claimed.place);
        gone.extend(self.remove(id));
        None
    }

    fn remove(&mut self, id: &SegmentId) -> Option<File> {
        let file = self.files.remove(id)?;
        if let (Some(_), Some(division)) = (file.keeper, file.mapped.header.division) {
            self.kept_bytes = self.kept_bytes.saturating_sub(kept_bytes(&self.directory, division));
        }
        Some(file)
    }
}

impl File {
    fn cells(&self) -> u32 {
        self.mapped.header.division.map_or(0, |division| division.cells)
    }

    /// Something of it is an array of this process's, or of another's.
    pub(super) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.mapped) > 1 || self.keeper.is_some() && !self.is_spare()
    }

    /// Kept, and not in use.
    fn is_spare(&self) -> bool {
        self.keeper.is_some()
            && !self.mapped.leases().cells().any(|cell| cell.is_used() || cell.is_retired())
    }

    fn free_cells(&self) -> impl Iterator<Item = u32> {
        let leases = self.mapped.leases();
        let is_any = leases.words.used().load(Ordering::Relaxed) < u64::from(self.unused);
        let cells: Vec<_> =
            leases.cells().take(if is_any { self.unused as usize } else { 0 }).collect();
        let is_free = |cell: &Leases| {
            cell.recover(); // what the dead had claimed
            cell.is_free()
        };
        cells.into_iter().zip(0..).filter(move |(cell, _)| is_free(cell)).map(|(_, number)| number)
    }

    /// Keeps it no longer. Whether nobody else needs it either: then it has ended, here.
    pub(super) fn leave(&mut self) -> bool {
        let leases = self.mapped.leases();
        let Some(place) = self.keeper.take() else { return false };
        leases.leave(place);
        let ended = leases.close() == Closed::Last;
        if ended {
            end_file(&self.mapped);
        }
        ended
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.leave();
    }
}
