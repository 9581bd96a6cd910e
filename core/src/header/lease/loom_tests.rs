//! Leases under loom: every interleaving that it finds, and every value that a load may return,
//! with `lease` as it is shipped.
//!
//! Each scenario runs a few threads, each of which stands for a process. They use leases as
//! `segment` does, and count the calls that returned [`Closed::Last`]: one for each life. The
//! memory of a cell is a loom cell, which reports two lives that touch it without being ordered.
//! `ci/loom` runs this; LOOM_MAX_PREEMPTIONS=3 makes it search deeper, for hours.
#![allow(unsafe_code)] // several threads share one cell of memory

mod weaker;

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use super::*;
use crate::header::control::DECOMMITTED;
use crate::header::control::loom_scenarios::{Scenario, scenarios};

scenarios! {
    the_last_to_leave_and_one_that_enters_do_not_both_win: 3;
    one_of_two_that_leave_at_once_is_the_last: 4;
    three_that_meet_at_a_closing_end_it_once: 1;
    a_ticket_holds_until_its_receiver_does: 3;
    a_ticket_is_given_back_once_though_two_processes_try: 3;
    a_cell_that_is_used_again_is_one_life_at_a_time: 2;
    a_stale_handle_never_keeps_a_cell_that_nobody_holds: 1;
    one_of_two_that_claim_a_cell_owns_it: 3;
    a_cell_is_trimmed_or_used_and_never_both: 3;
    no_cell_lives_in_a_dead_slab: 3;
    one_of_two_processes_that_free_cells_at_once_ends_the_slab: 4;
    a_trim_beside_the_last_to_leave_ends_the_slab: 2;
    a_lock_only_holder_is_seen_or_refused: 4;
    a_segment_that_no_longer_persists_is_ended_once: 4;
    a_dead_owners_entry_is_cleared_and_the_next_owners_is_not: 1;
    the_info_beside_an_owner_is_its_own: 2;
    a_cell_claimed_by_a_dead_owner_is_freed_and_a_living_ones_is_not: 1;
}

mod bodies {
    use super::*;

    pub(super) fn the_last_to_leave_and_one_that_enters_do_not_both_win() {
        let (segment, first) = held_segment(2);
        let other = spawn(move || visit(segment, 2, |_| ()));
        assert_eq!(leave(segment, first) + other.join().unwrap(), 1);
        assert_eq!(segment.close(), Closed::Gone);
    }

    pub(super) fn one_of_two_that_leave_at_once_is_the_last() {
        let (segment, first) = held_segment(2);
        let second = attach(segment, 2).unwrap();
        let other = spawn(move || leave(segment, second));
        assert_eq!(leave(segment, first) + other.join().unwrap(), 1);
    }

    /// A third process began to close, and died.
    pub(super) fn three_that_meet_at_a_closing_end_it_once() {
        let (segment, first) = held_segment(3);
        assert!(segment.advance(segment.control.state().load(Acquire), CLOSING));
        let [second, third] = [2, 3].map(|owner| spawn(move || visit(segment, owner, |_| ())));
        assert_eq!(leave(segment, first) + second.join().unwrap() + third.join().unwrap(), 1);
        assert_eq!(segment.close(), Closed::Gone);
    }

    pub(super) fn a_ticket_holds_until_its_receiver_does() {
        let (segment, sender) = held_segment(4);
        assert!(segment.hold_for_message(50, 0));
        let receiver = spawn(move || {
            let entry = attach(segment, 2).expect("its ticket holds it");
            assert!(segment.release_ticket(50) && segment.is_live());
            leave(segment, entry)
        });
        assert_eq!(leave(segment, sender) + receiver.join().unwrap(), 1);
    }

    /// The message was both attached and discarded, while another one is sent.
    pub(super) fn a_ticket_is_given_back_once_though_two_processes_try() {
        let (segment, sender) = held_segment(4);
        assert!(segment.hold_for_message(50, 0));
        let give_back = move || usize::from(segment.release_ticket(50));
        let one = spawn(give_back);
        let next = spawn(move || segment.hold_for_message(51, 0));
        assert_eq!(give_back() + one.join().unwrap(), 1);
        assert!(next.join().unwrap());
        assert_eq!(leave(segment, sender), 0);
        assert!(segment.release_ticket(51));
        assert_eq!(last(segment), 1);
    }

    /// The maker leaves a cell and uses it again, while a process attaches by a handle of the first
    /// life.
    pub(super) fn a_cell_that_is_used_again_is_one_life_at_a_time() {
        let cell = slab(1, 2).cell(0).unwrap();
        let memory = Memory::new();
        let maker = make(cell, 1, memory, 5).unwrap();
        let stale = spawn(move || visit(cell, 2, |_| read_its_life(cell, memory, 5)));
        let ended = leave(cell, maker);
        let again = make(cell, 1, memory, 6);
        let begun = 1 + usize::from(again.is_some());
        let ended = ended + again.map_or(0, |entry| leave(cell, entry));
        assert_eq!(ended + stale.join().unwrap(), begun);
    }

    /// As before, but another process than the maker ends the first life.
    pub(super) fn a_stale_handle_never_keeps_a_cell_that_nobody_holds() {
        let cell = slab(1, 2).cell(0).unwrap();
        let memory = Memory::new();
        let first = make(cell, 1, memory, 5).unwrap();
        let maker = spawn(move || make_and_leave(cell, 1, memory, 6));
        let stale = spawn(move || visit(cell, 2, |_| read_its_life(cell, memory, 5)));
        let ended = leave(cell, first) + stale.join().unwrap();
        let (begun, ended_again) = maker.join().unwrap();
        assert_eq!(ended + ended_again, 1 + begun);
    }

    pub(super) fn one_of_two_that_claim_a_cell_owns_it() {
        let cell = slab(1, 2).cell(0).unwrap();
        let memory = Memory::new();
        let other = spawn(move || make_and_leave(cell, 1, memory, 1));
        let (here, ended_here) = make_and_leave(cell, 2, memory, 2);
        let (there, ended_there) = other.join().unwrap();
        assert!(here + there >= 1);
        assert_eq!(ended_here + ended_there, here + there);
    }

    pub(super) fn a_cell_is_trimmed_or_used_and_never_both() {
        let cell = slab(1, 2).cell(0).unwrap();
        let memory = Memory::new();
        let trims = spawn(move || {
            let entry = cell.take_entry(1, 10).unwrap();
            if cell.claim() {
                cell.control.flags().set(DECOMMITTED);
                memory.decommit();
                cell.unclaim();
            }
            cell.leave(entry);
        });
        let (begun, ended) = make_and_leave(cell, 2, memory, 5);
        trims.join().unwrap();
        assert_eq!(begun, ended);
        cell.recover(); // it may have ended beside the trimmer's entry
        assert!(make(cell, 3, memory, 6).is_some());
    }

    /// The owner of the last cell ends the slab: then the maker can no longer use it. As long as
    /// the maker uses it, nobody ends it.
    pub(super) fn no_cell_lives_in_a_dead_slab() {
        let slab = slab(2, 1);
        let memory = [Memory::new(), Memory::new()];
        let first = make(slab.cell(0).unwrap(), 1, memory[0], 5).unwrap();
        slab.control.used().add(1);
        let maker = spawn(move || {
            let cell = slab.cell(1).unwrap();
            let entry = cell.take_entry(1, 10).unwrap();
            assert!(cell.claim());
            slab.control.used().add(1);
            if !slab.settle_and_is_live() {
                cell.unclaim();
                cell.leave(entry);
                return 0;
            }
            memory[1].clear(false);
            cell.begin_life(entry, 6, 48);
            assert!(slab.is_live(), "its slab has ended");
            free(slab, 1, entry, memory)
        });
        assert_eq!(free(slab, 0, first, memory) + maker.join().unwrap(), 1);
        assert!(!slab.is_live());
    }

    pub(super) fn one_of_two_processes_that_free_cells_at_once_ends_the_slab() {
        let slab = slab(2, 1);
        let memory = [Memory::new(), Memory::new()];
        let [first, second] = [0, 1].map(|cell| {
            slab.control.used().add(1);
            make(slab.cell(cell).unwrap(), 1, memory[cell as usize], 5).unwrap()
        });
        let there = spawn(move || free(slab, 1, second, memory));
        assert_eq!(free(slab, 0, first, memory) + there.join().unwrap(), 1);
    }

    /// The last process to leave may see a cell that was claimed to be trimmed, and then does not
    /// end the slab.
    pub(super) fn a_trim_beside_the_last_to_leave_ends_the_slab() {
        let slab = slab(2, 2);
        let memory = [Memory::new(), Memory::new()];
        slab.control.used().add(1);
        let first = make(slab.cell(0).unwrap(), 1, memory[0], 5).unwrap();
        let trims = spawn(move || {
            let other = slab.cell(1).unwrap();
            let entry = other.take_entry(3, 30).unwrap();
            if other.claim() {
                other.unclaim();
            }
            other.leave(entry);
            last(slab)
        });
        assert_eq!(free(slab, 0, first, memory) + trims.join().unwrap(), 1);
    }

    pub(super) fn a_lock_only_holder_is_seen_or_refused() {
        let (segment, first) = held_segment(1);
        let lock_only = spawn(move || usize::from(segment.set_lock_only()));
        assert_eq!(leave(segment, first) + lock_only.join().unwrap(), 1);
    }

    pub(super) fn a_segment_that_no_longer_persists_is_ended_once() {
        let (segment, first) = held_segment(1);
        segment.set_live(PERSIST);
        let unlinks = spawn(move || {
            segment.control.flags().clear(PERSIST);
            last(segment)
        });
        assert_eq!(leave(segment, first) + unlinks.join().unwrap(), 1);
    }

    /// Two sweeps, and a process that takes the only entry, a dead owner's, meanwhile.
    pub(super) fn a_dead_owners_entry_is_cleared_and_the_next_owners_is_not() {
        let segment = Leases::of_segment(ControlWords::modelled(1, 0));
        segment.set_live(0);
        segment.set_held(segment.take_entry(DEAD_OWNER, 0).unwrap());
        let sweep = move || {
            clear_dead(segment);
            last(segment)
        };
        let one = spawn(sweep);
        let next = spawn(move || visit(segment, 2, |entry| assert_is_its(segment, entry, 2)));
        assert_eq!(sweep() + one.join().unwrap() + next.join().unwrap(), 1);
    }

    /// The kernel is asked about an owner by its info. The info of an entry that is seen held is
    /// its owner's, unless that owner has left.
    pub(super) fn the_info_beside_an_owner_is_its_own() {
        let (segment, first) = held_segment(2);
        let comes_and_goes = move |owner| {
            let Some(entry) = segment.take_entry(owner, owner * 10) else { return };
            assert!(segment.enter(entry));
            assert_is_its(segment, entry, owner);
            assert_eq!(leave(segment, entry), 0);
        };
        let both = [2, 3].map(|owner| spawn(move || comes_and_goes(owner)));
        let seen = segment.control.entries()[1].owner.load(Relaxed);
        segment.clear_dead_entries(|owner, owner_info| {
            seen == (owner << 1 | HELD) && owner_info != owner * 10
        });
        both.into_iter().for_each(|one| one.join().unwrap());
        assert_eq!(leave(segment, first), 1);
    }

    pub(super) fn a_cell_claimed_by_a_dead_owner_is_freed_and_a_living_ones_is_not() {
        let cell = slab(1, 2).cell(0).unwrap();
        let memory = Memory::new();
        cell.take_entry(DEAD_OWNER, 0).unwrap();
        assert!(cell.claim());
        cell.control.flags().set(DECOMMITTED); // before the memory goes
        memory.decommit();
        let sweep = move || {
            clear_dead(cell);
            cell.recover();
            last(cell)
        };
        let one = spawn(sweep);
        let maker = spawn(move || make_and_leave(cell, 1, memory, 6));
        let ended = sweep() + one.join().unwrap();
        let (begun, ended_by_maker) = maker.join().unwrap();
        assert_eq!(ended + ended_by_maker, begun);
        sweep(); // the others may have met an entry of a living owner
        assert!(cell.is_free());
    }
}

/// An owner that every sweep knows to be dead.
const DEAD_OWNER: u64 = 7;

fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    thread::spawn(body)
}

/// Makes a segment. Returns it with the entry by which its maker holds it.
fn held_segment(entries: usize) -> (Leases, EntryIndex) {
    let segment = Leases::of_segment(ControlWords::modelled(entries, 0));
    segment.set_live(0);
    (segment, attach(segment, 1).unwrap())
}

/// Makes a slab.
fn slab(cells: usize, entries: usize) -> Leases {
    let slab = Leases::of_slab(ControlWords::modelled(entries, cells));
    slab.set_live(0);
    slab
}

/// Attaches as `segment::hold::enter` does. Returns the entry or, if it was refused and therefore
/// closed, whether that close was the last.
fn attach(leases: Leases, owner: u64) -> Result<EntryIndex, usize> {
    let entry = || leases.take_entry(owner, owner * 10);
    let again = || {
        clear_dead(leases);
        entry()
    };
    match entry().or_else(again) {
        Some(entry) if leases.enter(entry) => Ok(entry),
        Some(_) => Err(last(leases)),
        None => Err(0), // there it would hold lock-only
    }
}

fn clear_dead(leases: Leases) {
    leases.clear_dead_entries(|owner, _| owner == DEAD_OWNER);
}

/// Attaches, looks and leaves. Returns whether it was the last.
fn visit(leases: Leases, owner: u64, look: impl FnOnce(EntryIndex)) -> usize {
    attach(leases, owner).map_or_else(
        |last| last,
        |entry| {
            look(entry);
            assert!(leases.is_live(), "it ended while it was held");
            leave(leases, entry)
        },
    )
}

/// Leaves as `Segment::leave` does. Returns whether it was the last.
fn leave(leases: Leases, entry: EntryIndex) -> usize {
    leases.leave(entry);
    last(leases)
}

fn last(leases: Leases) -> usize {
    usize::from(leases.close() == Closed::Last)
}

fn assert_is_its(leases: Leases, entry: EntryIndex, owner: u64) {
    assert_eq!(
        leases.control.entries()[entry].owner.load(Relaxed),
        owner << 1 | HELD,
        "it was cleared"
    );
}

/// Begins a new life of a cell, as `slab::cell` does.
fn make(cell: Leases, owner: u64, memory: Memory, generation: u64) -> Option<EntryIndex> {
    let entry = cell.take_entry(owner, owner * 10)?;
    if !cell.claim() {
        cell.leave(entry);
        return None;
    }
    memory.clear(cell.control.flags().load(Acquire) & DECOMMITTED != 0);
    cell.begin_life(entry, generation, generation * 8);
    assert!(cell.is_live(), "it was taken from its owner");
    Some(entry)
}

/// Returns how many lives it began, and how many it ended.
fn make_and_leave(cell: Leases, owner: u64, memory: Memory, generation: u64) -> (usize, usize) {
    make(cell, owner, memory, generation).map_or((0, 0), |entry| (1, leave(cell, entry)))
}

/// Frees a cell as its drop and `slab::release::freed` do. Returns whether that ended the slab,
/// whose memory is released then.
fn free(slab: Leases, cell: u32, entry: EntryIndex, memory: [Memory; 2]) -> usize {
    memory[cell as usize].read();
    assert_eq!(leave(slab.cell(cell).unwrap(), entry), 1);
    let ended = slab.close_if_unused() == Closed::Last;
    if ended {
        memory.iter().for_each(|memory| memory.decommit());
    }
    usize::from(ended)
}

/// Reads the array of a handle. The generation tells another array from it.
fn read_its_life(cell: Leases, memory: Memory, generation: u64) {
    let found = cell.control.generation();
    assert_eq!(cell.control.data_bytes().load(Relaxed), found * 8, "of two lives");
    if found == generation {
        memory.read();
    }
}

/// The memory of a cell: whether it is there.
#[derive(Clone, Copy)]
struct Memory(&'static Presence);

struct Presence(UnsafeCell<bool>);

// SAFETY: the cell may be shared between threads, because loom's `UnsafeCell` checks every access
// to it and fails the model when two of them are not ordered.
unsafe impl Sync for Presence {}

impl Memory {
    fn new() -> Self {
        Self(Box::leak(Box::new(Presence(UnsafeCell::new(true)))))
    }

    fn read(self) {
        // SAFETY: the pointer is valid for a read, because loom's cell is leaked in `new` and fails
        // the model when a thread writes to it meanwhile.
        assert!(self.0.0.with(|there| unsafe { *there }), "its memory is gone");
    }

    fn decommit(self) {
        // SAFETY: the pointer is valid for a write, because loom's cell is leaked in `new` and
        // fails the model when another thread touches it meanwhile.
        self.0.0.with_mut(|there| unsafe { *there = false });
    }

    /// Reserves the memory again if it was decommitted; otherwise it must be there.
    fn clear(self, was_decommitted: bool) {
        // SAFETY: the pointer is valid for a write, because loom's cell is leaked in `new` and
        // fails the model when another thread touches it meanwhile.
        let was_there = self.0.0.with_mut(|there| unsafe { std::mem::replace(&mut *there, true) });
        assert!(was_there || was_decommitted, "it is not there");
    }
}
