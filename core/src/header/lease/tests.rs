//! Leases in private memory, by one thread.

use std::ptr::NonNull;

use super::*;
use crate::header::format::SlabLayout;

/// A header page and a page of cell heads in private memory.
#[repr(align(8))]
struct Pages([u8; 8192]);

#[allow(unsafe_code)]
fn control(pages: &mut Pages) -> ControlWords {
    let header = NonNull::from(&mut pages.0).cast();
    // SAFETY: `new` needs an aligned, mapped header with room for its table and heads: these pages
    // are 8-aligned, have room for four entries and eight heads, and outlive the test.
    unsafe {
        ControlWords::new(
            header,
            4,
            Some(SlabLayout { cell_bytes: 4096, cells: 8, head_bytes: 512 }),
        )
    }
}

fn leases(pages: &mut Pages) -> Leases {
    let leases = Leases::of_segment(control(pages));
    leases.set_live(0);
    leases
}

#[test]
fn the_last_to_leave_closes_and_nobody_enters_afterwards() {
    let mut page = Pages([0; 8192]);
    let leases = leases(&mut page);
    let a = leases.take_entry(11, 0).unwrap();
    let b = leases.take_entry(12, 0).unwrap();
    assert!(leases.enter(a) && leases.enter(b));
    leases.leave(a);
    assert_eq!(leases.close(), Closed::Held);
    leases.leave(b);
    assert_eq!((leases.close(), leases.close()), (Closed::Last, Closed::Gone));
    let late = leases.take_entry(13, 0).unwrap();
    assert!(!leases.enter(late) && !leases.is_live());
}

#[test]
fn a_closing_that_a_dead_process_left_is_settled_by_the_next() {
    let mut page = Pages([0; 8192]);
    let leases = leases(&mut page);
    assert!(leases.advance(LIVE, CLOSING)); // and its process died
    let entry = leases.take_entry(11, 0).unwrap();
    assert!(leases.enter(entry));
    assert_eq!(leases.close(), Closed::Held);
    leases.leave(entry);
    assert!(leases.advance(leases.control.state().load(SeqCst), CLOSING));
    assert_eq!(leases.close(), Closed::Last);
}

#[test]
fn a_segment_that_persists_or_is_held_lock_only_is_not_closed() {
    let mut page = Pages([0; 8192]);
    let leases = leases(&mut page);
    leases.set_live(PERSIST);
    assert_eq!(leases.close(), Closed::Held);
    leases.set_live(0);
    assert!(leases.set_lock_only());
    assert_eq!(leases.close(), Closed::Held);
}

#[test]
fn only_dead_owners_are_cleared_and_a_full_table_is_reported() {
    let mut page = Pages([0; 8192]);
    let leases = leases(&mut page);
    let entries: Vec<_> =
        (1..=4).map(|owner| leases.take_entry(owner, owner * 10).unwrap()).collect();
    assert!(entries.iter().all(|entry| leases.enter(*entry)));
    assert_eq!(leases.take_entry(5, 0), None);
    leases.clear_dead_entries(|owner, owner_info| owner == 2 && owner_info == 20);
    assert_eq!(leases.take_entry(5, 0), Some(entries[1]));
    for entry in entries {
        leases.leave(entry);
    }
    assert_eq!(leases.close(), Closed::Last);
}

#[test]
fn a_message_holds_until_its_ticket_is_given_back_once() {
    let mut page = Pages([0; 8192]);
    let leases = leases(&mut page);
    assert!((21..24).all(|ticket| leases.hold_for_message(ticket, 1)));
    assert!(!leases.hold_for_message(24, 1), "a quarter is left to processes");
    assert!((21..24).all(|ticket| leases.close() == Closed::Held && leases.release_ticket(ticket)));
    assert!(!leases.release_ticket(21));
    assert_eq!(leases.close(), Closed::Last);
}

#[test]
fn a_cell_is_used_again_by_one_owner_and_stale_handles_are_refused() {
    let mut page = Pages([0; 8192]);
    let slab = Leases::of_slab(control(&mut page));
    slab.set_live(0);
    let cell = slab.cell(7).unwrap();
    assert!(slab.cell(8).is_none() && cell.is_unused());
    for generation in [5, 6] {
        let mine = cell.take_entry(11, 0).unwrap();
        assert!(cell.claim() && !cell.claim());
        let late = cell.take_entry(12, 0).unwrap();
        assert!(!cell.enter(late), "it is nobody's yet");
        cell.begin_life(mine, generation, 8);
        assert_eq!((cell.control.generation(), slab.close()), (generation, Closed::Held));
        cell.leave(mine);
        assert_eq!((cell.close(), cell.close()), (Closed::Last, Closed::Gone));
    }
    assert_eq!(slab.close(), Closed::Last);
    assert!(!slab.settle_and_is_live(), "nothing is made there any more");
}

#[test]
fn a_cell_that_a_process_held_at_its_exit_is_used_again_only_when_it_is_dead() {
    let mut page = Pages([0; 8192]);
    let slab = Leases::of_slab(control(&mut page));
    slab.set_live(0);
    let cell = slab.cell(0).unwrap();
    let entry = cell.take_entry(11, 0).unwrap();
    assert!(cell.claim());
    cell.begin_life(entry, 1, 8);
    cell.leave_at_exit(entry);
    assert_eq!(cell.close(), Closed::Last);
    cell.recover();
    assert!(cell.is_retired() && !cell.claim(), "its threads may still run");
    cell.clear_dead_entries(|owner, _| owner == 11);
    cell.recover();
    assert!(cell.is_free());
    assert_eq!(slab.close(), Closed::Last, "and the slab could have gone before");
}

#[test]
fn a_cell_claimed_by_a_dead_process_is_freed_and_a_living_ones_is_not() {
    let mut page = Pages([0; 8192]);
    let cell = Leases::of_slab(control(&mut page)).cell(0).unwrap();
    cell.take_entry(11, 0).unwrap();
    assert!(cell.claim());
    cell.recover();
    assert!(!cell.is_free());
    cell.clear_dead_entries(|owner, _| owner == 11);
    cell.recover();
    assert!(cell.is_free());
}
