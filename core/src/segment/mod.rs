//! A segment, or a cell of one, held by this process.
//!
//! A file is mapped once for each access, however many arrays lie in it (`mapped`); the table
//! finds a segment by id when a handle arrives, and by address when somebody asks for the handle
//! of memory he has. The table holds nothing alive; an array's `Arc<Segment>` does.
//!
//! Invariants:
//! * I1 a `Segment` was LIVE with its generation while this process already held it.
//! * I2 its data is mapped from `data_start()` for `data_bytes` until it is dropped.
//! * I3 what `header` says was validated when it was copied out; the original is not read again.
//!   Of a cell the same holds for its number and its `data_bytes`.

mod cache;
mod cells;
mod fill;
#[cfg(all(target_os = "linux", not(feature = "portable"), not(miri)))]
mod fork;
mod list;
mod mapped;
mod pool;
mod process;
use process::Operation;
pub(crate) use process::begin;
mod relief;
mod sweep;
mod table;
mod unlink;

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::descriptor::{Descriptor, GENERATION_LIMIT};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::format::Header;
use crate::lease::{Closed, Leases};
use crate::name::{ArrayName, SegmentId, SegmentText, random_generation};
use crate::shape::Layout;
use crate::sys::{self, Access, Directory, Identity, Lives, Place};
use crate::words::{self, Ordering as Order};

pub(crate) use fill::Fill;
pub use list::{SegmentInfo, SegmentKind, is_family_alive, segments};
use mapped::{Mapped, read_header};
pub use relief::{has_room, is_better_copied};
use sweep::{How, sweep_directory};
pub use sweep::{Swept, empty_pool, sweep, sweep_dead, trim_pool};
pub(crate) use sweep::{When, look};
use table::Table;
pub use unlink::unlink;

/// A piece of shared memory with an array in it, mapped and held.
pub(crate) struct Segment {
    mapped: Arc<Mapped>,
    cell: Option<u32>,
    data_bytes: u64,
    generation: u64,
    /// Our entry in its lease table, or BY_LOCK.
    place: AtomicUsize,
    /// The child's, while a fork is under way.
    childs_place: AtomicUsize,
    _kept: Option<relief::Kept>,
}

/// No entry: the mapping's lock is what holds.
const BY_LOCK: usize = usize::MAX;

/// What a new segment may be, beyond its array.
#[derive(Debug, Clone, Default)]
pub(crate) struct Birth {
    pub(crate) name: Option<ArrayName>,
    pub(crate) persist: bool,
    pub(crate) mode: u32,
}

impl Birth {
    /// Readers who may not write the header cannot enter: who lets them in holds by lock.
    fn flags(&self) -> u64 {
        let readers = self.mode & 0o044 != 0;
        if readers { words::BY_LOCK } else { 0 }
    }

    /// Whether it needs a file of its own.
    fn is_special(&self) -> bool {
        self.name.is_some() || self.persist || self.mode != 0o600
    }
}

impl Segment {
    /// Memory for a new array: nobody sees it before it is whole.
    ///
    /// # Safety
    /// The elements that it begins with can be read, and are as many as the layout's.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn create(
        dtype: &DType,
        layout: &Layout,
        birth: &Birth,
        fill: &Fill<'_>,
    ) -> Result<Arc<Self>> {
        process::begin()?;
        let _operation = Operation::begin();
        let directory = Directory::current();
        sweep::at_first_use(&directory);
        let shall_check = sweep::look_before_reuse(&directory);
        if !birth.is_special() {
            if let Some(cell) = cells::create(&directory, dtype, layout, fill, shall_check)? {
                return Ok(cell);
            }
        }
        let id = SegmentId::random()?;
        let header = Header::new(
            id,
            birth.name.clone(),
            dtype.clone(),
            layout.clone(),
            directory.page_bytes(),
        )?;
        sweep::before_file(&directory, header.segment_bytes());
        look(&directory, When::Growing);
        Self::create_file(&directory, header, birth, fill)
    }

    #[allow(unsafe_code)]
    fn create_file(
        directory: &Directory,
        header: Header,
        birth: &Birth,
        fill: &Fill<'_>,
    ) -> Result<Arc<Self>> {
        let file = reserve(directory, &header, birth.mode)?;
        // SAFETY: a file for this array; the caller vouches for the elements.
        let is_filled = unsafe { fill.write(&file, header.header_bytes)? };
        let mapped = Mapped::map(&file, header, Access::ReadWrite)?;
        mapped.write_header();
        if !is_filled {
            // SAFETY: a new segment's data, as large as its array; the caller vouches for the
            // elements.
            unsafe { fill.apply(mapped.data(None), mapped.header.data_bytes, true) };
        }
        let generation = random_generation()?;
        let leases = mapped.leases();
        leases.words.set_generation(generation);
        leases.be_live(birth.flags());
        let place = enter(&leases, &mapped, None).unwrap_or(BY_LOCK); // nobody else has seen it: it is live
        file.publish(&mapped.header.id)?;
        let linked = mapped.header.name.as_ref().map_or(Ok(()), |name| {
            file.link_name(name)?;
            // Marked last: a crash before it leaves nothing that persists without a name.
            let persist = || leases.words.flags().set(words::PERSIST);
            if birth.persist { file.mark_named(name, persist) } else { Ok(()) }
        });
        // The open file holds the segment too: it goes first, so that when the name is taken
        // the drop of the segment is that of the last holder.
        drop(file);
        let data_bytes = mapped.header.data_bytes;
        let segment = Self::register(Arc::new(mapped), None, data_bytes, generation, place);
        linked.map(|()| segment)
    }

    /// The segment of a handle, mapped now or found in the table.
    pub(crate) fn attach(handle: &Descriptor, access: Access) -> Result<Arc<Self>> {
        process::begin()?;
        let (text, expected) = (&handle.segment, handle.generation);
        let segment = match Table::find(text, access) {
            Some(segment) => segment,
            None => Self::open(Place::Id(&text.id), text.cell, access)?,
        };
        let found = segment.generation;
        match found == expected {
            true => Ok(segment),
            false => Err(Error::StaleHandle { segment: text.to_string(), expected, found }),
        }
    }

    /// The segment that has a name.
    pub(crate) fn attach_name(name: &ArrayName, access: Access) -> Result<Arc<Self>> {
        Self::open(Place::Name(name), None, access)
    }

    fn open(place: Place<'_>, cell: Option<u32>, access: Access) -> Result<Arc<Self>> {
        process::begin()?;
        let _operation = Operation::begin();
        sys::note_user();
        let directory = Directory::current();
        sweep::at_first_use(&directory);
        let (mapped, is_new) = match Self::map(&directory, place, access)? {
            Found::Segment(segment) => return Ok(segment), // a name led to what is mapped already
            Found::Known(mapped) => (mapped, false),
            Found::New(mapped) => (mapped, true),
        };
        let whole = mapped.leases();
        let leases = match (mapped.header.division, cell) {
            (None, None) => Some(whole),
            (Some(_), Some(cell)) => whole.cell(cell),
            _ => None,
        };
        let leases =
            leases.ok_or_else(|| Error::handle("segment", format!("{place} has no such cell")))?;
        let Some(own) = enter(&leases, &mapped, cell) else {
            if !mapped.header_is_writable() && !leases.is_by_lock() {
                // Who cannot take a lease holds by lock; but nobody who closes this would ask for
                // locks.
                return Err(Error::os(
                    "attach",
                    directory.path(),
                    std::io::ErrorKind::ReadOnlyFilesystem.into(),
                ));
            }
            let cell = cell.map_or(String::new(), |cell| format!(".{cell}"));
            return Err(Error::SegmentNotFound {
                segment: format!("{place}{cell}"),
                directory: directory.path().to_owned(),
            });
        };
        if is_new && cache::is_worth_keeping(&mapped) {
            Table::cache(&mapped);
        }
        let generation = leases.words.generation();
        let room = mapped.part(cell).1;
        let data_bytes = if cell.is_some() {
            leases.words.data_bytes().load(Order::Relaxed).min(room)
        } else {
            room
        };
        let segment = Self::register(mapped, cell, data_bytes, generation, own);
        segment.check_generation(&place.to_string()).map(|()| segment)
    }

    fn map(directory: &Directory, place: Place<'_>, access: Access) -> Result<Found> {
        if let Place::Id(id) = place {
            if let Some(mapped) = Mapped::find(id, access) {
                return Ok(Found::Known(mapped));
            }
        }
        let file = sys::File::open(directory.clone(), place, access)?;
        let header = read_header(&place.to_string(), &file)?;
        check_id(place, &header)?;
        if let (Place::Name(_), text) = (place, SegmentText { id: header.id, cell: None }) {
            if let Some(segment) = Table::find(&text, access) {
                return Ok(Found::Segment(segment));
            }
        }
        let mapped = Arc::new(Mapped::map(&file, header, access)?);
        if mapped.header.division.is_some() {
            Table::insert_mapped(&mapped);
        }
        Ok(Found::New(mapped))
    }

    fn register(
        mapped: Arc<Mapped>,
        cell: Option<u32>,
        data_bytes: u64,
        generation: u64,
        place: usize,
    ) -> Arc<Self> {
        let (place, childs_place) = (AtomicUsize::new(place), AtomicUsize::new(BY_LOCK));
        let _kept = (mapped.access == Access::CopyOnWrite).then(|| relief::Kept::of(data_bytes));
        let segment =
            Arc::new(Self { mapped, cell, data_bytes, generation, place, childs_place, _kept });
        Table::insert(&segment);
        segment
    }

    /// One that no handle could name is nobody's of ours.
    fn check_generation(&self, label: &str) -> Result<()> {
        if self.generation < GENERATION_LIMIT {
            return Ok(());
        }
        let (expected, found) = (format!("below {GENERATION_LIMIT}"), self.generation.to_string());
        Err(Error::InvalidSegment {
            segment: label.to_owned(),
            field: "generation",
            expected,
            found,
        })
    }

    /// The array that its header describes, or of a cell nothing that is of use.
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

    /// First byte of the data (I2).
    pub(crate) fn data_start(&self) -> NonNull<u8> {
        self.mapped.data(self.cell)
    }

    /// Size of the data.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// What the table knows it by.
    fn address(&self) -> (usize, usize) {
        (self.data_start().as_ptr() as usize, std::ptr::from_ref(self) as usize)
    }

    /// The segment of this process that memory lies in.
    pub(crate) fn containing(address: usize) -> Option<Arc<Self>> {
        Table::containing(address)
    }

    fn leases(&self) -> Leases {
        let whole = self.mapped.leases();
        self.cell.and_then(|cell| whole.cell(cell)).unwrap_or(whole) // there is such a cell (I3)
    }

    /// Gives our lease back, and the segment if that was the last. From then on what is left of
    /// our hold is the mapping's lock. Returns a file that this process need not have mapped.
    fn leave(&self) -> Option<cells::File> {
        let place = self.place.swap(BY_LOCK, Ordering::Relaxed);
        if place == BY_LOCK {
            return None;
        }
        let leases = self.leases();
        leases.leave(place);
        give_back_if_last(&self.mapped, self.cell, &leases)
    }

    /// The same while others in this process may still touch its memory: no cell is used again
    /// before this process is dead.
    fn leave_at_exit(&self) -> Option<cells::File> {
        let place = self.place.swap(BY_LOCK, Ordering::Relaxed);
        if place == BY_LOCK {
            return None;
        }
        let leases = self.leases();
        match self.cell {
            Some(_) => leases.leave_at_exit(place),
            None => leases.leave(place),
        }
        give_back_if_last(&self.mapped, self.cell, &leases)
    }

    /// For the next array that comes in the same file. What is held by lock is not kept.
    fn keep_mapping(&self) {
        let mapped = &self.mapped;
        if mapped.header.division.is_none() {
            return;
        }
        if mapped.leases().is_by_lock() {
            Table::forget_cached(&mapped.header.id);
        } else if mapped.access == Access::CopyOnWrite
            && mapped.give_back_own(self.cell, self.data_bytes)
        {
            Table::cache_private(Arc::clone(mapped));
        }
    }

    /// A message with this segment was received, or is unwanted.
    pub(crate) fn give_back_ticket(&self, ticket: u64) {
        if process::begin().is_err() {
            return; // its parent's
        }
        let _operation = Operation::begin();
        give_back_ticket(&self.mapped, &self.leases(), ticket);
    }

    /// Holds for a message, by an entry or by a link.
    pub(crate) fn hold_for_message(&self, ticket: Identity) -> Result<bool> {
        process::begin()?;
        let leases = self.leases();
        if leases.hold_for_message(ticket.holder, ticket.about) {
            return Ok(true);
        }
        leases.hold_by_lock();
        self.mapped.leases().hold_by_lock();
        sys::link_ticket(self.directory(), &self.mapped.header.id, ticket.holder, ticket.about)
    }

    /// Whether its file has no other array.
    fn is_alone(&self) -> bool {
        self.mapped.header.division.is_none_or(|division| division.cells == 1)
    }

    /// Whether only its mapping holds it.
    fn is_by_lock(&self) -> bool {
        self.place.load(Ordering::Relaxed) == BY_LOCK
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if process::begin().is_err() {
            // An orphan: its tables may not be whole, and its leases are its parent's.
            std::mem::forget(Arc::clone(&self.mapped));
            return;
        }
        let _operation = Operation::begin();
        Table::remove(self);
        drop(self.leave());
        self.keep_mapping();
    }
}

/// What a place led to.
enum Found {
    Segment(Arc<Segment>),
    /// A file that this process has mapped already.
    Known(Arc<Mapped>),
    New(Arc<Mapped>),
}

/// A new file. What the dead left makes room before shared memory is said to be full.
fn reserve(directory: &Directory, header: &Header, mode: u32) -> Result<sys::File> {
    let create = || sys::File::create(directory.clone(), &header.id, header.segment_bytes(), mode);
    match create() {
        Err(Error::NoSpace { .. }) if sweep_directory(directory, How::Pressing)?.bytes > 0 => {
            create()
        }
        created => created,
    }
}

/// Holds what is mapped: by an entry, or where none can be had by the mapping's lock alone.
/// `None` when it is not alive.
fn enter(leases: &Leases, mapped: &Mapped, cell: Option<u32>) -> Option<usize> {
    if !mapped.header_is_writable() {
        return (leases.is_by_lock() && leases.is_live()).then_some(BY_LOCK);
    }
    let directory = mapped.directory();
    let place = |who: Identity| {
        leases.place(who.holder, who.about).or_else(|| {
            clear_dead(leases, directory);
            leases.place(who.holder, who.about)
        })
    };
    match sys::identity(directory).and_then(place) {
        Some(place) if leases.enter(place) => Some(place),
        Some(_) => {
            // The next life of a cell may have ended meanwhile, and been kept by our entry.
            drop(give_back_if_last(mapped, cell, leases));
            None
        }
        None => {
            mapped.leases().hold_by_lock();
            leases.hold_by_lock().then_some(BY_LOCK)
        }
    }
}

/// Of what is alive meanwhile: it, and the file that it lies in.
fn hold_by_lock(leases: &Leases, mapped: &Mapped) {
    leases.hold_by_lock();
    mapped.leases().hold_by_lock();
}

fn clear_dead(leases: &Leases, directory: &Directory) {
    if let Some(lives) = Lives::look(directory) {
        leases.clear_void(|holder, about| lives.is_void(holder, about));
    }
}

/// Somebody holds it, or somebody did and died.
fn close_without_the_dead(leases: &Leases, directory: &Directory) -> Closed {
    clear_dead(leases, directory);
    leases.close()
}

/// Ends what nobody holds any more.
fn give_back_if_last(mapped: &Mapped, cell: Option<u32>, leases: &Leases) -> Option<cells::File> {
    let others =
        || leases.is_held_by_others(sys::identity(mapped.directory()).map_or(0, |me| me.holder));
    let closed = match leases.close() {
        Closed::Held if !leases.is_by_lock() && others() => {
            close_without_the_dead(leases, mapped.directory())
        }
        closed => closed,
    };
    match (closed, cell) {
        (Closed::Last, None) => drop(mapped.discard()),
        (Closed::Last, Some(cell)) => return cells::freed(mapped, cell),
        (Closed::Held, Some(_)) if leases.is_by_lock() => return cells::let_go_of(mapped),
        _ => {}
    }
    None
}

fn give_back_ticket(mapped: &Mapped, leases: &Leases, ticket: u64) {
    if !leases.give_back_ticket(ticket) && leases.is_by_lock() {
        sys::unlink_ticket(mapped.directory(), &mapped.header.id, ticket);
    }
}

/// Gives back what a message holds of an array that this process need not have.
///
/// # Errors
/// As attaching it.
pub(crate) fn discard(directory: &Directory, handle: &Descriptor, ticket: u64) -> Result<()> {
    process::begin()?;
    let (text, access) = (&handle.segment, Access::ReadWrite);
    if let Some(segment) = Table::find(text, access).or_else(|| Table::find(text, Access::ReadOnly))
    {
        segment.give_back_ticket(ticket);
        return Ok(());
    }
    process::begin()?;
    let (Found::Known(mapped) | Found::New(mapped)) =
        Segment::map(directory, Place::Id(&text.id), access)?
    else {
        return Ok(());
    };
    let whole = mapped.leases();
    let leases = text.cell.map_or(Some(whole), |cell| whole.cell(cell));
    let leases =
        leases.ok_or_else(|| Error::handle("segment", format!("{text} has no such cell")))?;
    give_back_ticket(&mapped, &leases, ticket);
    drop(give_back_if_last(&mapped, text.cell, &leases));
    Ok(())
}

fn check_id(place: Place<'_>, header: &Header) -> Result<()> {
    match place {
        Place::Id(id) if *id != header.id => Err(Error::InvalidSegment {
            segment: id.to_string(),
            field: "id",
            expected: id.to_string(),
            found: header.id.to_string(),
        }),
        _ => Ok(()),
    }
}
