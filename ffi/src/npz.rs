//! `shma_npz_*`: the C functions on NPZ files.

use std::ffi::{CString, c_char, c_void};
use std::path::Path;
use std::ptr::NonNull;

use shmarray::Array;
use shmarray::npy::{self, Contents, Elements, Npz, NpzOptions, Source};

use crate::arguments::{
    Object, file_in_memory, invalid, list, needed, optional_text, path as path_of, produce, put,
    text as text_of,
};
use crate::array::{arrays as arrays_of, shma_array};
use crate::error::{Failure, guard, shma_error, shma_status};
use crate::options::{Chosen, Growing, copied, shma_options};

/// The suffix that the names of arrays have in an archive.
const SUFFIX: &str = ".npy";

/// An open NPZ file: named arrays in a ZIP archive, stored or deflated. Members that are not NPY
/// files are arrays of their bytes.
pub struct shma_npz {
    npz: Npz<'static>,
    /// The path, for errors.
    file: String,
    threads: usize,
    names: Vec<CString>,
}

impl Object for shma_npz {}

/// Options of an NPZ file. Initialize them with SHMA_NPZ_OPTIONS_INIT and set what differs from the
/// defaults. They grow as shma_options does.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct shma_npz_options {
    /// sizeof(shma_npz_options), by which the library knows which fields the caller has.
    pub struct_bytes: usize,
    /// For an open: the limit in bytes on what compressed members may become together in one call.
    /// 0 stands for the memory that is free, and at least 1 GiB and 100 times the archive's size.
    pub max_bytes: u64,
    /// The number of threads of shma_npz_load_all and shma_npz_save; 0 stands for one for each
    /// core.
    pub threads: u32,
    /// For a save: if not 0, members are deflated. Otherwise they are stored.
    pub deflated: i32,
    /// For a save: the alignment of the members in bytes, a power of two up to 4096, such as 64:
    /// stored arrays that are mapped are aligned then. 0 adds nothing to what numpy.savez writes.
    pub align: u64,
}

// SAFETY: `Growing` needs the size first, no padding and fields that take every bit pattern: the
// fields are numbers, and the assertion below adds up their sizes.
unsafe impl Growing for shma_npz_options {
    const SIZES: &'static [usize] = &[32];
    const INITIALIZER: &'static str = "SHMA_NPZ_OPTIONS_INIT";
}

const _: () = assert!(shma_npz_options::SIZES[0] == size_of::<shma_npz_options>());

/// Returns the caller's options, or the defaults for NULL.
///
/// # Safety
/// `options` is NULL or points to a struct that begins with its size.
unsafe fn read_options(options: *const shma_npz_options) -> Result<shma_npz_options, Failure> {
    if options.is_null() {
        return Ok(shma_npz_options {
            struct_bytes: 0,
            max_bytes: 0,
            threads: 0,
            deflated: 0,
            align: 0,
        });
    }
    // SAFETY: `copied` needs a struct that begins with its size, which the caller of this function
    // guarantees by the `# Safety` section. It is not NULL (checked above).
    unsafe { copied(options) }
}

impl shma_npz {
    fn open(
        source: Source<'static>,
        file: String,
        options: shma_npz_options,
    ) -> Result<Self, Failure> {
        if options.deflated != 0 {
            let reason = "the archive says which members are deflated: it is for shma_npz_save";
            return Err(invalid("deflated", reason.to_owned()));
        }
        if options.align != 0 {
            return Err(invalid("align", "it is for shma_npz_save".to_owned()));
        }
        let npz = Npz::open(source)?;
        let npz = if options.max_bytes == 0 { npz } else { npz.with_max_bytes(options.max_bytes) };
        // Core refuses names with a zero byte.
        let names = (0..npz.len()).map(|index| CString::new(short_name(&npz, index)));
        let names = names.map(Result::unwrap_or_default).collect();
        Ok(Self { npz, file, threads: options.threads as usize, names })
    }

    fn load(&self, name: &str, chosen: &Chosen<'_>) -> Result<shma_array, Failure> {
        let index = self
            .npz
            .find(name)
            .ok_or_else(|| Failure::NoMember { name: name.to_owned(), file: self.file.clone() })?;
        let member = self.npz.member(index)?;
        Ok(shma_array(member.load(chosen.of_file(&member.dtype()?)?)?))
    }

    fn load_all(&self, chosen: &Chosen<'_>) -> Result<Vec<shma_array>, Failure> {
        let members: Vec<usize> = (0..self.npz.len()).collect();
        Ok(self.npz.each(&members, self.threads, |member| {
            Ok(shma_array(member.load(chosen.of_file(&member.dtype()?)?)?))
        })?)
    }
}

/// Returns the name of a member without its suffix, unless that is another member's name.
fn short_name<'n>(npz: &'n Npz<'_>, index: usize) -> &'n str {
    let name = npz.name(index);
    let short = name.strip_suffix(SUFFIX);
    short.filter(|short| npz.find(short) == Some(index)).unwrap_or(name)
}

/// Opens an NPZ file and reads its directory. Members are read when they are loaded.
///
/// options may be NULL. Fails with SHMA_ERROR_NOT_FOUND, and with SHMA_ERROR_INVALID_FILE if it is
/// no ZIP archive, or one with members that have one name, have a part ".." in their name, or
/// overlap.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_open(
    path: *const c_char,
    options: *const shma_npz_options,
    npz_out: *mut *mut shma_npz,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees.
        let path = unsafe { path_of("path", path) }?;
        // SAFETY: `read_options` needs NULL or a struct with its size: P1 of the crate, which the C
        // caller guarantees.
        let options = unsafe { read_options(options) }?;
        let file = path.display().to_string();
        let make = || shma_npz::open(Source::file(path)?, file, options);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `npz_out`.
        unsafe { produce("npz_out", npz_out, make) }
    })
}

/// Opens the bytes of an NPZ file, as shma_npz_open does. They are not copied: the caller keeps
/// them until it has closed the NPZ file.
///
/// data has size_bytes bytes. Another thread or process may write them meanwhile: a load then
/// returns an array with some of the bytes before and some after, or fails.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require; `data` stays readable until the object is
/// closed.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_open_bytes(
    data: *const c_void,
    size_bytes: usize,
    options: *const shma_npz_options,
    npz_out: *mut *mut shma_npz,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `file_in_memory` needs bytes that are readable as long as the object, which the C
        // caller guarantees by the `# Safety` section.
        let source = unsafe { file_in_memory(data, size_bytes) }?;
        // SAFETY: `read_options` needs NULL or a struct with its size: P1 of the crate, which the C
        // caller guarantees.
        let options = unsafe { read_options(options) }?;
        let make = || shma_npz::open(source, "the archive in memory".to_owned(), options);
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `npz_out`.
        unsafe { produce("npz_out", npz_out, make) }
    })
}

/// Returns the number of members; 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn shma_npz_count(npz: Option<&shma_npz>) -> usize {
    npz.map_or(0, |npz| npz.names.len())
}

/// Returns the name of a member, or NULL if there is none of that index. An array's name has no
/// ".npy", unless another member has the name without it. The text is valid until the NPZ file is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn shma_npz_name(npz: Option<&shma_npz>, index: usize) -> *const c_char {
    npz.and_then(|npz| npz.names.get(index)).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Returns 1 if shma_npz_load finds a member of this name, with or without ".npy", else 0.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_contains(npz: Option<&shma_npz>, name: *const c_char) -> i32 {
    // SAFETY: `optional_text` needs NULL or a live zero-terminated text: P2 of the crate, which the
    // C caller guarantees for `name`.
    let name = unsafe { optional_text("name", name) }.ok().flatten();
    npz.zip(name).is_some_and(|(npz, name)| npz.npz.find(name).is_some()).into()
}

/// Loads a member into shared memory: the array, or for a member that is not an NPY file its bytes
/// as an array of SHMA_UINT8. The member's CRC is checked.
///
/// name is with or without ".npy". options may be NULL, and are as for shma_npy_load. Fails with
/// SHMA_ERROR_NOT_FOUND if there is no such member, SHMA_ERROR_INVALID_FILE also if the member is
/// encrypted, is compressed by another method than deflate, bzip2, LZMA and Zstandard, or would
/// exceed max_bytes, and like shma_npy_load.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_load(
    npz: Option<&shma_npz>,
    name: *const c_char,
    options: *const shma_options,
    array_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let npz = needed("npz", npz)?;
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees.
        let name = unsafe { text_of("name", name) }?;
        // SAFETY: `Chosen::read` needs a struct with its size and texts: P1 and P2 of the crate,
        // which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        // SAFETY: `produce` needs an output that is NULL or valid for a write: P4 of the crate,
        // which the C caller guarantees for `array_out`.
        unsafe { produce("array_out", array_out, || npz.load(name, &chosen)) }
    })
}

/// Loads all members into shared memory, by several threads.
///
/// arrays_out has room for shma_npz_count(npz) pointers, and gets the array of each index of
/// shma_npz_name. options may be NULL, and must not have a name. Fails like shma_npz_load: then no
/// array is left, and nothing is written to arrays_out.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_load_all(
    npz: Option<&shma_npz>,
    options: *const shma_options,
    arrays_out: *mut *mut shma_array,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        let npz = needed("npz", npz)?;
        if arrays_out.is_null() && !npz.names.is_empty() {
            return Err(Failure::Null("arrays_out"));
        }
        // SAFETY: `Chosen::read` needs NULL or a struct with its size and texts: P1 and P2 of the
        // crate, which the C caller guarantees.
        let chosen = unsafe { Chosen::read(options) }?;
        for (index, array) in npz.load_all(chosen.of_files()?)?.into_iter().enumerate() {
            // SAFETY: `put` needs an output that is valid for a write: `arrays_out` is not NULL
            // (checked above) and has room for each member by P3 of the crate.
            unsafe { put(arrays_out.wrapping_add(index), array) };
        }
        Ok(())
    })
}

/// Saves arrays to an NPZ file; stored, with the bytes that numpy.savez writes. The file appears
/// under its path when it is complete, and takes the place of an older one as with shma_npy_save.
/// The path is used as it is: no ".npz" is added.
///
/// names and arrays have count elements. A name is without ".npy", which is added to it. options
/// may be NULL. Fails with SHMA_ERROR_NOT_FOUND if the folder does not exist,
/// SHMA_ERROR_INVALID_ARGUMENT if a name is there twice, SHMA_ERROR_INVALID_DTYPE if an NPY file
/// cannot describe a dtype, SHMA_ERROR_OS.
///
/// # Safety
/// The pointers are as P1 to P4 of the crate require.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn shma_npz_save(
    path: *const c_char,
    count: usize,
    names: *const *const c_char,
    arrays: *const Option<NonNull<shma_array>>,
    options: *const shma_npz_options,
    error: Option<&mut shma_error>,
) -> shma_status {
    guard(error, || {
        // SAFETY: `path_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees.
        let path = unsafe { path_of("path", path) }?;
        // SAFETY: `read_options` needs NULL or a struct with its size: P1 of the crate, which the C
        // caller guarantees.
        let options = unsafe { read_options(options) }?;
        // SAFETY: `list` needs NULL or `count` pointers: P3 of the crate, which the C caller
        // guarantees for `names`.
        let names = unsafe { list("names", names, count) }?.iter();
        // SAFETY: `text_of` needs NULL or a live zero-terminated text: P2 of the crate, which the C
        // caller guarantees for each of `names`.
        let names = names.map(|name| Ok(unsafe { text_of("names", *name) }?.to_owned() + SUFFIX));
        let names = names.collect::<Result<Vec<_>, Failure>>()?;
        // SAFETY: `arrays_of` needs NULL or `count` pointers to arrays: P1 and P3 of the crate,
        // which the C caller guarantees for `arrays`.
        let arrays = unsafe { arrays_of("arrays", arrays, count) }?;
        save(path, &names, &arrays, options)
    })
}

fn save(
    path: &Path,
    names: &[String],
    arrays: &[&Array],
    options: shma_npz_options,
) -> Result<(), Failure> {
    if options.max_bytes != 0 {
        return Err(invalid("max_bytes", "it limits what is read: it is for shma_npz_open".into()));
    }
    let contents = arrays.iter().map(|array| Ok(Contents::Elements(Elements::of(array)?)));
    let contents = contents.collect::<Result<Vec<_>, Failure>>()?;
    let members: Vec<_> = names.iter().map(String::as_str).zip(contents).collect();
    let is_deflated = options.deflated != 0;
    let threads = options.threads as usize;
    // Core refuses what is too large for it.
    let align = u16::try_from(options.align).unwrap_or(u16::MAX);
    Ok(npy::save_npz(path, &members, NpzOptions { is_deflated, threads, align })?)
}

/// Closes an NPZ file. Its arrays stay open.
#[unsafe(no_mangle)]
pub extern "C" fn shma_npz_close(npz: Option<Box<shma_npz>>) {
    guard(None, || {
        drop(npz);
        Ok(())
    });
}
