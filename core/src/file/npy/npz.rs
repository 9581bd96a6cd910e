//! An NPZ file: named arrays in a ZIP archive.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;

use super::directory::{CentralDirectory, CentralEntry};
use super::fault::Fault;
use super::header::{MAGIC, NpyHeader, PREFIX_BYTES};
use super::load;
use super::methods::Method;
use super::source::Source;
use super::stream::{Extent, Stream};
use super::threads::{each_in_order, threads_for};
#[cfg(inflates_whole)]
use super::whole::inflate as inflated;
use crate::array::{Array, Options};
use crate::memory::mapping::FillFn;
use crate::system;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};

/// The least of the default limits on what compressed members may become.
const LEAST_LIMIT_BYTES: u64 = 1 << 30;
/// The default limit, as a multiple of the archive's size.
const LIMIT_RATIO: u64 = 100;
/// The bytes of a deflated member that is inflated when it is opened. To inflate its header alone
/// takes as long.
const SMALL_BYTES: u64 = 64 << 10;
/// The bytes that a verification reads at once.
const VERIFIED_BYTES: u64 = 256 << 10;

/// An NPZ file: named arrays in a ZIP archive, stored or deflated.
///
/// Opening it reads its directory. Each member is read when it is asked for.
///
/// ```no_run
/// use shmarray::{Options, npy::{Npz, Source}};
/// let npz = Npz::open(Source::file("sample.npz")?)?;
/// for index in 0..npz.len() {
///     println!("{}: {:?}", npz.name(index), npz.member(index)?.header());
/// }
/// let image = npz.find("image").map(|index| npz.load(index, &Options::new())).transpose()?;
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Npz<'a> {
    directory: CentralDirectory<'a>,
    max_bytes: Option<u64>,
}

impl<'a> Npz<'a> {
    /// Reads and checks the directory.
    ///
    /// # Errors
    /// [`Error::InvalidFile`] when it is no ZIP archive, or when members overlap; [`Error::Os`].
    pub fn open(source: Source<'a>) -> Result<Self> {
        Ok(Self { directory: CentralDirectory::read(source)?, max_bytes: None })
    }

    /// Sets the limit on what compressed members may become together in one call. Without it the
    /// limit is the memory that is free, and at least 1 GiB and 100 times the size of the archive.
    #[must_use]
    pub fn with_max_bytes(self, max_bytes: u64) -> Self {
        Self { max_bytes: Some(max_bytes), ..self }
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &Source<'a> {
        self.directory.source()
    }

    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.directory.entries.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of a member in the archive, such as `image.npy`.
    ///
    /// # Panics
    /// If there are not as many members.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        &self.directory.entries[index].name
    }

    /// Returns the size of a member in bytes, inflated, as the directory declares it.
    ///
    /// # Panics
    /// If there are not as many members.
    #[must_use]
    pub fn member_bytes(&self, index: usize) -> u64 {
        self.directory.entries[index].size
    }

    /// Returns the index of the member with this name, or with this name and `.npy`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.directory.find(name).or_else(|| self.directory.find(&format!("{name}.npy")))
    }

    /// Returns a member, whose header is read and validated.
    ///
    /// # Errors
    /// [`Error::InvalidFile`] also for a member that is encrypted, is compressed by a method that
    /// Python's zipfile does not have, or would exceed the limit; [`Error::Os`].
    ///
    /// # Panics
    /// If there are not as many members.
    pub fn member(&self, index: usize) -> Result<Member<'_>> {
        self.check_limit(&[index])?;
        self.open_member(index)
    }

    /// Returns the array of a member in shared memory, or the bytes of one that is no NPY file.
    ///
    /// # Errors
    /// As for [`Npz::member`] and [`Member::load`].
    ///
    /// # Panics
    /// If there are not as many members.
    pub fn load(&self, index: usize, options: &Options) -> Result<Array> {
        self.member(index)?.load(options)
    }

    /// Calls `work` with each of these members, in so many threads; 0 is one for each core. Fewer
    /// are used for little data. Returns the results in the order of the members.
    ///
    /// # Errors
    /// As for [`Npz::member`], for the members together; the first error of `work`, which ends the
    /// work.
    ///
    /// # Panics
    /// If there are not as many members.
    pub fn each<'n, T: Send + Sync>(
        &'n self,
        members: &[usize],
        threads: usize,
        work: impl Fn(Member<'n>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        self.check_limit(members)?;
        let sizes = || members.iter().map(|index| self.directory.entries[*index].size);
        let order = largest_first(sizes());
        let threads = threads_for(threads, sizes().fold(0, u64::saturating_add));
        each_in_order(&order, threads, |at| self.open_member(members[at]).and_then(&work))
    }

    fn open_member(&self, index: usize) -> Result<Member<'_>> {
        let entry = &self.directory.entries[index];
        let extent = self.directory.extent(entry)?;
        Member::open(&self.directory, entry, extent)
    }

    fn check_limit(&self, members: &[usize]) -> Result<()> {
        let entries = members.iter().map(|index| &self.directory.entries[*index]);
        let usual = LEAST_LIMIT_BYTES.max(self.source().size_bytes().saturating_mul(LIMIT_RATIO));
        let mut limit = self.max_bytes.unwrap_or(usual);
        let mut total = 0u64;
        for entry in entries.filter(|entry| entry.is_compressed()) {
            self.directory.check_readable(entry)?; // a size that is a lie asks for no larger limit
            total = total.saturating_add(entry.size);
            if total > limit && self.max_bytes.is_none() {
                limit = limit.max(system::available_memory());
            }
            if total > limit {
                let reason = format!(
                    "the compressed members become {total} bytes up to this one, and the limit is \
                     {limit}: give a larger one if the file is trusted"
                );
                return Err(self.directory.invalid(entry, Fault::new("max_bytes", reason)));
            }
        }
        Ok(())
    }
}

/// Returns the numbers of these sizes, the largest first, so that no thread begins with it when the
/// others end.
fn largest_first(sizes: impl Iterator<Item = u64>) -> Vec<usize> {
    let mut order: Vec<(usize, u64)> = sizes.enumerate().collect();
    order.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    order.into_iter().map(|(at, _)| at).collect()
}

/// A member of an NPZ file.
pub struct Member<'n> {
    directory: &'n CentralDirectory<'n>,
    entry: &'n CentralEntry,
    extent: Extent,
    /// The whole member, if it is small and libdeflate inflates it.
    whole: Option<Vec<u8>>,
    header: Option<NpyHeader>,
    /// Where the elements lie in the inflated member: all of it, if it is no NPY file.
    elements: Range<u64>,
}

impl<'n> Member<'n> {
    fn open(
        directory: &'n CentralDirectory<'n>,
        entry: &'n CentralEntry,
        extent: Extent,
    ) -> Result<Self> {
        let is_small = entry.size <= SMALL_BYTES;
        let whole = if is_small { inflated(directory.source(), extent) } else { None };
        let header = match &whole {
            Some(member) => header_of(member).map_err(|fault| directory.invalid(entry, fault))?,
            None => read_header(directory, entry, extent)?,
        };
        let elements = match &header {
            Some(header) => header.data_offset()..header.data_offset() + header.data_bytes(),
            None => 0..entry.size,
        };
        if elements.end > entry.size {
            let needed = elements.end;
            let size = entry.size;
            let reason = format!("the array takes {needed} bytes, the member {size}");
            return Err(directory.invalid(entry, Fault::new("data", reason)));
        }
        Ok(Self { directory, entry, extent, whole, header, elements })
    }

    /// Returns its name in the archive.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Returns the size of the member in bytes, inflated, with its header.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.entry.size
    }

    /// Returns the header. `None` if the member is no NPY file.
    #[must_use]
    pub fn header(&self) -> Option<&NpyHeader> {
        self.header.as_ref()
    }

    /// Returns the dtype: that of a byte if the member is no NPY file.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for items with Python objects, which only Python can read.
    pub fn dtype(&self) -> Result<DType> {
        let Some(header) = &self.header else { return DType::parse("|u1") };
        let place = self.directory.source().place();
        header.dtype().cloned().map_err(|error| place.of_dtype(Some(&self.entry.name), error))
    }

    /// Returns the offset of the member's bytes in the archive, if they are stored there as they
    /// are.
    #[must_use]
    pub fn stored_at(&self) -> Option<u64> {
        (self.extent.method == Method::Stored).then_some(self.extent.start)
    }

    /// Returns the array in shared memory; of a member that is no NPY file, its bytes.
    ///
    /// # Errors
    /// As for [`Array::create`]; [`Error::InvalidFile`] when the data is broken or its CRC differs;
    /// [`Error::InvalidDType`] when it has Python objects. No array is left then.
    pub fn load(&self, options: &Options) -> Result<Array> {
        let fill: &FillFn<'_> = &|to| self.read_into(to);
        let dtype = self.dtype()?;
        match &self.header {
            Some(header) => load::create(&dtype, header, options, fill),
            None => Array::create_by(dtype, &[self.size_bytes()], options, fill),
        }
    }

    /// Reads all elements, as they lie in the member, into memory that has just their size; of a
    /// member that is no NPY file, its bytes.
    ///
    /// # Errors
    /// As for [`Member::load`]; [`Error::InvalidArgument`] for memory of another size.
    pub fn read_into(&self, to: &mut [u8]) -> Result<()> {
        load::check_room(to, self.elements.end - self.elements.start)?;
        if let Some(member) = self.inflated_at_once() {
            to.copy_from_slice(&member[self.elements.start as usize..self.elements.end as usize]);
            return Ok(());
        }
        let mut stream = self.stream();
        let mut header = vec![0; self.elements.start as usize];
        stream.read(&mut header)?;
        stream.read(to)?;
        stream.finish()
    }

    /// Reads members as [`Member::read_into`] does, each into the memory of the same number, in so
    /// many threads; 0 is one for each core.
    ///
    /// # Errors
    /// As for [`Member::load`]: the first error, which ends the work.
    pub fn read_all(members: &[Self], to: Vec<&mut [u8]>, threads: usize) -> Result<()> {
        let order = largest_first(members.iter().map(Self::size_bytes));
        let rooms: Vec<_> = to.into_iter().map(Mutex::new).collect();
        let read = |at: usize| match rooms.get(at).map(Mutex::lock) {
            Some(Ok(mut room)) => members[at].read_into(&mut room),
            _ => Err(Error::argument("to", "there is not one memory for each member")),
        };
        let bytes = members.iter().map(Self::size_bytes).fold(0, u64::saturating_add);
        each_in_order(&order, threads_for(threads, bytes), read).map(drop)
    }

    /// Returns the whole member with its header.
    ///
    /// # Errors
    /// As for [`Member::load`]; [`Error::NoMemory`].
    pub fn read(&self) -> Result<Vec<u8>> {
        if let Some(member) = self.inflated_at_once() {
            return Ok(member.into_owned());
        }
        let size = self.size_bytes();
        let mut bytes = system::room_for("a member of an archive", size)?;
        bytes.resize(size as usize, 0);
        let mut stream = self.stream();
        stream.read(&mut bytes)?;
        stream.finish()?;
        Ok(bytes)
    }

    /// Reads the whole member, keeps nothing of it, and compares its CRC with the directory's.
    ///
    /// # Errors
    /// As for [`Member::load`].
    pub fn verify(&self) -> Result<()> {
        if self.inflated_at_once().is_some() {
            return Ok(());
        }
        let mut stream = self.stream();
        let mut buffer = Vec::new();
        let mut left = self.size_bytes();
        while left > 0 {
            buffer.resize(left.min(VERIFIED_BYTES) as usize, 0);
            stream.read(&mut buffer)?;
            left -= buffer.len() as u64;
        }
        stream.finish()
    }

    /// Returns the whole member, if it is one that libdeflate inflates.
    fn inflated_at_once(&self) -> Option<Cow<'_, [u8]>> {
        match &self.whole {
            Some(member) => Some(Cow::Borrowed(member)),
            None => inflated(self.directory.source(), self.extent).map(Cow::Owned),
        }
    }

    fn stream(&self) -> Stream<'_> {
        Stream::new(self.directory.source(), &self.entry.name, self.extent)
    }
}

/// Without libdeflate no member is inflated at once.
#[cfg(not(inflates_whole))]
fn inflated(_source: &Source<'_>, _extent: Extent) -> Option<Vec<u8>> {
    None
}

/// Returns the header of a whole member, if it has one.
fn header_of(member: &[u8]) -> std::result::Result<Option<NpyHeader>, Fault> {
    if member.starts_with(MAGIC) { NpyHeader::read(member).map(Some) } else { Ok(None) }
}

/// Reads the header of a member, if it has one.
fn read_header(
    directory: &CentralDirectory<'_>,
    entry: &CentralEntry,
    extent: Extent,
) -> Result<Option<NpyHeader>> {
    let mut stream = Stream::new(directory.source(), &entry.name, extent);
    let mut bytes = vec![0; (PREFIX_BYTES as u64).min(entry.size) as usize];
    stream.read(&mut bytes)?;
    if !bytes.starts_with(MAGIC) {
        return Ok(None);
    }
    let invalid = |fault| directory.invalid(entry, fault);
    let size = NpyHeader::size(&bytes).map_err(invalid)?;
    let prefix = bytes.len();
    bytes.resize((size.total.min(entry.size) as usize).max(prefix), 0);
    stream.read(&mut bytes[prefix..])?;
    NpyHeader::read(&bytes).map(Some).map_err(invalid)
}
