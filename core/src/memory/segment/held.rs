//! The segments that this process holds, and the table in which they are found.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use rustc_hash::FxHashMap;

use super::hold::{Hold, end_if_unheld, end_if_unheld_or_dead, hold_lock_only, release_ticket};
use crate::element::copy::Strided;
use crate::header::control::Ordering::Acquire;
use crate::header::control::{ChannelWords, PERSIST};
use crate::header::lease::Leases;
use crate::memory::mapping::{self, Mapped, PrivateBytes};
use crate::memory::operation::{Awaited, Operation};
use crate::memory::slab::{CellArray, Slab};
use crate::system::{self, Access, Directory, Mutex, Owner};
use crate::value::descriptor::GENERATION_LIMIT;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};
use crate::value::name::{ArrayName, SegmentId, SegmentText};
use crate::value::shape::Layout;

/// A segment with one array, or a cell with one, mapped and held by this process.
pub(crate) struct Segment {
    pub(super) mapped: Arc<Mapped>,
    cell: Option<u32>,
    data_bytes: u64,
    generation: u64,
    hold: HoldCell,
    /// The child's hold, while a fork is under way.
    child_hold: HoldCell,
    _private_bytes: Option<PrivateBytes>,
    /// The ends of this process in a channel, or [`LEFT`].
    ends: AtomicU32,
    /// Called at the exit of this process, before it gives its lease back.
    at_exit: Mutex<Option<fn(&Self)>>,
    /// Whether it is moved: messages may have the memory that this process owned.
    is_moved: AtomicBool,
}

/// In place of a count: the last end has given the lease back.
const LEFT: u32 = u32::MAX;

/// A [`Hold`] that threads may read while another thread changes it.
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
    /// Makes a segment that this process holds, and enters it into the table.
    pub(super) fn new(
        mapped: Arc<Mapped>,
        cell: Option<u32>,
        data_bytes: u64,
        generation: u64,
        hold: Hold,
    ) -> Arc<Self> {
        let is_private = mapped.access.is_private();
        let segment = Arc::new(Self {
            mapped,
            cell,
            data_bytes,
            generation,
            hold: HoldCell::new(hold),
            child_hold: HoldCell::new(Hold::LockOnly),
            _private_bytes: is_private.then(|| PrivateBytes::count(data_bytes)),
            ends: AtomicU32::new(0),
            at_exit: Mutex::new(None),
            is_moved: AtomicBool::new(false),
        });
        insert(&segment);
        segment
    }

    /// Makes the segment of a new array in a cell.
    pub(crate) fn in_cell(_operation: &Awaited, array: CellArray) -> Arc<Self> {
        let CellArray { mapped, cell, entry, generation, data_bytes } = array;
        Self::new(mapped, Some(cell), data_bytes, generation, Hold::Entry(entry))
    }

    /// Refuses a generation that no handle can name: no process of this library made such a
    /// segment.
    pub(super) fn check_generation(&self, label: &str) -> Result<()> {
        if self.generation < GENERATION_LIMIT {
            return Ok(());
        }
        let expected = format!("below {GENERATION_LIMIT}");
        let found = self.generation.to_string();
        let segment = label.to_owned();
        let field = "generation";
        Err(Error::InvalidSegment { segment, field, expected, found })
    }

    /// Returns the array that the header describes. The header of a slab describes none of its
    /// arrays.
    pub(crate) fn described(&self) -> (&DType, &Layout) {
        (&self.mapped.header.dtype, &self.mapped.header.layout)
    }

    /// Returns the words of a channel. `None` for an array's segment.
    #[allow(unsafe_code)]
    pub(crate) fn channel_words(&self) -> Option<ChannelWords> {
        let layout = self.mapped.header.channel?;
        let data_offset = self.mapped.header.header_bytes as usize;
        // SAFETY: the header is mapped and aligned, because a mapping starts at a page and lives as
        // long as `self`; `Header::of_channel` placed the parts in it, or `Header::read` checked
        // that they lie there.
        Some(unsafe { ChannelWords::new(self.mapped.mapping.header(), layout, data_offset) })
    }

    /// Whether arrays in the segment lie in slots of a channel.
    pub(crate) fn is_channel(&self) -> bool {
        self.mapped.header.channel.is_some()
    }

    /// Refuses the segment of a channel, whose slots no handle and no name leads to.
    pub(crate) fn refuse_channel(self: Arc<Self>) -> Result<Arc<Self>> {
        if self.is_channel() {
            let reason = format!("{} is a channel, not an array", self.text());
            return Err(Error::argument("handle or name", reason));
        }
        Ok(self)
    }

    /// Returns the start and the size of the slot of a channel that an offset lies in.
    pub(crate) fn slot_at(&self, offset: u64) -> (u64, u64) {
        let bytes = self.mapped.header.channel.map_or(self.data_bytes, |of| of.slot_bytes);
        (offset / bytes * bytes, bytes)
    }

    pub(crate) fn text(&self) -> SegmentText {
        SegmentText { id: self.mapped.header.id, cell: self.cell }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the name that it was created with.
    pub(crate) fn name(&self) -> Option<&ArrayName> {
        self.mapped.header.name.as_ref()
    }

    pub(crate) fn access(&self) -> Access {
        self.mapped.access
    }

    pub(crate) fn directory(&self) -> &Directory {
        self.mapped.directory()
    }

    /// Makes copy-on-write memory owned, if no page was stored to and nobody else holds it. Returns
    /// whether it is. A fork waits meanwhile.
    pub(crate) fn own(&self) -> bool {
        let _no_fork = TABLE.lock();
        let Hold::Entry(entry) = self.hold.get() else { return false };
        let leases = self.leases();
        !leases.is_lock_only() && !leases.is_held_besides(entry) && self.mapped.own()
    }

    /// Lets messages have owned memory, as if it were shared. Returns whether it is owned. A fork
    /// waits meanwhile.
    pub(crate) fn begin_move(&self) -> bool {
        let _no_fork = TABLE.lock();
        let is_owned =
            !self.is_lock_only() && !self.leases().is_lock_only() && self.mapped.is_owned();
        self.is_moved.fetch_or(is_owned, Ordering::Relaxed);
        is_owned
    }

    /// Whether the memory is private to this process, and still the cell's.
    pub(crate) fn is_owned(&self) -> bool {
        self.mapped.is_owned()
    }

    /// Whether no message may have the memory: it is private to this process.
    pub(crate) fn is_kept(&self) -> bool {
        self.access().is_private() && !self.is_moved.load(Ordering::Relaxed)
    }

    /// Returns the first byte of the data (I2).
    pub(crate) fn data_start(&self) -> NonNull<u8> {
        self.mapped.data(self.cell)
    }

    /// Returns the size of the data in bytes.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Prepares the data for a store of so many bytes.
    pub(crate) fn prepare_stores(&self, bytes: u64) {
        self.mapped.prepare_stores(bytes);
    }

    /// Writes elements to the file where that is faster than to store them. Returns whether it did.
    ///
    /// # Safety
    /// All elements of `from` can be read, and none is one of `to`. `to` has their shape and lies
    /// in the data. Another process may read its elements meanwhile, and gets old or new bytes.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn write_elements(
        &self,
        to: &Layout,
        from: Strided<'_>,
        itemsize: u64,
    ) -> bool {
        // SAFETY: the caller promises the same of `from` and `to`.
        unsafe { self.mapped.write_elements(self.cell, to, from, itemsize) }
    }

    /// Returns the key in the table by address.
    fn address(&self) -> (usize, usize) {
        (self.data_start().as_ptr() as usize, std::ptr::from_ref(self) as usize)
    }

    pub(super) fn leases(&self) -> Leases {
        self.mapped.leases_of(self.cell)
    }

    /// Gives this process's lease back, and the segment if that was the last lease. From then on
    /// only the mapping's lock holds it. Returns a slab that this process no longer needs.
    fn leave(&self) -> Option<Slab> {
        let Hold::Entry(entry) = self.hold.take() else { return None };
        let leases = self.leases();
        leases.leave(entry);
        // Of moved memory a message has a ticket, or its receiver an entry. They lived a moment
        // ago, and asking opens the registry for each array; a sweep asks.
        let asks = !self.is_moved.load(Ordering::Relaxed);
        end_if_unheld_or_dead(&self.mapped, self.cell, &leases, asks)
    }

    /// Gives the lease back at the exit of this process, whose threads may still touch the memory:
    /// a cell is not used again before the process is dead (I4 of `lease`).
    pub(super) fn leave_at_exit(&self) -> Option<Slab> {
        let at_exit = *self.at_exit.lock();
        at_exit.into_iter().for_each(|at_exit| at_exit(self));
        let Hold::Entry(entry) = self.hold.take() else { return None };
        let leases = self.leases();
        match self.cell {
            Some(_) => leases.leave_at_exit(entry),
            None => leases.leave(entry),
        }
        end_if_unheld(&self.mapped, self.cell, &leases)
    }

    /// Sets what is done at the exit of this process.
    pub(crate) fn at_exit(&self, function: fn(&Self)) {
        *self.at_exit.lock() = Some(function);
    }

    /// Counts one more end of this process, in a channel. Returns `false` if this process has given
    /// its lease back: it attaches the segment once more.
    pub(crate) fn add_end(&self) -> bool {
        let add = |seen| (seen != LEFT).then(|| seen + 1);
        self.ends.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).is_ok()
    }

    /// Counts one end less. The last one gives the lease back, whatever else of this process keeps
    /// the mapping.
    pub(crate) fn remove_end(&self) {
        let remove = |seen| if seen == 1 { LEFT } else { seen - 1 };
        let before =
            self.ends.fetch_update(Ordering::AcqRel, Ordering::Acquire, |seen| Some(remove(seen)));
        if before == Ok(1)
            && let Some(_operation) = Operation::to_give_back()
        {
            remove_from_table(self);
            drop(self.leave());
        }
    }

    /// Whether it stays when nobody holds it.
    pub(crate) fn persists(&self) -> bool {
        self.leases().control.flags().load(Acquire) & PERSIST != 0
    }

    /// Returns the permission bits of its file.
    pub(crate) fn file_mode(&self) -> Result<u32> {
        system::file_mode(self.directory(), &self.mapped.header.id)
    }

    /// Removes its name, while it lives on. As in a close, what fails is left to a sweep.
    pub(crate) fn remove_name(&self) {
        if let (Some(name), Some(_operation)) = (self.name(), Operation::to_give_back()) {
            let _ = system::remove_name(self.directory(), &self.mapped.header.id, name);
        }
    }

    /// Caches the mapping for the next array in the same slab, unless the slab is LOCK_ONLY or has
    /// ended.
    fn cache_mapping(&self) {
        let mapped = &self.mapped;
        if mapped.header.slab_layout.is_none() {
            return;
        }
        let leases = mapped.leases();
        if leases.is_lock_only() || leases.is_dead() {
            mapping::evict_cached(&mapped.header.id);
        } else if mapped.access.is_private() && mapped.end_private_use(self.cell, self.data_bytes) {
            mapping::cache_private(Arc::clone(mapped));
        }
    }

    /// Gives back the ticket of a message that was received or is unwanted.
    pub(crate) fn release_ticket(&self, ticket: u64) {
        self.take_ticket(ticket);
    }

    /// Does the same. Returns whether the ticket was there.
    pub(crate) fn take_ticket(&self, ticket: u64) -> bool {
        let Some(_operation) = Operation::to_give_back() else { return false };
        release_ticket(&self.mapped, self.cell, &self.leases(), ticket)
    }

    /// Holds for a message, by an entry or by a link. `false` when such a ticket exists already.
    pub(crate) fn hold_for_message(&self, _operation: Operation, ticket: Owner) -> Result<bool> {
        let leases = self.leases();
        if leases.hold_for_message(ticket.id, ticket.info) {
            return Ok(true);
        }
        hold_lock_only(&leases, &self.mapped);
        system::link_ticket(self.directory(), &self.text(), ticket.id, ticket.info)
    }

    /// Whether its file holds no other array.
    fn is_alone(&self) -> bool {
        self.mapped.header.slab_layout.is_none_or(|layout| layout.cells == 1)
    }

    /// Whether only its mapping's lock holds it.
    pub(super) fn is_lock_only(&self) -> bool {
        self.hold.get() == Hold::LockOnly
    }

    /// Sets the child's hold, before a fork.
    #[cfg(linux_backend)]
    pub(super) fn set_childs_hold(&self, hold: Hold) {
        self.child_hold.set(hold);
    }

    /// Makes the child's hold that of this process, in the child, and returns it.
    #[cfg(linux_backend)]
    pub(super) fn take_childs_hold(&self) -> Hold {
        let hold = self.child_hold.get();
        self.hold.set(hold);
        hold
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        let Some(_operation) = Operation::to_give_back() else {
            std::mem::forget(Arc::clone(&self.mapped)); // it stays mapped: its hold is the parent's
            return;
        };
        remove_from_table(self);
        drop(self.leave());
        self.cache_mapping();
    }
}

/// The segments of this process.
#[derive(Default)]
pub(super) struct Table {
    by_id: FxHashMap<(SegmentText, Access), Weak<Segment>>,
    /// Keyed by the start of the data and by the segment: segments without data may share a start.
    by_address: BTreeMap<(usize, usize), Weak<Segment>>,
}

/// Locked before a fork, before every other lock of this library.
pub(super) static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn with<T>(change: impl FnOnce(&mut Table) -> T) -> T {
    change(TABLE.lock().get_or_insert_default())
}

impl Table {
    /// Visits every segment in the table, whose lock the caller holds.
    #[allow(unsafe_code)]
    pub(super) fn for_each(table: &Option<Self>, mut visit: impl FnMut(&Segment)) {
        for entry in table.iter().flat_map(|table| table.by_address.values()) {
            // SAFETY: the pointer is valid for the visit: `Segment::drop` removes the entry before
            // any field is dropped and waits for the table's lock to do so, which the caller holds;
            // the allocation lives as long as this weak pointer.
            visit(unsafe { &*entry.as_ptr() });
        }
    }
}

fn insert(segment: &Arc<Segment>) {
    let key = (segment.text(), segment.access());
    with(|table| {
        // A segment without an entry there is attached once more by its handle.
        if table.by_id.try_reserve(1).is_ok() {
            table.by_id.insert(key, Arc::downgrade(segment));
        }
        table.by_address.insert(segment.address(), Arc::downgrade(segment));
    });
}

/// Removes the entries of this segment. A later mapping may have taken its key.
fn remove_from_table(segment: &Segment) {
    let key = (segment.text(), segment.access());
    let own = |entry: &Weak<Segment>| std::ptr::eq(entry.as_ptr(), segment);
    with(|table| {
        if table.by_id.get(&key).is_some_and(own) {
            table.by_id.remove(&key);
        }
        table.by_address.remove(&segment.address());
    });
}

/// Returns the segment of a handle, if this process holds it with that access. Private memory has
/// one user, so no other finds it.
pub(super) fn find(text: &SegmentText, access: Access) -> Option<Arc<Segment>> {
    (!access.is_private()).then(|| find_any(text, access)).flatten()
}

/// Returns the segment of a handle that this process holds, to give a ticket back.
pub(super) fn find_held(text: &SegmentText) -> Option<Arc<Segment>> {
    let all = [Access::ReadWrite, Access::Owned, Access::ReadOnly, Access::CopyOnWrite];
    all.into_iter().find_map(|access| find_any(text, access))
}

fn find_any(text: &SegmentText, access: Access) -> Option<Arc<Segment>> {
    with(|table| table.by_id.get(&(*text, access))?.upgrade())
}

/// Whether this process holds every array of a segment: then no other process's death changes
/// anything there.
pub(crate) fn holds_all_of(id: &SegmentId) -> bool {
    let only = |cell| find(&SegmentText { id: *id, cell }, Access::ReadWrite);
    only(None).or_else(|| only(Some(0))).is_some_and(|segment| segment.is_alone())
}

impl Segment {
    /// Returns the segment of this process that contains an address. The byte behind the last one
    /// counts as well, because a view without elements may start there.
    pub(crate) fn containing(address: usize) -> Option<Arc<Self>> {
        let (start, candidates) = with(|table| {
            let ((start, _), _) = table.by_address.range(..=(address, usize::MAX)).next_back()?;
            let candidates = table.by_address.range((*start, 0)..=(*start, usize::MAX));
            Some((*start, candidates.filter_map(|(_, entry)| entry.upgrade()).collect::<Vec<_>>()))
        })?;
        let common = candidates
            .into_iter()
            .filter(|segment| !segment.access().is_private() && !segment.is_channel());
        let largest = common.max_by_key(|segment| segment.data_bytes())?;
        (address - start <= largest.data_bytes() as usize).then_some(largest)
    }
}
