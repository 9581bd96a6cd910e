//! The segments that this process holds, and the table that finds them.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::hold::{Hold, give_back_if_last, give_back_ticket, hold_lock_only};
use crate::descriptor::GENERATION_LIMIT;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::lease::Leases;
use crate::mapping::{self, Mapped, PrivateBytes};
use crate::name::{SegmentId, SegmentText};
use crate::shape::Layout;
use crate::slab::{CellArray, Slab};
use crate::sys::{self, Access, Directory, Mutex, Operation, Owner};

/// A piece of shared memory with an array in it, mapped and held.
pub(crate) struct Segment {
    pub(super) mapped: Arc<Mapped>,
    cell: Option<u32>,
    data_bytes: u64,
    generation: u64,
    hold: HoldCell,
    /// The child's, while a fork is under way.
    childs_hold: HoldCell,
    _private_bytes: Option<PrivateBytes>,
}

/// A [`Hold`] that threads may read while another one changes it.
struct HoldCell(AtomicUsize);

impl HoldCell {
    const LOCK_ONLY: usize = usize::MAX;

    fn new(hold: Hold) -> Self {
        Self(AtomicUsize::new(Self::number(hold)))
    }

    fn number(hold: Hold) -> usize {
        match hold {
            Hold::Entry(entry) => entry,
            Hold::LockOnly => Self::LOCK_ONLY,
        }
    }

    fn hold(number: usize) -> Hold {
        match number {
            Self::LOCK_ONLY => Hold::LockOnly,
            entry => Hold::Entry(entry),
        }
    }

    fn get(&self) -> Hold {
        Self::hold(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, hold: Hold) {
        self.0.store(Self::number(hold), Ordering::Relaxed);
    }

    fn take(&self) -> Hold {
        Self::hold(self.0.swap(Self::LOCK_ONLY, Ordering::Relaxed))
    }
}

impl Segment {
    /// Enters a segment that this process holds into the table.
    pub(super) fn new(
        mapped: Arc<Mapped>,
        cell: Option<u32>,
        data_bytes: u64,
        generation: u64,
        hold: Hold,
    ) -> Arc<Self> {
        let is_private = mapped.access == Access::CopyOnWrite;
        let segment = Arc::new(Self {
            mapped,
            cell,
            data_bytes,
            generation,
            hold: HoldCell::new(hold),
            childs_hold: HoldCell::new(Hold::LockOnly),
            _private_bytes: is_private.then(|| PrivateBytes::count(data_bytes)),
        });
        insert(&segment);
        segment
    }

    /// The segment of a new array in a cell.
    pub(crate) fn in_cell(array: CellArray) -> Arc<Self> {
        let CellArray { mapped, cell, entry, generation, data_bytes } = array;
        Self::new(mapped, Some(cell), data_bytes, generation, Hold::Entry(entry))
    }

    /// Refuses a segment whose generation no handle can name: no process of ours made it.
    pub(super) fn check_generation(&self, label: &str) -> Result<()> {
        if self.generation < GENERATION_LIMIT {
            return Ok(());
        }
        let (expected, found) = (format!("below {GENERATION_LIMIT}"), self.generation.to_string());
        let (segment, field) = (label.to_owned(), "generation");
        Err(Error::InvalidSegment { segment, field, expected, found })
    }

    /// The array that its header describes. The header of a slab describes no array of it.
    pub(crate) fn described(&self) -> (&DType, &Layout) {
        (&self.mapped.header.dtype, &self.mapped.header.layout)
    }

    pub(crate) fn text(&self) -> SegmentText {
        SegmentText { id: self.mapped.header.id, cell: self.cell }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn access(&self) -> Access {
        self.mapped.access
    }

    pub(crate) fn directory(&self) -> &Directory {
        self.mapped.directory()
    }

    /// The first byte of the data (I2).
    pub(crate) fn data_start(&self) -> NonNull<u8> {
        self.mapped.data(self.cell)
    }

    /// The size of the data.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Prepares the data for stores of so many bytes.
    pub(crate) fn prepare_stores(&self, bytes: u64) {
        self.mapped.prepare_stores(bytes);
    }

    /// Its key in the table by address.
    fn address(&self) -> (usize, usize) {
        (self.data_start().as_ptr() as usize, std::ptr::from_ref(self) as usize)
    }

    pub(super) fn leases(&self) -> Leases {
        self.mapped.leases_of(self.cell)
    }

    /// Gives our lease back, and the segment if that was the last one. From then on only the
    /// mapping's lock holds it. Returns a slab that this process needs no longer.
    fn leave(&self) -> Option<Slab> {
        let Hold::Entry(entry) = self.hold.take() else { return None };
        let leases = self.leases();
        leases.leave(entry);
        give_back_if_last(&self.mapped, self.cell, &leases)
    }

    /// Does the same at the exit of this process, whose threads may still touch the memory: a cell
    /// is not used again before the process is dead.
    pub(super) fn leave_at_exit(&self) -> Option<Slab> {
        let Hold::Entry(entry) = self.hold.take() else { return None };
        let leases = self.leases();
        match self.cell {
            Some(_) => leases.leave_at_exit(entry),
            None => leases.leave(entry),
        }
        give_back_if_last(&self.mapped, self.cell, &leases)
    }

    /// Keeps the mapping for the next array in the same slab, unless that is LOCK_ONLY.
    fn keep_mapping(&self) {
        let mapped = &self.mapped;
        if mapped.header.slab_layout.is_none() {
            return;
        }
        if mapped.leases().is_lock_only() {
            mapping::forget_cached(&mapped.header.id);
        } else if mapped.access == Access::CopyOnWrite
            && mapped.drop_written_pages(self.cell, self.data_bytes)
        {
            mapping::cache_private(Arc::clone(mapped));
        }
    }

    /// Gives the ticket of a message back that was received, or is unwanted.
    pub(crate) fn give_back_ticket(&self, ticket: u64) {
        if sys::is_orphaned() {
            return; // it is its parent's
        }
        let _operation = Operation::begin();
        give_back_ticket(&self.mapped, &self.leases(), ticket);
    }

    /// Holds for a message, by an entry or by a link. `false` when there is such a ticket.
    pub(crate) fn hold_for_message(&self, ticket: Owner) -> Result<bool> {
        sys::refuse_orphan()?;
        let leases = self.leases();
        if leases.hold_for_message(ticket.id, ticket.info) {
            return Ok(true);
        }
        hold_lock_only(&leases, &self.mapped);
        sys::link_ticket(self.directory(), &self.mapped.header.id, ticket.id, ticket.info)
    }

    /// Whether its file has no other array.
    fn is_alone(&self) -> bool {
        self.mapped.header.slab_layout.is_none_or(|layout| layout.cells == 1)
    }

    /// Whether only its mapping holds it.
    pub(super) fn is_lock_only(&self) -> bool {
        self.hold.get() == Hold::LockOnly
    }

    /// Sets what the child will hold it by, before a fork.
    #[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
    pub(super) fn set_childs_hold(&self, hold: Hold) {
        self.childs_hold.set(hold);
    }

    /// Makes the child's hold that of this process, in the child. Returns it.
    #[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
    pub(super) fn take_childs_hold(&self) -> Hold {
        let hold = self.childs_hold.get();
        self.hold.set(hold);
        hold
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if sys::is_orphaned() {
            // Its tables may not be whole, and its leases are its parent's.
            std::mem::forget(Arc::clone(&self.mapped));
            return;
        }
        let _operation = Operation::begin();
        remove(self);
        drop(self.leave());
        self.keep_mapping();
    }
}

/// The segments of this process.
#[derive(Default)]
pub(super) struct Table {
    by_id: FxHashMap<(SegmentText, Access), Weak<Segment>>,
    /// By where the data starts, and by the segment: without data, two may start at one address.
    by_address: BTreeMap<(usize, usize), Weak<Segment>>,
}

/// Locked by a fork before every other lock of this library.
pub(super) static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn with<T>(change: impl FnOnce(&mut Table) -> T) -> T {
    change(TABLE.lock().get_or_insert_default())
}

/// Whether a later attach of the same handle gets the same memory.
fn is_common(access: Access) -> bool {
    access != Access::CopyOnWrite
}

impl Table {
    /// Visits every segment in the table, while it is locked.
    #[allow(unsafe_code)]
    pub(super) fn for_each(table: &Option<Self>, mut visit: impl FnMut(&Segment)) {
        for entry in table.iter().flat_map(|table| table.by_address.values()) {
            // SAFETY: the pointer is to a live `Segment`: `Segment::drop` takes it out of the table
            // before anything of it is dropped, waits for the table's lock to do so, and its
            // memory stays as long as this weak pointer.
            visit(unsafe { &*entry.as_ptr() });
        }
    }
}

fn insert(segment: &Arc<Segment>) {
    let key = (segment.text(), segment.access());
    with(|table| {
        if is_common(key.1) {
            table.by_id.insert(key, Arc::downgrade(segment));
        }
        table.by_address.insert(segment.address(), Arc::downgrade(segment));
    });
}

/// Removes only the entries that are this segment's own: a later mapping may have taken the key.
fn remove(segment: &Segment) {
    let key = (segment.text(), segment.access());
    let own = |entry: &Weak<Segment>| std::ptr::eq(entry.as_ptr(), segment);
    with(|table| {
        if table.by_id.get(&key).is_some_and(own) {
            table.by_id.remove(&key);
        }
        table.by_address.remove(&segment.address());
    });
}

/// The segment of a handle, if this process holds it with that access.
pub(super) fn find(text: &SegmentText, access: Access) -> Option<Arc<Segment>> {
    with(|table| table.by_id.get(&(*text, access))?.upgrade())
}

/// Whether this process holds every array of a segment: then no death changes anything there.
pub(crate) fn holds_all_of(id: &SegmentId) -> bool {
    let only = |cell| find(&SegmentText { id: *id, cell }, Access::ReadWrite);
    only(None).or_else(|| only(Some(0))).is_some_and(|segment| segment.is_alone())
}

impl Segment {
    /// The segment of this process that the byte at an address belongs to. The byte behind the
    /// last one counts, too: a view without elements may stand there.
    pub(crate) fn containing(address: usize) -> Option<Arc<Self>> {
        let (start, there) = with(|table| {
            let ((start, _), _) = table.by_address.range(..=(address, usize::MAX)).next_back()?;
            let there = table.by_address.range((*start, 0)..=(*start, usize::MAX));
            Some((*start, there.filter_map(|(_, entry)| entry.upgrade()).collect::<Vec<_>>()))
        })?;
        let common = there.into_iter().filter(|segment| is_common(segment.access()));
        let largest = common.max_by_key(|segment| segment.data_bytes())?;
        (address - start <= largest.data_bytes() as usize).then_some(largest)
    }
}
