//! The numbers of the format: offsets, sizes, kinds, flags.

/// The first bytes of every segment.
pub(crate) const MAGIC: [u8; 8] = *b"shmarray";
/// The major version of the layout. Readers refuse any other.
pub(crate) const LAYOUT_MAJOR: u32 = 1;
/// The minor version of the layout. Readers accept any, because it only adds what may be ignored.
pub(crate) const LAYOUT_MINOR: u32 = 0;
/// The page size of headers, the same on every platform.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The largest header that is read: the size of a huge page.
pub(crate) const MAX_HEADER_BYTES: u64 = 2 << 20;
/// The offset of the version that a reader needs, a u64.
pub(crate) const NEEDED_OFFSET: usize = 184;
/// The kind of a segment with one array, which is the whole data.
pub(crate) const KIND_ARRAY: u32 = 1;
/// The kind of a slab: several arrays, each in a cell of the data.
pub(crate) const KIND_SLAB: u32 = 2;
/// The kind of a channel: the data is slots for messages.
pub(crate) const KIND_CHANNEL: u32 = 3;

/// The number of entries in the lease table of a new slab, for its maker's pool lease.
pub(crate) const POOL_LEASES: u32 = 1;

/// The array outlives its holders until its name is unlinked.
pub(crate) const PERSIST: u64 = 1;
/// Some process may hold the segment or cell by the file's lock alone, without an entry. So it ends
/// only when the kernel reports that no process has that lock.
pub(crate) const LOCK_ONLY: u64 = 2;
/// The memory of a cell was given back. It must be reserved before it is touched.
pub(crate) const DECOMMITTED: u64 = 4;
/// The offset of the control words; see `control`.
pub(crate) const CONTROL_WORDS_OFFSET: usize = 128;
/// The offset of the generation, the second of the control words.
pub(crate) const GENERATION_OFFSET: u64 = CONTROL_WORDS_OFFSET as u64 + 8;
/// The offset of the array's description, unless its dtype is too long for the first page.
pub(crate) const DESCRIPTION_OFFSET: usize = 256;
/// The room for the description in the first page. The lease table follows it.
pub(crate) const DESCRIPTION_BYTES: usize = 2048;
/// The offset of the lease table.
pub(crate) const LEASES_OFFSET: usize = DESCRIPTION_OFFSET + DESCRIPTION_BYTES;
/// The size of one lease entry.
pub(crate) const LEASE_BYTES: usize = 16;
/// The most entries that the first page has room for.
pub(crate) const MAX_LEASES: u32 = ((PAGE_BYTES as usize - LEASES_OFFSET) / LEASE_BYTES) as u32;

/// The most slots of a channel. Their numbers have ten bits, and one value stands for none.
pub(crate) const MAX_SLOTS: u32 = 1023;
/// The size of a slot's head.
pub(crate) const SLOT_HEAD_BYTES: u32 = 256;
/// The payload of a slot begins at a multiple of this.
pub(crate) const SLOT_ALIGNMENT: u64 = 64;
