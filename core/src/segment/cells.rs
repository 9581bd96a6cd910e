//! Small arrays in cells of a shared segment: a thousand of them are not a thousand mappings.
//!
//! Only the process that made a segment of cells gives its cells out. A cell has a state, a
//! generation and leases of its own, in its head; so it is held, ticketed, closed and swept as a
//! segment is, and its file goes when none of its cells is in use. PROTOCOL.md has the rest.
//!
//! Cells are whole pages, so that the memory of one can go back to the system while its
//! neighbours stay; a file keeps the memory of a few free ones for the next arrays. An array is at
//! least a byte smaller than its cell: so no data starts where another's ends, and an address, even
//! of no elements, tells whose it is.

use std::collections::HashMap;
use std::sync::Arc;

use super::mapped::Mapped;
use super::table::Table;
use super::{Segment, sys};
use crate::descriptor::GENERATION_LIMIT;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::{CELL_NDIM, Division, Header, PAGE_BYTES, cell_description};
use crate::lease::{Closed, Leases, Place};
use crate::name::{SegmentId, random_generation};
use crate::shape::{Layout, size_bytes};
use crate::sys::{Access, Directory, Mutex, MutexGuard};
use crate::words::{Announced, Ordering, PUNCHED};

/// Sizes of cells, in pages: an array of a power of two of bytes fits the next one.
const PAGES: [u64; 6] = [1, 2, 3, 5, 9, 17];
/// Cells of the first file that a process makes, and of the largest; each that it has doubles the next.
const FIRST_CELLS: u32 = 4;
const MOST_CELLS: u32 = 256;
/// The most data of one file, in bytes.
const MOST_BYTES: u64 = 2 << 20;
/// Free cells of a file that keep their memory.
const WARM_MOST: u64 = 16;

/// The files that this process made for cells of one size in one directory.
struct Shelf {
    directory: Directory,
    cell_bytes: u64,
    files: HashMap<SegmentId, File>,
    /// Cells that this process itself has freed.
    free: Vec<(SegmentId, u32)>,
    /// The file that has cells which were never used.
    newest: Option<SegmentId>,
}

struct File {
    mapped: Arc<Mapped>,
    /// Cells from here on were never used.
    unused: u32,
}

/// What this process gives cells out of. Locked after the table, never before it.
#[derive(Default)]
pub(super) struct Shelves {
    all: Vec<Shelf>,
    /// In a forked child: its parent gives them out.
    are_parents: bool,
}

pub(super) static SHELVES: Mutex<Option<Shelves>> = Mutex::new(None);

/// A cell that is ours and not yet an array.
struct Claimed {
    mapped: Arc<Mapped>,
    cell: u32,
    place: Place,
    was_unused: bool,
}

/// An array in a cell; `None` when it needs a file of its own.
pub(super) fn create(directory: &Directory, dtype: &DType, layout: &Layout) -> Result<Option<Arc<Segment>>> {
    let data_bytes = size_bytes(&layout.shape, dtype.item_bytes())?;
    let Some(cell_bytes) = cell_bytes_for(data_bytes) else { return Ok(None) };
    let description = (layout.ndim() <= CELL_NDIM).then(|| cell_description(dtype, &layout.shape)).flatten();
    let (Some(description), Some(me)) = (description, sys::identity(directory)) else { return Ok(None) };
    let claimed = match claim(directory, cell_bytes, me) {
        Err(Error::NoSpace { .. }) => return Ok(None), // a file of its own is smaller, and knows what to say
        claimed => claimed?,
    };
    let leases = claimed.leases();
    if let Err(error) = claimed.clear(data_bytes) {
        claimed.undo();
        return if matches!(error, Error::NoSpace { .. }) { Ok(None) } else { Err(error) };
    }
    let generation = match leases.words.generation() {
        0 => random_generation()?,
        earlier => earlier % (GENERATION_LIMIT - 1) + 1, // never 0
    };
    leases.words.describe(&description);
    leases.begin(claimed.place, generation, data_bytes);
    let Claimed { mapped, cell, place, .. } = claimed;
    Ok(Some(Segment::register(mapped, Some(cell), data_bytes, generation, place)))
}

fn cell_bytes_for(data_bytes: u64) -> Option<u64> {
    PAGES.iter().map(|pages| pages * PAGE_BYTES.max(sys::page_bytes())).find(|bytes| data_bytes < *bytes)
}

impl Claimed {
    fn leases(&self) -> Leases {
        let whole = self.mapped.leases();
        whole.cell(self.cell).unwrap_or(whole) // it was claimed, so it is there
    }

    /// Memory that may be touched and is zero.
    #[allow(unsafe_code)]
    fn clear(&self, data_bytes: u64) -> Result<()> {
        let punched = self.leases().words.flags().load(Ordering::Acquire) & PUNCHED != 0;
        if punched {
            let (offset, bytes) = self.mapped.part(Some(self.cell));
            let part = (self.mapped.header.header_bytes + offset, bytes);
            sys::reserve_again(self.mapped.directory(), &self.mapped.header.id, part)?;
        }
        if !self.was_unused {
            let data = self.mapped.data(Some(self.cell)).as_ptr();
            let _around = Announced::around(data, data_bytes as usize);
            // SAFETY: the cell is mapped writable in the process that made its file, has room
            // for these bytes, and is this thread's alone while it is claimed.
            unsafe { std::ptr::write_bytes(data, 0, data_bytes as usize) };
        }
        Ok(())
    }

    fn undo(self) {
        let leases = self.leases();
        leases.unclaim();
        leases.leave(self.place);
        drop(freed(&self.mapped, self.cell));
    }
}

fn claim(directory: &Directory, cell_bytes: u64, me: sys::Identity) -> Result<Claimed> {
    let mut gone = Vec::new(); // dropped when nothing is locked
    let claimed = with(|shelves| {
        if std::mem::take(&mut shelves.are_parents) {
            gone.extend(shelves.all.drain(..).flat_map(|shelf| shelf.files.into_values()));
        }
        shelves.of(directory, cell_bytes).claim(me, &mut gone)
    });
    drop(gone);
    let claimed = claimed?;
    if claimed.cell == 0 {
        Table::insert_mapped(&claimed.mapped); // it may be new
    }
    Ok(claimed)
}

fn with<T>(change: impl FnOnce(&mut Shelves) -> T) -> T {
    change(SHELVES.lock().get_or_insert_default())
}

impl Shelves {
    fn of(&mut self, directory: &Directory, cell_bytes: u64) -> &mut Shelf {
        let is_it = |shelf: &Shelf| shelf.cell_bytes == cell_bytes && shelf.directory.path() == directory.path();
        let at = self.all.iter().position(is_it).unwrap_or_else(|| {
            self.all.push(Shelf {
                directory: directory.clone(),
                cell_bytes,
                files: HashMap::new(),
                free: Vec::new(),
                newest: None,
            });
            self.all.len() - 1
        });
        &mut self.all[at]
    }

    /// After a fork, in the child. Allocates nothing.
    pub(super) fn leave_to_parent(&mut self) {
        self.are_parents = true;
    }
}

impl Shelf {
    fn claim(&mut self, me: sys::Identity, gone: &mut Vec<File>) -> Result<Claimed> {
        for scan in [false, true] {
            if scan {
                self.scan();
            }
            while let Some((id, cell)) = self.free.pop() {
                if let Some(claimed) = self.try_claim(&id, cell, me, gone) {
                    return Ok(claimed);
                }
            }
            if let Some(claimed) = self.claim_unused(me, gone) {
                return Ok(claimed);
            }
        }
        self.make(me)
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

    /// What others have freed meanwhile.
    fn scan(&mut self) {
        for (id, file) in &self.files {
            let leases = file.mapped.leases();
            if leases.words.used().load(Ordering::Relaxed) < u64::from(file.unused) {
                let cells = leases.cells().take(file.unused as usize).inspect(Leases::recover).enumerate();
                self.free.extend(cells.filter(|(_, cell)| cell.is_free()).map(|(cell, _)| (*id, cell as u32)));
            }
        }
    }

    /// A file that others have ended goes.
    fn try_claim(&mut self, id: &SegmentId, cell: u32, me: sys::Identity, gone: &mut Vec<File>) -> Option<Claimed> {
        let claimed = claim_cell(&self.files.get(id)?.mapped, cell, me)?;
        if claimed.mapped.leases().look() {
            return Some(claimed);
        }
        let leases = claimed.leases();
        leases.unclaim();
        leases.leave(claimed.place);
        gone.extend(self.files.remove(id));
        None
    }

    /// A new file, and its first cell: claimed before anybody can see it.
    fn make(&mut self, me: sys::Identity) -> Result<Claimed> {
        let most = (MOST_BYTES / self.cell_bytes).clamp(1, u64::from(MOST_CELLS)) as u32;
        let mut cells = (FIRST_CELLS << self.files.len().min(6)).min(most);
        let claimed = loop {
            match new_file(&self.directory, Division { cell_bytes: self.cell_bytes, cells }, me) {
                Err(Error::NoSpace { .. }) if cells > 1 => cells /= 2,
                made => break made?,
            }
        };
        let id = claimed.mapped.header.id;
        self.files.insert(id, File { mapped: Arc::clone(&claimed.mapped), unused: 1 });
        self.newest = Some(id);
        Ok(claimed)
    }
}

impl File {
    fn cells(&self) -> u32 {
        self.mapped.header.division.map_or(0, |division| division.cells)
    }
}

fn new_file(directory: &Directory, division: Division, me: sys::Identity) -> Result<Claimed> {
    let header = Header::of_cells(SegmentId::random()?, division, sys::page_bytes())?;
    let file = sys::File::create(directory.clone(), &header.id, header.segment_bytes(), 0o600)?;
    let mapped = Arc::new(Mapped::map(&file, header, Access::ReadWrite)?);
    mapped.write_header();
    mapped.leases().be_live(0);
    let claimed = claim_cell(&mapped, 0, me);
    file.publish(&mapped.header.id)?;
    claimed.ok_or_else(|| Error::argument("cell", "a new one is taken")) // nobody else has seen it
}

fn claim_cell(mapped: &Arc<Mapped>, cell: u32, me: sys::Identity) -> Option<Claimed> {
    let whole = mapped.leases();
    let leases = whole.cell(cell)?;
    let was_unused = leases.is_unused();
    let place = leases.place(me.holder, me.about)?;
    if !leases.claim() {
        leases.leave(place);
        return None;
    }
    whole.words.used().add(1);
    let warm = !was_unused && leases.words.flags().load(Ordering::Acquire) & PUNCHED == 0;
    whole.words.warm().add(0u64.wrapping_sub(u64::from(warm)));
    Some(Claimed { mapped: Arc::clone(mapped), cell, place, was_unused })
}

/// A cell has become free by this process. Returns a file that it need not have mapped any more.
pub(super) fn freed(mapped: &Mapped, cell: u32) -> Option<Arc<Mapped>> {
    let whole = mapped.leases();
    if whole.close_if_unused() == Closed::Last {
        return end(mapped);
    }
    if whole.words.warm().add(1) > WARM_MOST {
        trim(mapped);
    }
    let id = mapped.header.id;
    with(|shelves| {
        let are_ours = !shelves.are_parents;
        let made_here = shelves.all.iter_mut().find(|shelf| are_ours && shelf.files.contains_key(&id));
        if let Some(shelf) = made_here {
            shelf.free.push((id, cell));
        }
    });
    None
}

/// None of its cells is in use, and none will be. Its memory goes now, whoever has it mapped; but
/// not under the threads of a process that ends.
fn end(mapped: &Mapped) -> Option<Arc<Mapped>> {
    if !mapped.leases().cells().any(|cell| cell.is_retired()) {
        let (_, bytes) = mapped.part(None);
        let _ = sys::punch(mapped.directory(), &mapped.header.id, &[(mapped.header.header_bytes, bytes)]);
    }
    mapped.discard();
    let_go_of(mapped)
}

/// Gives the memory of free cells back. Returns its bytes.
pub(super) fn trim(mapped: &Mapped) -> u64 {
    let Some(me) = sys::identity(mapped.directory()).filter(|_| mapped.header_is_writable()) else { return 0 };
    let whole = mapped.leases();
    let mut claimed = Vec::new();
    for (cell, leases) in whole.cells().enumerate() {
        if leases.is_free() && !leases.is_unused() && leases.words.flags().load(Ordering::Acquire) & PUNCHED == 0 {
            if let Some(place) = leases.place(me.holder, me.about) {
                match leases.claim() {
                    true => claimed.push((cell as u32, leases, place)),
                    false => leases.leave(place),
                }
            }
        }
    }
    whole.words.warm().store(0, Ordering::Relaxed);
    // First the mark, then the memory: in between, who finds the mark only reserves what is there.
    claimed.iter().for_each(|(_, leases, _)| leases.words.flags().set(PUNCHED));
    let start = mapped.header.header_bytes;
    let part = |cell: u32| (start + mapped.part(Some(cell)).0, mapped.part(Some(cell)).1);
    let parts: Vec<_> = claimed.iter().map(|(cell, ..)| part(*cell)).collect();
    let punched = sys::punch(mapped.directory(), &mapped.header.id, &parts);
    for (_, leases, place) in claimed {
        leases.unclaim();
        leases.leave(place);
    }
    punched.map_or(0, |()| parts.iter().map(|(_, bytes)| bytes).sum())
}

/// Unmaps the files that only this shelf keeps, so that nobody's lock but a holder's is on them,
/// and gives no more cells out of those that somebody holds by lock. A sweep starts with it.
pub(super) fn let_go() {
    let is_kept = |file: &File| Arc::strong_count(&file.mapped) > 1 && !file.mapped.leases().is_by_lock();
    let mut gone = Vec::new(); // dropped when nothing is locked
    with(|shelves| {
        for shelf in &mut shelves.all {
            let ids: Vec<_> = shelf.files.iter().filter(|(_, file)| !is_kept(file)).map(|(id, _)| *id).collect();
            gone.extend(ids.iter().filter_map(|id| shelf.files.remove(id)));
        }
    });
    drop(gone);
}

/// Of a file that somebody holds by lock: its maker's own mapping must not be what keeps it.
pub(super) fn let_go_of(mapped: &Mapped) -> Option<Arc<Mapped>> {
    with(|shelves| shelves.all.iter_mut().find_map(|shelf| shelf.files.remove(&mapped.header.id)))
        .map(|file| file.mapped)
}

/// What the dead left in a segment of cells. Returns the bytes that went back, and whether it ended.
pub(super) fn sweep(mapped: &Mapped) -> (u64, bool) {
    let whole = mapped.leases();
    if let Some(lives) = sys::Lives::look(mapped.directory()) {
        for cell in whole.cells().filter(|cell| !cell.is_unused()) {
            cell.clear_void(|holder, about| lives.is_void(holder, about));
            cell.recover();
            cell.close();
        }
    }
    let used = whole.cells().filter(Leases::is_used).count();
    whole.words.used().store(used as u64, Ordering::Relaxed);
    let bytes = trim(mapped);
    let ends = used == 0 && (whole.close() == Closed::Last || whole.is_dead()); // by somebody who died of it
    if ends {
        drop(end(mapped));
    }
    (bytes, ends)
}

/// Before a fork, after the table.
pub(super) fn before_fork() {
    MutexGuard::leak(SHELVES.lock());
}
