//! What a forked child inherits.
//!
//! A child holds what its parent held from its first instruction on: the parent makes the
//! child's entries before the fork, with every lock of this library taken, so that the child
//! finds whole tables. PROTOCOL.md says what a crash at each step leaves.
//!
//! | handler | does |
//! |---|---|
//! | `before` | takes the locks, registers the child, makes its entries, waits until no descriptor of ours is open |
//! | `in_parent` | leaves the child's registration to the child, gives the locks back |
//! | `in_child` | takes the entries and the registration over; frees the locks. Allocates nothing |

use std::sync::atomic::{AtomicBool, Ordering};

use super::cells::{self, SHELVES};
use super::table::{TABLE, Table};
use super::{BY_LOCK, Segment, hold_by_lock};
use crate::error::{Error, Result};
use crate::sys::{self, MutexGuard, fork};

static ARE_REGISTERED: AtomicBool = AtomicBool::new(false);

/// The handlers are registered when the library is loaded, so that no fork comes before them and
/// nobody waits for a first use that another thread of the parent had begun.
#[used]
#[allow(unsafe_code)] // the place of a pointer to a function that takes nothing
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = register;

extern "C" fn register() {
    if !ARE_REGISTERED.swap(true, Ordering::Relaxed) {
        fork::on_fork_and_exit(before, in_parent, in_child, super::process::exit);
    }
}

/// Before each operation that makes or attaches something.
///
/// # Errors
/// [`Error::Unsupported`] in a process that a signal handler forked inside of this library.
pub(crate) fn begin() -> Result<()> {
    if !ARE_REGISTERED.load(Ordering::Relaxed) {
        register(); // a linker left AT_LOAD out
    }
    match sys::is_orphaned() {
        false => Ok(()),
        true => Err(Error::Unsupported {
            what: "any use in a child that was forked by a signal handler inside of this library",
        }),
    }
}

extern "C" fn before() {
    if !fork::can_prepare() {
        return;
    }
    let table = TABLE.lock();
    cells::before_fork();
    fork::register_child();
    Table::for_each(&table, Segment::lend_to_child);
    fork::ask_no_more();
    MutexGuard::leak(table);
    fork::close_gate();
}

#[allow(unsafe_code)]
extern "C" fn in_parent() {
    if !fork::was_prepared() {
        return;
    }
    fork::after_in_parent();
    // SAFETY: `before` locked it in this thread.
    unsafe { SHELVES.force_unlock() };
    // SAFETY: `before` locked it in this thread.
    unsafe { TABLE.force_unlock() };
}

#[allow(unsafe_code)]
extern "C" fn in_child() {
    if !fork::was_prepared_in_child() {
        return;
    }
    fork::after_in_child();
    sys::operations::forget_others();
    // SAFETY: `before` locked it in this thread, the only one of this process.
    Table::for_each(unsafe { &*TABLE.data_ptr() }, Segment::become_childs);
    // SAFETY: `before` locked it in this thread, the only one of this process.
    if let Some(shelves) = unsafe { &mut *SHELVES.data_ptr() } {
        shelves.leave_to_parent();
    }
    fork::free_in_child(&SHELVES);
    fork::free_in_child(&TABLE);
}

impl Segment {
    /// Before a fork: what this process holds, the child will hold. Allocates nothing.
    fn lend_to_child(&self) {
        let leases = self.leases();
        let childs = fork::identity_of_child(self.directory()).filter(|_| !self.is_by_lock());
        let place = childs.and_then(|child| {
            leases.place(child.holder, child.about).or_else(|| {
                leases.clear_void(|holder, about| {
                    fork::is_known_dead(self.directory(), holder, about)
                }); // earlier children
                leases.place(child.holder, child.about)
            })
        });
        match place {
            Some(place) => leases.set_held(place), // we hold meanwhile, so it is alive
            None if self.mapped.header_is_writable() => hold_by_lock(&leases, &self.mapped),
            None => {} // a reader's segment is by lock already
        }
        self.childs_place.store(place.unwrap_or(BY_LOCK), Ordering::Relaxed);
    }

    /// After a fork, in the child. Allocates nothing.
    fn become_childs(&self) {
        let place = self.childs_place.load(Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        if let Some(me) = fork::registered(self.directory()).filter(|_| place != BY_LOCK) {
            self.leases().tell_about(place, me.about); // the parent could not know the pid
        }
    }
}
