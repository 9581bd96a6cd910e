//! Arrays in cells of shared segments: a thousand small ones are not a thousand mappings, and the
//! memory of one that is gone is there for the next.
//!
//! Only the process that made a segment of cells gives its cells out (`shelves`). A cell has a
//! state, a generation and leases of its own, in its head; so it is held, ticketed, closed and
//! swept as a segment is. Its file goes when none of its cells is in use and its maker does not
//! keep it. PROTOCOL.md has the rest.
//!
//! Cells are whole pages, so that the memory of one can go back to the system while its
//! neighbours stay. A file that is not kept keeps the memory of a few free ones for the next
//! arrays. An array is at least a byte smaller than its cell: so no data starts where another's
//! ends, and an address, even of no elements, tells whose it is.

mod shelves;

use std::sync::Arc;

use super::mapped::Mapped;
use super::sweep::{self, How};
use super::table::Table;
use super::{Fill, Segment, pool, sys};
use crate::descriptor::GENERATION_LIMIT;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{CELL_NDIM, Division, Header, cell_description};
use crate::lease::{Closed, Leases, Place};
use crate::name::{SegmentId, random_generation};
use crate::shape::{Layout, size_bytes};
use crate::sys::{Access, Directory};
use crate::words::{Ordering, PUNCHED};
use shelves::Plan;

pub(super) use shelves::{File, SHELVES, before_fork};

/// Free cells of a file that keep their memory though nobody keeps the file.
const WARM_MOST: u64 = 16;

/// A cell that is ours and not yet an array.
struct Claimed {
    mapped: Arc<Mapped>,
    cell: u32,
    place: Place,
    /// As the kernel made it.
    is_zero: bool,
    is_filled: bool,
}

/// An array in a cell; `None` when it needs a file of its own.
pub(super) fn create(
    directory: &Directory,
    dtype: &DType,
    layout: &Layout,
    fill: &Fill<'_>,
    shall_check: bool,
) -> Result<Option<Arc<Segment>>> {
    let data_bytes = size_bytes(&layout.shape, dtype.item_bytes())?;
    let description =
        (layout.ndim() <= CELL_NDIM).then(|| cell_description(dtype, &layout.shape)).flatten();
    let (Some(cell_bytes), Some(description)) =
        (pool::cell_bytes_for(data_bytes, directory.page_bytes()), description)
    else {
        return Ok(None);
    };
    let Some(me) = sys::identity(directory) else { return Ok(None) };
    let known = shelves::claim(directory, cell_bytes, me).and_then(|claimed| match shall_check {
        true => claimed.if_found(),
        false => Some(claimed),
    });
    let claimed = match known {
        Some(claimed) => claimed,
        None => match make(directory, cell_bytes, me, fill)? {
            Some(claimed) => claimed,
            None => return Ok(None),
        },
    };
    match claimed.fill(data_bytes, fill) {
        Ok(()) => claimed.begin(&description, data_bytes).map(Some),
        Err(error) => {
            claimed.undo();
            match error.kind() {
                ErrorKind::NoSpace => Ok(None),
                ErrorKind::Os if forget_removed(directory) => Ok(None),
                _ => Err(error),
            }
        }
    }
}

/// Files that a cleaner has removed, or that are another user's since this process has become one:
/// nobody finds an array there by its handle, so nothing more is made there. Whether there were
/// any.
fn forget_removed(directory: &Directory) -> bool {
    let gone =
        shelves::take_all(|file| sys::is_findable(file.mapped.directory(), &file.mapped.header.id));
    if gone.iter().any(|file| !sys::is_found(file.mapped.directory(), &file.mapped.header.id)) {
        sweep::say_that_files_were_removed(directory);
    }
    !gone.is_empty()
}

impl Claimed {
    fn leases(&self) -> Leases {
        let whole = self.mapped.leases();
        whole.cell(self.cell).unwrap_or(whole) // it was claimed, so it is there
    }

    /// Memory that may be touched, and has what the array begins with.
    #[allow(unsafe_code)]
    fn fill(&self, data_bytes: u64, fill: &Fill<'_>) -> Result<()> {
        if self.leases().words.flags().load(Ordering::Acquire) & PUNCHED != 0 {
            let (offset, bytes) = self.mapped.part(Some(self.cell));
            let part = (self.mapped.header.header_bytes + offset, bytes);
            pool::find_room(self.mapped.directory(), bytes)?;
            sys::reserve_again(self.mapped.directory(), &self.mapped.header.id, part)?;
        }
        if !self.is_filled {
            let data = self.mapped.data(Some(self.cell));
            self.mapped.prepare_stores(if fill.stores(self.is_zero) { data_bytes } else { 0 });
            // SAFETY: the cell is mapped writable in the process that made its file, has room
            // for these bytes, and is this thread's alone while it is claimed.
            unsafe { fill.apply(data, data_bytes, self.is_zero) };
        }
        Ok(())
    }

    fn begin(
        self,
        description: &[u8; crate::format::CELL_DESCRIPTION_BYTES],
        data_bytes: u64,
    ) -> Result<Arc<Segment>> {
        let leases = self.leases();
        let generation = match leases.words.generation() {
            0 => random_generation()?,
            earlier => earlier % (GENERATION_LIMIT - 1) + 1, // never 0
        };
        leases.words.describe(description);
        leases.begin(self.place, generation, data_bytes);
        let Self { mapped, cell, place, .. } = self;
        Ok(Segment::register(mapped, Some(cell), data_bytes, generation, place))
    }

    /// `None` when a cleaner has removed its file, or this process has become another user.
    fn if_found(self) -> Option<Self> {
        let directory = self.mapped.directory().clone();
        if sys::is_findable(&directory, &self.mapped.header.id) {
            return Some(self);
        }
        self.undo();
        forget_removed(&directory);
        None
    }

    fn undo(self) {
        let leases = self.leases();
        leases.unclaim();
        leases.leave(self.place);
        drop(freed(&self.mapped, self.cell));
    }
}

/// A cell of a new file; `None` when the array shall have a file of its own, which is smaller and
/// knows what to say when memory is full.
fn make(
    directory: &Directory,
    cell_bytes: u64,
    me: sys::Identity,
    fill: &Fill<'_>,
) -> Result<Option<Claimed>> {
    let limit = pool::limit(directory, cell_bytes)?;
    let mut plan = shelves::plan(directory, cell_bytes, limit);
    plan.gone.clear(); // nothing is locked
    if !plan.is_kept && !pool::is_small(cell_bytes, directory.page_bytes()) {
        return Ok(None);
    }
    sweep::before_file(directory, cell_bytes);
    sweep::look(directory, sweep::When::Growing);
    match make_planned(directory, &plan, me, fill) {
        Ok((claimed, keeper)) => {
            shelves::put(directory, &plan, &claimed.mapped, keeper);
            Table::insert_mapped(&claimed.mapped);
            Ok(Some(claimed))
        }
        Err(error) => {
            shelves::give_up(directory, &plan);
            if error.kind() == ErrorKind::NoSpace { Ok(None) } else { Err(error) }
        }
    }
}

/// As many cells as there is room for.
fn make_planned(
    directory: &Directory,
    plan: &Plan,
    me: sys::Identity,
    fill: &Fill<'_>,
) -> Result<(Claimed, Option<Place>)> {
    let mut division = plan.division;
    loop {
        match new_file(directory, division, plan.is_kept, me, fill) {
            Err(error) if error.kind() == ErrorKind::NoSpace && division.cells > 1 => {
                division.cells /= 2
            }
            made => return made,
        }
    }
}

/// A new file, kept if it shall be, and its first cell: claimed before anybody can see it.
#[allow(unsafe_code)]
fn new_file(
    directory: &Directory,
    division: Division,
    is_kept: bool,
    me: sys::Identity,
    fill: &Fill<'_>,
) -> Result<(Claimed, Option<Place>)> {
    let header = Header::of_cells(SegmentId::random()?, division, directory.page_bytes())?;
    let file = sys::File::create(directory.clone(), &header.id, header.segment_bytes(), 0o600)?;
    // SAFETY: the first cell has room for the array; who made it vouches for the elements.
    let is_filled = unsafe { fill.write(&file, header.header_bytes)? };
    let mapped = Arc::new(Mapped::map(&file, header, Access::ReadWrite)?);
    mapped.write_header();
    let leases = mapped.leases();
    leases.be_live(0);
    let claimed = claim_cell(&mapped, 0, me);
    let keeper = if is_kept { leases.place(me.holder, me.about) } else { None };
    keeper.inspect(|place| leases.set_held(*place)); // nobody has seen it: it is alive
    file.publish(&mapped.header.id)?;
    let claimed = claimed.ok_or_else(|| Error::argument("cell", "a new one is taken"))?; // nobody else has seen it
    Ok((Claimed { is_filled, ..claimed }, keeper))
}

fn claim_cell(mapped: &Arc<Mapped>, cell: u32, me: sys::Identity) -> Option<Claimed> {
    let whole = mapped.leases();
    let leases = whole.cell(cell)?;
    let is_zero = leases.is_unused();
    let place = leases.place(me.holder, me.about)?;
    if !leases.claim() {
        leases.leave(place);
        return None;
    }
    whole.words.used().add(1);
    let warm = !is_zero && leases.words.flags().load(Ordering::Acquire) & PUNCHED == 0;
    whole.words.warm().add(0u64.wrapping_sub(u64::from(warm)));
    Some(Claimed { mapped: Arc::clone(mapped), cell, place, is_zero, is_filled: false })
}

/// A cell has become free by this process. What is returned it need not have mapped any more, and
/// drops when nothing is locked.
pub(super) fn freed(mapped: &Mapped, cell: u32) -> Option<File> {
    let whole = mapped.leases();
    if whole.close_if_unused() == Closed::Last {
        return end(mapped);
    }
    if whole.words.warm().add(1) > WARM_MOST && !whole.is_kept() {
        trim(mapped, Trim::Warm);
        if whole.close() == Closed::Last {
            return end(mapped); // another had freed the last one, and saw ours claimed
        }
    }
    shelves::put_back(&mapped.header.id, cell);
    None
}

/// None of its cells is in use, and none will be.
fn end(mapped: &Mapped) -> Option<File> {
    end_file(mapped);
    let_go_of(mapped)
}

/// Its memory goes now, whoever has it mapped; but not under the threads of a process that ends.
fn end_file(mapped: &Mapped) {
    let is_touched = || mapped.leases().cells().any(|cell| cell.is_retired());
    if is_touched() {
        recover_all(mapped); // of those that have ended by now
    }
    if !is_touched() {
        let (_, bytes) = mapped.part(None);
        let _ = sys::punch(
            mapped.directory(),
            &mapped.header.id,
            &[(mapped.header.header_bytes, bytes)],
        );
    }
    mapped.discard();
}

/// Which free cells give their memory back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trim {
    /// Those that were used.
    Warm,
    /// And those that never were.
    All,
    /// And those whose mark says that they have none: somebody died between the mark and the deed.
    EvenMarked,
}

impl Trim {
    fn takes(self, cell: &Leases) -> bool {
        let is_marked = cell.words.flags().load(Ordering::Acquire) & PUNCHED != 0;
        cell.is_free()
            && (self != Self::Warm || !cell.is_unused())
            && (self == Self::EvenMarked || !is_marked)
    }
}

/// Gives the memory of free cells back. Returns its bytes.
fn trim(mapped: &Mapped, which: Trim) -> u64 {
    let Some(me) = sys::identity(mapped.directory()).filter(|_| mapped.header_is_writable()) else {
        return 0;
    };
    let whole = mapped.leases();
    let mut claimed = Vec::new();
    for (cell, leases) in whole.cells().enumerate() {
        if which.takes(&leases) {
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

/// Lets go of files that are only kept: of all, or of those that were not used since the last time.
/// Returns the bytes of what has ended.
pub(super) fn let_go_of_idle(is_all: bool) -> u64 {
    let idle = if is_all { shelves::take_all(File::is_in_use) } else { shelves::take_idle() };
    idle.into_iter()
        .map(|mut file| if file.leave() { file.mapped.header.segment_bytes() } else { 0 })
        .sum()
}

/// Lets go of files: of those that somebody holds by lock, so that our own mapping is not what
/// keeps them; of those that nobody keeps, when only their shelf has them mapped; and when memory
/// is wanted of all that only their shelf has. Returns the bytes of what has ended.
pub(super) fn let_go(how: How) -> u64 {
    let stays = |file: &File| {
        let in_use = Arc::strong_count(&file.mapped) > 1;
        !file.mapped.leases().is_by_lock()
            && (in_use || file.keeper.is_some() && how == How::Quietly)
    };
    let gone = shelves::take_all(stays);
    let bytes = gone
        .into_iter()
        .map(|mut file| if file.leave() { file.mapped.header.segment_bytes() } else { 0 });
    bytes.sum()
}

/// Of a file that somebody holds by lock: its maker's own mapping must not be what keeps it.
pub(super) fn let_go_of(mapped: &Mapped) -> Option<File> {
    shelves::take(&mapped.header.id)
}

/// At the end of this process, whose threads may still run: nothing is unmapped.
pub(super) fn leave_at_exit() {
    for mut file in shelves::take_all(|_| false) {
        file.leave();
        std::mem::forget(file);
    }
}

/// Frees what the dead had in a segment of cells. Whether one died between mark and deed
/// (`recover`).
fn recover_all(mapped: &Mapped) -> bool {
    let whole = mapped.leases();
    let Some(lives) = sys::Lives::look(mapped.directory()) else { return false };
    let is_void = |holder, about| lives.is_void(holder, about);
    let mut is_marked_in_vain = false;
    whole.clear_void(is_void);
    for cell in whole.cells().filter(|cell| !cell.is_unused()) {
        cell.clear_void(is_void);
        is_marked_in_vain |= cell.recover();
        cell.close();
    }
    is_marked_in_vain
}

/// What the dead left in a segment of cells, and what may go besides. Returns the bytes that went
/// back, and whether it ended.
pub(super) fn sweep(mapped: &Mapped, how: How) -> (u64, bool) {
    let whole = mapped.leases();
    let counted_before = whole.words.used().load(Ordering::Relaxed);
    let is_marked_in_vain = recover_all(mapped);
    let used = whole.cells().filter(Leases::is_used).count();
    // Not over what others have counted meanwhile: who frees the last cell must see that it is.
    let _ = whole.words.used().replace(counted_before, used as u64);
    let bytes = match how {
        _ if is_marked_in_vain => trim(mapped, Trim::EvenMarked),
        How::Pressing => trim(mapped, Trim::All),
        How::Quietly if whole.is_kept() => 0,
        How::Quietly => trim(mapped, Trim::Warm),
    };
    // Whoever freed the last cell meanwhile saw those claimed that were trimmed here. Or it is
    // dead, by somebody who died of it.
    let ends = whole.close() == Closed::Last || whole.is_dead();
    if ends {
        drop(end(mapped));
    }
    (bytes, ends)
}
