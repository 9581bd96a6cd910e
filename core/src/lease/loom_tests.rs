//! Leases in every order that loom finds, with every value that a load may see: `lease` as it is shipped.
//!
//! Each scenario is a few threads, one for each process. They do what `segment` does with leases, and
//! count who was told [`Closed::Last`]: in all, each life has one who was. The memory of a cell is
//! loom's cell, which says when two lives touch it without being in order. `ci/loom` runs this.
#![allow(unsafe_code)] // one cell of memory is for several threads

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::cell::UnsafeCell;
use loom::thread::{self, JoinHandle};

use super::*;
use crate::words::Entry;
use crate::words::modelled::{Loss, Weaker, possible_losses, weaken};

/// A name, how often at most a thread is interrupted where it need not be, and what is modelled.
struct Scenario {
    name: &'static str,
    interruptions: Option<usize>,
    body: fn(),
}

macro_rules! scenarios {
    ($($name:ident: $interruptions:expr;)*) => {
        const SCENARIOS: &[Scenario] =
            &[$(Scenario { name: stringify!($name), interruptions: $interruptions, body: bodies::$name }),*];
        $(
            #[test]
            fn $name() {
                let scenario = SCENARIOS.iter().find(|scenario| scenario.name == stringify!($name)).unwrap();
                let began = std::time::Instant::now();
                println!("{}: {} executions {:?}", scenario.name, scenario.explore(), began.elapsed());
            }
        )*
    };
}

scenarios! {
    the_last_to_leave_and_one_who_enters_do_not_both_win: Some(3);
    of_two_who_leave_at_once_one_is_told_that_it_was_the_last: Some(3);
    three_who_meet_at_a_closing_end_it_once: Some(1);
    a_ticket_holds_until_its_receiver_does: Some(3);
    a_ticket_is_given_back_once_though_two_try: Some(3);
    a_cell_that_is_used_again_is_one_life_at_a_time: Some(2);
    a_stale_handle_never_keeps_a_cell_that_nobody_holds: Some(1);
    of_two_who_claim_a_cell_one_owns_it: Some(3);
    no_cell_lives_in_a_dead_file: Some(3);
    of_two_who_free_cells_at_once_one_ends_the_file: Some(3);
    who_holds_by_lock_is_seen_or_refused: Some(3);
    what_no_longer_persists_is_ended_once: Some(3);
    a_dead_holders_place_is_cleared_and_its_next_holders_is_not: Some(1);
    what_stands_beside_a_holder_is_his: Some(2);
    what_the_dead_had_claimed_is_free_and_what_the_living_have_is_not: Some(1);
}

impl Scenario {
    /// Runs it in every order. Returns how many there were.
    fn explore(&self) -> usize {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let (runs, body) = (&*Box::leak(Box::new(AtomicUsize::new(0))), self.body);
        let mut model = loom::model::Builder::new();
        model.preemption_bound = self.interruptions;
        model.max_branches = 10_000;
        model.check(move || {
            runs.fetch_add(1, Ordering::Relaxed);
            body();
        });
        RUNS.fetch_add(runs.load(Ordering::Relaxed), Ordering::Relaxed);
        runs.load(Ordering::Relaxed)
    }
}

/// What must not be left out of `lease.rs`, by its line there.
const NEEDED: &[(&str, Loss)] = &[
    ("fence(SeqCst); // F1", Loss::Fence),
    ("fence(SeqCst); // F2", Loss::Fence),
    ("fence(SeqCst); // F2: the load is that of the close", Loss::Fence),
    ("self.words.entries()[place].holder.set(HELD);", Loss::Release),
    ("self.words.entries()[place].holder.store(0, Release);", Loss::Release),
    ("let state = self.words.state().load(Acquire);", Loss::Acquire),
    ("self.words.state().replace(from, next)", Loss::Release),
    ("let word = entry.holder.load(Acquire);", Loss::Acquire),
];

/// Which scenario fails without it.
fn catcher(weaker: Weaker) -> Option<&'static str> {
    weaken(Some(weaker));
    let fails = |scenario: &&Scenario| catch_unwind(AssertUnwindSafe(|| scenario.explore())).is_err();
    let catcher = SCENARIOS.iter().find(fails);
    weaken(None);
    catcher.map(|scenario| scenario.name)
}

/// Each ordering that `lease` asks for, and each fence, is left out in turn.
#[test]
fn what_is_left_out_is_caught() {
    std::panic::set_hook(Box::new(|_| ())); // of those that are to come
    let source: Vec<_> = include_str!("../lease.rs").lines().collect();
    let losses = possible_losses(|| SCENARIOS.iter().for_each(|scenario| assert!(scenario.explore() > 0)));
    for (line, column, loss) in losses {
        let place = source[line as usize - 1].trim();
        println!(
            "{line}:{column} without {loss:?}: {} | {place}",
            catcher((line, column, loss)).unwrap_or("NOT CAUGHT")
        );
    }
}

mod bodies {
    use super::*;

    pub(super) fn the_last_to_leave_and_one_who_enters_do_not_both_win() {
        let (segment, first) = held_segment(2);
        let other = spawn(move || visit(segment, 2, |_| ()));
        assert_eq!(leave(segment, first) + other.join().unwrap(), 1);
        assert_eq!(segment.close(), Closed::Gone);
    }

    pub(super) fn of_two_who_leave_at_once_one_is_told_that_it_was_the_last() {
        let (segment, first) = held_segment(2);
        let second = attach(segment, 2).unwrap();
        let other = spawn(move || leave(segment, second));
        assert_eq!(leave(segment, first) + other.join().unwrap(), 1);
    }

    /// One of them began to close, and died.
    pub(super) fn three_who_meet_at_a_closing_end_it_once() {
        let (segment, first) = held_segment(3);
        segment.advance(segment.words.state().load(Acquire), CLOSING);
        let [second, third] = [2, 3].map(|holder| spawn(move || visit(segment, holder, |_| ())));
        assert_eq!(leave(segment, first) + second.join().unwrap() + third.join().unwrap(), 1);
        assert_eq!(segment.close(), Closed::Gone);
    }

    pub(super) fn a_ticket_holds_until_its_receiver_does() {
        let (segment, sender) = held_segment(4);
        assert!(segment.hold_for_message(50, 0));
        let receiver = spawn(move || {
            let place = attach(segment, 2).expect("its ticket holds it");
            assert!(segment.give_back_ticket(50) && segment.is_live());
            leave(segment, place)
        });
        assert_eq!(leave(segment, sender) + receiver.join().unwrap(), 1);
    }

    /// A message that was both attached and discarded, while another takes its place.
    pub(super) fn a_ticket_is_given_back_once_though_two_try() {
        let (segment, sender) = held_segment(4);
        assert!(segment.hold_for_message(50, 0));
        let give_back = move || usize::from(segment.give_back_ticket(50));
        let (one, next) = (spawn(give_back), spawn(move || usize::from(segment.hold_for_message(51, 0))));
        assert_eq!(give_back() + one.join().unwrap(), 1);
        assert_eq!(next.join().unwrap(), 1);
        assert_eq!(leave(segment, sender), 0);
        assert!(segment.give_back_ticket(51));
        assert_eq!(last(segment), 1);
    }

    /// Its maker leaves a cell and uses it again, while somebody comes with a handle of the first life.
    pub(super) fn a_cell_that_is_used_again_is_one_life_at_a_time() {
        let (cell, memory) = (file(1, 3).cell(0).unwrap(), Memory::new());
        let maker = make(cell, 1, memory, 5).unwrap();
        let stale = spawn(move || visit(cell, 2, |_| read_its_life(cell, memory, 5)));
        let ended = leave(cell, maker);
        let again = make(cell, 1, memory, 6);
        let begun = 1 + usize::from(again.is_some());
        let ended = ended + again.map_or(0, |place| leave(cell, place));
        assert_eq!(ended + stale.join().unwrap(), begun);
    }

    /// The same, where others than its maker were the last.
    pub(super) fn a_stale_handle_never_keeps_a_cell_that_nobody_holds() {
        let (cell, memory) = (file(1, 3).cell(0).unwrap(), Memory::new());
        let first = make(cell, 1, memory, 5).unwrap();
        let maker = spawn(move || {
            let again = make(cell, 1, memory, 6);
            (again.is_some(), again.map_or(0, |place| leave(cell, place)))
        });
        let stale = spawn(move || visit(cell, 2, |_| read_its_life(cell, memory, 5)));
        let mut ended = leave(cell, first) + stale.join().unwrap();
        let (again, last) = maker.join().unwrap();
        ended += last;
        assert_eq!(ended, 1 + usize::from(again));
    }

    pub(super) fn of_two_who_claim_a_cell_one_owns_it() {
        let (cell, memory) = (file(1, 2).cell(0).unwrap(), Memory::new());
        let make_and_leave = move |holder| {
            let made = make(cell, holder, memory, holder);
            (usize::from(made.is_some()), made.map_or(0, |place| leave(cell, place)))
        };
        let other = spawn(move || make_and_leave(1));
        let ((made, ended), (made_there, ended_there)) = (make_and_leave(2), other.join().unwrap());
        assert!(made + made_there >= 1);
        assert_eq!(ended + ended_there, made + made_there);
    }

    /// What its last cell's holder ends, its maker can no longer use; what he uses, nobody ends.
    pub(super) fn no_cell_lives_in_a_dead_file() {
        let (file, memory) = (file(2, 1), [Memory::new(), Memory::new()]);
        let first = make(file.cell(0).unwrap(), 1, memory[0], 5).unwrap();
        file.words.used().add(1);
        let maker = spawn(move || {
            let cell = file.cell(1).unwrap();
            let place = cell.place(1, 10).unwrap();
            assert!(cell.claim());
            file.words.used().add(1);
            if !file.look() {
                cell.unclaim();
                cell.leave(place);
                return 0;
            }
            memory[1].write();
            cell.begin(place, 6, 48);
            assert!(file.is_live(), "its file has ended");
            free(file, 1, place, memory)
        });
        assert_eq!(free(file, 0, first, memory) + maker.join().unwrap(), 1);
        assert!(!file.is_live());
    }

    pub(super) fn of_two_who_free_cells_at_once_one_ends_the_file() {
        let (file, memory) = (file(2, 1), [Memory::new(), Memory::new()]);
        let [first, second] = [0, 1].map(|cell| {
            file.words.used().add(1);
            make(file.cell(cell).unwrap(), 1, memory[cell as usize], 5).unwrap()
        });
        let there = spawn(move || free(file, 1, second, memory));
        assert_eq!(free(file, 0, first, memory) + there.join().unwrap(), 1);
    }

    pub(super) fn who_holds_by_lock_is_seen_or_refused() {
        let (segment, first) = held_segment(1);
        let by_lock = spawn(move || usize::from(segment.hold_by_lock()));
        assert_eq!(leave(segment, first) + by_lock.join().unwrap(), 1);
    }

    pub(super) fn what_no_longer_persists_is_ended_once() {
        let (segment, first) = held_segment(1);
        segment.be_live(PERSIST);
        let unlinks = spawn(move || {
            segment.words.flags().clear(PERSIST);
            last(segment)
        });
        assert_eq!(leave(segment, first) + unlinks.join().unwrap(), 1);
    }

    /// Two who sweep, and one who takes a dead holder's place meanwhile: the only one there is.
    pub(super) fn a_dead_holders_place_is_cleared_and_its_next_holders_is_not() {
        let (segment, _) = held_segment(1);
        segment.words.entries()[0].holder.store(DEAD_HOLDER << 1 | HELD, Release);
        let sweep = move || {
            clear_dead(segment);
            last(segment)
        };
        let look = move |place| {
            let own: &Entry = &segment.words.entries()[place];
            assert_eq!(own.holder.load(Relaxed), 2 << 1 | HELD, "it was taken from its holder");
        };
        let (one, next) = (spawn(sweep), spawn(move || visit(segment, 2, look)));
        assert_eq!(sweep() + one.join().unwrap() + next.join().unwrap(), 1);
    }

    /// Who may be dead is asked of the kernel by what stands beside the holder: of one who is seen
    /// to hold that is his, or he is no longer there.
    pub(super) fn what_stands_beside_a_holder_is_his() {
        let (segment, first) = held_segment(2);
        let both = [2, 3].map(|holder| {
            spawn(move || {
                let place = segment.place(holder, holder * 10)?;
                assert!(segment.enter(place));
                assert_eq!(segment.words.entries()[place].holder.load(Relaxed), holder << 1 | HELD, "it was cleared");
                Some(assert_eq!(leave(segment, place), 0))
            })
        });
        let seen = segment.words.entries()[1].holder.load(Relaxed);
        segment.clear_void(|holder, about| seen == (holder << 1 | HELD) && about != holder * 10);
        both.into_iter().for_each(|one| drop(one.join().unwrap()));
        assert_eq!(leave(segment, first), 1);
    }

    pub(super) fn what_the_dead_had_claimed_is_free_and_what_the_living_have_is_not() {
        let (cell, memory) = (file(1, 2).cell(0).unwrap(), Memory::new());
        cell.place(DEAD_HOLDER, 0).unwrap();
        assert!(cell.claim());
        memory.write();
        let sweep = move || {
            clear_dead(cell);
            cell.recover();
            last(cell)
        };
        let (one, maker) = (
            spawn(sweep),
            spawn(move || {
                let Some(place) = make(cell, 1, memory, 6) else { return (0, 0) };
                assert!(cell.is_live(), "it was taken from its owner");
                (1, leave(cell, place))
            }),
        );
        let (ended, (begun, last)) = (sweep() + one.join().unwrap(), maker.join().unwrap());
        assert_eq!(ended + last, begun);
        sweep(); // the others may have met an entry of the living
        assert!(cell.is_free());
    }
}

/// A holder that every sweep knows to be dead.
const DEAD_HOLDER: u64 = 7;

fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> JoinHandle<T> {
    thread::spawn(body)
}

/// A new segment, and the place by which its maker holds it.
fn held_segment(entries: usize) -> (Leases, Place) {
    let segment = Leases::of_segment(Words::modelled(entries, 0));
    segment.be_live(0);
    (segment, attach(segment, 1).unwrap())
}

/// A new segment of cells.
fn file(cells: usize, entries: usize) -> Leases {
    let file = Leases::of_cells(Words::modelled(entries, cells));
    file.be_live(0);
    file
}

/// As `segment::enter`: how it came in, or, since who is refused closes, whether it was the last.
fn attach(leases: Leases, holder: u64) -> Result<Place, usize> {
    let place = leases.place(holder, holder * 10).or_else(|| {
        clear_dead(leases);
        leases.place(holder, holder * 10)
    });
    let place = place.expect("there is room");
    if leases.enter(place) { Ok(place) } else { Err(last(leases)) }
}

fn clear_dead(leases: Leases) {
    leases.clear_void(|holder, _| holder == DEAD_HOLDER);
}

/// Attaches, looks, and leaves: whether it was the last.
fn visit(leases: Leases, holder: u64, look: impl FnOnce(Place)) -> usize {
    attach(leases, holder).map_or_else(
        |last| last,
        |place| {
            look(place);
            assert!(leases.is_live(), "it ended while it was held");
            leave(leases, place)
        },
    )
}

/// As `segment::leave`: whether it was the last.
fn leave(leases: Leases, place: Place) -> usize {
    leases.leave(place);
    last(leases)
}

fn last(leases: Leases) -> usize {
    usize::from(leases.close() == Closed::Last)
}

/// As `cells::create`: a new life of a cell, its memory cleared.
fn make(cell: Leases, holder: u64, memory: Memory, generation: u64) -> Option<Place> {
    let place = cell.place(holder, holder * 10)?;
    if !cell.claim() {
        cell.leave(place);
        return None;
    }
    memory.write();
    cell.begin(place, generation, generation * 8);
    Some(place)
}

/// As a cell's drop and `cells::freed`: whether it ended the file, whose memory goes then.
fn free(file: Leases, cell: u32, place: Place, memory: [Memory; 2]) -> usize {
    memory[cell as usize].read();
    assert_eq!(leave(file.cell(cell).unwrap(), place), 1);
    let ended = file.close_if_unused() == Closed::Last;
    if ended {
        memory.iter().for_each(|memory| memory.write());
    }
    usize::from(ended)
}

/// Who is in reads the array of its handle, and knows another by its generation.
fn read_its_life(cell: Leases, memory: Memory, generation: u64) {
    let found = cell.words.generation();
    assert_eq!(cell.words.data_bytes().load(Relaxed), found * 8, "of two lives");
    if found == generation {
        memory.read();
    }
}

/// The data of a cell.
#[derive(Clone, Copy)]
struct Memory(&'static Shared);

struct Shared(UnsafeCell<()>);

// SAFETY: nothing is in it; loom looks at who touches it when.
unsafe impl Sync for Shared {}

impl Memory {
    fn new() -> Self {
        Self(Box::leak(Box::new(Shared(UnsafeCell::new(())))))
    }

    fn read(self) {
        self.0.0.with(|_| ());
    }

    fn write(self) {
        self.0.0.with_mut(|_| ());
    }
}
