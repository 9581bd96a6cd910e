//! The directory of an NPZ file, which is a ZIP archive: read once and checked as a whole.
//!
//! Invariants of a directory that was read:
//!
//! * D1 No two members have one name, and no name is empty or has a zero byte. If an archive has
//!   several of one name, they are the last one: it was appended later. A name is never a path.
//! * D2 The bytes of no two members overlap, as far as the directory tells;
//!   [`CentralDirectory::extent`] adds what the member's own header tells.

use rawzip::{
    CompressionMethod, EntryFlags, ErrorKind, ZipArchive, ZipArchiveEntryWayfinder, ZipEntry,
    ZipLocalFileHeader, ZipLocator,
};
use rustc_hash::FxHashMap;

use super::fault::{Fault, short};
use super::methods::Method;
use super::source::Source;
use super::stream::Extent;
use crate::system;
use crate::value::error::{Error, Result};

/// Room for a directory entry of the usual size.
const BUFFER_BYTES: u64 = 64 << 10;
/// The bytes of a member's own header without its name and its extra fields.
const LOCAL_HEADER_BYTES: u64 = 30;
/// The most bytes that one byte of deflated data stands for.
///
/// Source: zlib, "Technical Details", "Maximum Compression Factor".
const RATIO_MOST: u64 = 1032;
/// The characters of the bytes from 128 on in names that are not in UTF-8.
///
/// Source: PKWARE, APPNOTE.TXT, appendix D; Unicode, `CP437.TXT`.
const CODE_PAGE_437: &str = "\
    ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// A member, as the directory describes it.
#[derive(Debug)]
pub(super) struct CentralEntry {
    pub(super) name: String,
    pub(super) size: u64,
    compressed: u64,
    method: CompressionMethod,
    is_encrypted: bool,
    crc: u32,
    /// The bytes that it takes in the archive, if its own header has no extra fields.
    least_bytes: u64,
    local_offset: u64,
    /// Where the next member begins, or the directory.
    next_offset: u64,
    wayfinder: ZipArchiveEntryWayfinder,
}

impl CentralEntry {
    pub(super) fn is_compressed(&self) -> bool {
        self.method != CompressionMethod::STORE
    }
}

/// What needs memory for each member, as many as the archive's writer chose.
const MEMBERS: &str = "the list of an archive's members";

/// The members of an archive.
pub(super) struct CentralDirectory<'a> {
    archive: ZipArchive<Source<'a>>,
    pub(super) entries: Vec<CentralEntry>,
    by_name: FxHashMap<String, usize>,
}

impl<'a> CentralDirectory<'a> {
    pub(super) fn read(source: Source<'a>) -> Result<Self> {
        let size = source.size_bytes();
        let mut buffer = vec![0; size.clamp(1024, BUFFER_BYTES) as usize];
        let located = ZipLocator::new().locate_in_reader(source, &mut buffer, size);
        let archive = located.map_err(|(source, error)| zip_error(&source, None, error))?;
        let entries = entries(&archive, &mut buffer)?;
        let mut directory = Self { archive, entries, by_name: FxHashMap::default() };
        directory.find_ends()?;
        directory.check_overlaps()?;
        directory.keep_the_last_of_each_name()?;
        Ok(directory)
    }

    /// Makes D1 hold.
    fn keep_the_last_of_each_name(&mut self) -> Result<()> {
        let count = self.entries.len();
        let bytes = (count * size_of::<(String, usize)>()) as u64;
        let reserved = self.by_name.try_reserve(count);
        reserved.map_err(|_| Error::NoMemory { bytes, purpose: MEMBERS })?;
        let mut unique: Vec<CentralEntry> = Vec::new();
        system::reserve_for(MEMBERS, &mut unique, count)?;
        for entry in std::mem::take(&mut self.entries) {
            system::check_headroom()?; // for the name
            check_name(&entry.name).map_err(|fault| self.invalid(&entry, fault))?;
            match self.by_name.get(&entry.name) {
                Some(earlier) => unique[*earlier] = entry,
                None => {
                    self.by_name.insert(entry.name.clone(), unique.len());
                    unique.push(entry);
                }
            }
        }
        self.entries = unique;
        Ok(())
    }

    pub(super) fn source(&self) -> &Source<'a> {
        self.archive.get_ref()
    }

    /// Returns the index of the member with just this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Sets where the next member of each begins.
    fn find_ends(&mut self) -> Result<()> {
        let mut starts: Vec<u64> = Vec::new();
        system::reserve_for(MEMBERS, &mut starts, self.entries.len())?;
        starts.extend(self.entries.iter().map(|entry| entry.local_offset));
        starts.sort_unstable();
        let directory = self.archive.directory_offset();
        for entry in &mut self.entries {
            // Two members at one offset, and one behind the directory, have no room, and
            // `check_overlaps` refuses them.
            let own = starts.partition_point(|start| *start < entry.local_offset);
            let next = starts.get(own + 1).copied().unwrap_or(directory);
            entry.next_offset = next.min(directory);
        }
        Ok(())
    }

    /// Checks D2.
    fn check_overlaps(&self) -> Result<()> {
        for entry in &self.entries {
            let end = entry.local_offset.checked_add(entry.least_bytes);
            if end.is_none_or(|end| end > entry.next_offset) {
                let reason = format!(
                    "its {} bytes from byte {} of the archive on overlap another member or the \
                     directory",
                    entry.compressed, entry.local_offset
                );
                return Err(self.invalid(entry, Fault::new("compressed size", reason)));
            }
        }
        Ok(())
    }

    /// Returns where the data of a member lies, after a look at its own header.
    pub(super) fn extent(&self, entry: &CentralEntry) -> Result<Extent> {
        let method = self.check_readable(entry)?;
        let zip_error = |error| zip_error(self.source(), Some(&entry.name), error);
        let found = self.archive.get_entry(entry.wayfinder).map_err(zip_error)?;
        let mut buffer = vec![0; local_names_and_fields(&found)];
        let local = found.local_header(&mut buffer).map_err(zip_error)?;
        check_local(entry, &local).map_err(|fault| self.invalid(entry, fault))?;
        let (start, end) = found.compressed_data_range();
        if end > entry.next_offset {
            let reason = format!("bytes {start} to {end} overlap another member");
            return Err(self.invalid(entry, Fault::new("compressed size", reason)));
        }
        Ok(Extent { start, end, method, size: entry.size, crc: entry.crc })
    }

    /// Returns the method of a member, after a check of what can be told without reading it.
    pub(super) fn check_readable(&self, entry: &CentralEntry) -> Result<Method> {
        let CentralEntry { size, compressed, .. } = *entry;
        let fault = match Method::of(entry.method) {
            _ if entry.is_encrypted => Fault::new("flags", "it is encrypted"),
            Some(Method::Stored) if size != compressed => {
                Fault::new("size", format!("{size} bytes are stored as {compressed}"))
            }
            Some(Method::Deflated) if size / RATIO_MOST > compressed => {
                let reason = format!("{compressed} deflated bytes never become {size}");
                Fault::new("size", reason)
            }
            Some(method) => return Ok(method),
            None => {
                let reason = format!("{:?} is none that can be read", entry.method);
                Fault::new("compression method", reason)
            }
        };
        Err(self.invalid(entry, fault))
    }

    pub(super) fn invalid(&self, entry: &CentralEntry, fault: Fault) -> Error {
        self.source().place().invalid(Some(&entry.name), fault)
    }
}

fn entries(archive: &ZipArchive<Source<'_>>, buffer: &mut [u8]) -> Result<Vec<CentralEntry>> {
    let source = archive.get_ref();
    let mut large;
    let mut listed = archive.entries(buffer);
    let mut entries = Vec::new();
    loop {
        match listed.next_entry() {
            Ok(Some(record)) => {
                system::check_headroom()?; // for the name
                system::reserve_for(MEMBERS, &mut entries, 1)?;
                entries.push(entry(&record));
            }
            Ok(None) => break,
            // Another time with room for the longest name.
            Err(error) if matches!(error.kind(), ErrorKind::BufferTooSmall { .. }) => {
                large = vec![0; rawzip::MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
                listed = archive.entries(&mut large);
                entries.clear();
            }
            Err(error) => return Err(zip_error(source, None, error)),
        }
    }
    let listed = entries.len() as u64;
    let declared = archive.entries_hint();
    if listed == declared {
        Ok(entries)
    } else {
        let reason = format!("{listed} members are listed, and {declared} are declared");
        Err(source.place().invalid(None, Fault::new("directory", reason)))
    }
}

fn entry(record: &rawzip::ZipFileHeaderRecord<'_>) -> CentralEntry {
    let path = record.file_path();
    let name = path.as_bytes();
    let compressed = record.compressed_size_hint();
    let header_bytes = LOCAL_HEADER_BYTES + name.len() as u64;
    CentralEntry {
        name: name_of(name),
        size: record.uncompressed_size_hint(),
        compressed,
        method: record.compression_method(),
        is_encrypted: is_encrypted(record.flags()),
        crc: record.crc32(),
        least_bytes: header_bytes.saturating_add(compressed),
        local_offset: record.local_header_offset(),
        next_offset: 0,
        wayfinder: record.wayfinder(),
    }
}

fn is_encrypted(flags: EntryFlags) -> bool {
    flags.is_encrypted() || flags.has_strong_encryption() || flags.is_masked()
}

/// Returns a name as text. A name in UTF-8 is kept, whether or not it is flagged as such.
fn name_of(bytes: &[u8]) -> String {
    let high = |byte: u8| CODE_PAGE_437.chars().nth(usize::from(byte.wrapping_sub(128)));
    let character = |byte: &u8| if byte.is_ascii() { Some(char::from(*byte)) } else { high(*byte) };
    match std::str::from_utf8(bytes) {
        Ok(name) => name.to_owned(),
        Err(_) => bytes.iter().filter_map(character).collect(),
    }
}

/// Returns the size of the name and the extra fields of a member's own header.
fn local_names_and_fields(entry: &ZipEntry<'_, Source<'_>>) -> usize {
    match entry.local_header(&mut []).map_err(rawzip::Error::into_kind) {
        Err(ErrorKind::BufferTooSmall { required }) => required,
        _ => 0, // a fault, which the next call reports
    }
}

/// Compares a member's own header with the directory. Behind the data of a member that was written
/// to a stream are the sizes that its header lacks; the directory has them, too.
fn check_local(
    entry: &CentralEntry,
    local: &ZipLocalFileHeader<'_>,
) -> std::result::Result<(), Fault> {
    let differs = |field, found: &dyn std::fmt::Display, expected: &dyn std::fmt::Display| {
        let reason = format!("its own header says {found}, and the directory {expected}");
        Err(Fault::new(field, reason))
    };
    let flags = local.flags();
    let name = name_of(local.file_path().as_bytes());
    let method = local.compression_method();
    let size = local.uncompressed_size_hint();
    let compressed = local.compressed_size_hint();
    match () {
        () if name != entry.name => {
            Err(Fault::new("name", format!("its own header has another name: {:?}", short(&name))))
        }
        () if is_encrypted(flags) => Err(Fault::new("flags", "its own header says encrypted")),
        () if method != entry.method => differs("compression method", &method, &entry.method),
        () if flags.has_data_descriptor() => Ok(()),
        () if size != entry.size => differs("size", &size, &entry.size),
        () if compressed != entry.compressed => {
            differs("compressed size", &compressed, &entry.compressed)
        }
        () => Ok(()),
    }
}

/// Checks a name for D1. A name that is absolute or has a part `..` is no fault: no file is made by
/// it.
pub(super) fn check_name(name: &str) -> std::result::Result<(), Fault> {
    match name {
        "" => Err(Fault::new("name", "it is empty")),
        _ if name.contains('\0') => Err(Fault::new("name", "it has a zero byte")),
        _ => Ok(()),
    }
}

/// Returns the error for one of the library that reads ZIP archives.
fn zip_error(source: &Source<'_>, member: Option<&str>, error: rawzip::Error) -> Error {
    let reason = match error.into_kind() {
        ErrorKind::IO(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
            return source.place().os("pread", error);
        }
        ErrorKind::MissingEndOfCentralDirectory => {
            "it is not a ZIP archive, or its end is cut off: it has no end of a directory"
                .to_owned()
        }
        kind => kind.to_string(),
    };
    source.place().invalid(member, Fault::new("archive", reason))
}
