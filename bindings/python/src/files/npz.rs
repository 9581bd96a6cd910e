//! The members of an NPZ file.

use std::fs::File;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shmarray::npy::{Member, NpyHeader, Npz, Source};
use shmarray::{Array, Options};

use super::input::{FileMemory, Input};
use super::npy::{check_length, check_not_empty, placed};
use super::room::{Room, make_readonly};
use crate::error::to_py;
use crate::first_use::FirstUse;
use crate::segment_memory::ndarray_over;
use crate::{dtypes, segment_memory};

/// What becomes of a member that is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// An array in shared memory.
    Shared,
    /// A private one.
    Private,
    /// A read-only view of the source, or a read-only private array where there can be none.
    View,
    /// A view of a mapping of its own, copy on write, or a private array.
    CopyOnWrite,
}

impl Form {
    fn named(name: &str) -> Self {
        match name {
            "shared" => Self::Shared,
            "view" => Self::View,
            "copy-on-write" => Self::CopyOnWrite,
            _ => Self::Private,
        }
    }
}

/// How members are loaded.
#[derive(Clone, Copy)]
struct How {
    form: Form,
    /// Whether an array that would not be aligned is copied.
    align: bool,
    /// Whether the CRC of what is not copied is compared, too.
    verify: bool,
}

/// An NPZ file, of which the directory was read.
#[pyclass(frozen, module = "shmarray._core")]
pub(crate) struct Archive {
    /// Declared first, so that it goes before the memory that it reads.
    npz: Npz<'static>,
    /// The object that keeps the memory; None for a file.
    object: Option<Py<PyAny>>,
    /// The mapped file, when a view of it is wanted. None where it cannot be mapped.
    map: FirstUse<Option<Py<FileMemory>>>,
    how: How,
}

/// A member: an array, bytes if it is no NPY file, or None if it has Python objects.
type Loaded<'py> = Option<Bound<'py, PyAny>>;

#[pymethods]
impl Archive {
    /// Opens a path, an object with a buffer, or an open file by a descriptor of its own. Raises
    /// TypeError for anything else.
    ///
    /// `how` is "shared", "private", "view" or "copy-on-write"; `align`; `verify`. `place` is the
    /// descriptor of an open file, and the name for errors.
    #[new]
    #[pyo3(signature = (source, max_bytes, how, place))]
    fn open(
        source: &Bound<'_, PyAny>,
        max_bytes: Option<u64>,
        how: (String, bool, bool),
        place: (Option<i32>, Option<String>),
    ) -> PyResult<Self> {
        let py = source.py();
        let (fd, name) = place;
        let (source, object) = match fd {
            Some(fd) => (opened(fd)?, None),
            None => {
                let mut input = Input::of(source, 0)?
                    .ok_or_else(|| PyTypeError::new_err("neither a path nor bytes"))?;
                check_not_empty(&input)?;
                let object = input.memory_of(source)?.map(Bound::unbind);
                (input.source, object)
            }
        };
        let source = match name {
            Some(name) => source.named(name),
            None => source,
        };
        let npz = py.detach(|| Npz::open(source)).map_err(to_py)?;
        let npz = match max_bytes {
            Some(max_bytes) => npz.with_max_bytes(max_bytes),
            None => npz,
        };
        let (form, align, verify) = how;
        let how = How { form: Form::named(&form), align, verify };
        Ok(Self { npz, object, map: FirstUse::new(), how })
    }

    /// Returns the names of the members in the archive.
    fn names(&self) -> Vec<&str> {
        (0..self.npz.len()).map(|index| self.npz.name(index)).collect()
    }

    /// Returns the archive's file by a new descriptor, which the caller closes; None for memory.
    fn descriptor(&self) -> PyResult<Option<i32>> {
        Ok(self.npz.source().try_clone_file().map_err(to_py)?.map(number_of))
    }

    /// Returns a member. A header of more than `most` bytes is a ValueError.
    fn load<'py>(&self, py: Python<'py>, index: usize, most: Option<u64>) -> PyResult<Loaded<'py>> {
        let open = || self.npz.member(index).and_then(|member| self.within(member, most));
        let member = py.detach(open).map_err(to_py)?;
        match member.header() {
            None => self.bytes_of(py, &member).map(Some),
            Some(header) if header.has_objects() => Ok(None),
            Some(_) if self.how.form == Form::Shared => {
                let array = py.detach(|| member.load(&Options::new())).map_err(to_py)?;
                shared_array(py, array).map(Some)
            }
            Some(header) => {
                if let Some(view) = self.view(py, &member, header)? {
                    return Ok(Some(view));
                }
                let mut room = room_for(py, header)?;
                let to = room.slice();
                py.detach(|| member.read_into(to)).map_err(to_py)?;
                self.finished(room).map(Some)
            }
        }
    }

    /// Returns members, loaded by several threads.
    fn load_all<'py>(
        &self,
        py: Python<'py>,
        members: Vec<usize>,
        threads: usize,
        most: Option<u64>,
    ) -> PyResult<Vec<Loaded<'py>>> {
        match self.how.form {
            Form::Shared => self.load_all_shared(py, &members, threads, most),
            _ => self.load_all_private(py, &members, threads, most),
        }
    }

    /// Returns the bytes of a member with its header, if it has one.
    fn read<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.npz.member(index)?.read()).map_err(to_py)?;
        Ok(PyBytes::new(py, &bytes))
    }
}

impl Archive {
    /// Returns the member, unless its header is longer than that.
    fn within<'m>(&self, member: Member<'m>, most: Option<u64>) -> shmarray::Result<Member<'m>> {
        if let Some(header) = member.header() {
            check_length(header, most, self.npz.source(), Some(member.name()))?;
        }
        Ok(member)
    }

    fn load_all_shared<'py>(
        &self,
        py: Python<'py>,
        members: &[usize],
        threads: usize,
        most: Option<u64>,
    ) -> PyResult<Vec<Loaded<'py>>> {
        let load = |member: Member<'_>| {
            let member = self.within(member, most)?;
            match member.header() {
                Some(header) if header.has_objects() => Ok(LoadedMember::Objects),
                Some(_) => member.load(&Options::new()).map(LoadedMember::Array),
                None => member.read().map(LoadedMember::Bytes),
            }
        };
        let loaded = py.detach(|| self.npz.each(members, threads, load)).map_err(to_py)?;
        loaded.into_iter().map(|found| found.into_python(py)).collect()
    }

    fn load_all_private<'py>(
        &self,
        py: Python<'py>,
        members: &[usize],
        threads: usize,
        most: Option<u64>,
    ) -> PyResult<Vec<Loaded<'py>>> {
        let open = |member| self.within(member, most);
        // One thread: to open a member is less than the start of a thread.
        let opened = py.detach(|| self.npz.each(members, 1, open)).map_err(to_py)?;
        let mut loaded = Vec::new();
        let mut copied = Vec::new();
        let mut rooms = Vec::new();
        for (at, member) in opened.into_iter().enumerate() {
            let found = match member.header() {
                None => Some(self.bytes_of(py, &member)?),
                Some(header) if header.has_objects() => None,
                Some(header) => self.view(py, &member, header)?,
            };
            let is_copied = member.header().is_some_and(|header| !header.has_objects());
            if is_copied && found.is_none() {
                rooms.push((at, room_for(py, header_of(&member)?)?));
                copied.push(member);
            }
            loaded.push(found);
        }
        if !copied.is_empty() {
            let slices: Vec<_> = rooms.iter_mut().map(|(_, room)| room.slice()).collect();
            py.detach(|| Member::read_all(&copied, slices, threads)).map_err(to_py)?;
        }
        for (at, room) in rooms {
            loaded[at] = Some(self.finished(room)?);
        }
        Ok(loaded)
    }

    /// Returns a view of a member, if there shall and can be one.
    fn view<'py>(
        &self,
        py: Python<'py>,
        member: &Member<'_>,
        header: &NpyHeader,
    ) -> PyResult<Loaded<'py>> {
        let Some(offset) = member.stored_at() else { return Ok(None) };
        let Some(memory) = self.memory(py)? else { return Ok(None) };
        let item = header.dtype().map_err(to_py)?;
        let dtype = dtypes::to_numpy(py, item)?;
        let view = ndarray_over(&dtype, item.itemsize(), &memory, &placed(header, offset))?;
        if self.how.align && !view.getattr("flags")?.getattr("aligned")?.extract::<bool>()? {
            return Ok(None);
        }
        if self.how.verify {
            py.detach(|| member.verify()).map_err(to_py)?;
        }
        if self.how.form == Form::View {
            make_readonly(&view)?;
        }
        Ok(Some(view))
    }

    /// Returns a private array, as one of views is seen.
    fn finished<'py>(&self, room: Room<'py>) -> PyResult<Bound<'py, PyAny>> {
        let array = room.filled();
        if self.how.form == Form::View {
            make_readonly(&array)?;
        }
        Ok(array)
    }

    /// Returns an object that has the whole archive as its buffer, if views are wanted.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Loaded<'py>> {
        let map = || {
            let map = py.detach(|| self.npz.source().map()).map_err(to_py)?;
            map.map(|map| Py::new(py, FileMemory(map))).transpose()
        };
        let map = match (self.how.form, &self.object) {
            (Form::Shared | Form::Private, _) => return Ok(None),
            (Form::View, Some(object)) => return Ok(Some(object.bind(py).clone())),
            (Form::View, None) => {
                self.map.get_or_try_make(py, map)?.as_ref().map(|map| map.clone_ref(py))
            }
            (Form::CopyOnWrite, _) => map()?,
        };
        Ok(map.map(|map| map.into_bound(py).into_any()))
    }

    fn bytes_of<'py>(&self, py: Python<'py>, member: &Member<'_>) -> PyResult<Bound<'py, PyAny>> {
        let bytes = py.detach(|| member.read()).map_err(to_py)?;
        Ok(PyBytes::new(py, &bytes).into_any())
    }
}

/// A member that was loaded without the GIL.
enum LoadedMember {
    Array(Array),
    Bytes(Vec<u8>),
    Objects,
}

impl LoadedMember {
    fn into_python(self, py: Python<'_>) -> PyResult<Loaded<'_>> {
        match self {
            Self::Array(array) => shared_array(py, array).map(Some),
            Self::Bytes(bytes) => Ok(Some(PyBytes::new(py, &bytes).into_any())),
            Self::Objects => Ok(None),
        }
    }
}

fn shared_array(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    segment_memory::to_ndarray(&dtypes::to_numpy(py, array.dtype())?, array)
}

fn room_for<'py>(py: Python<'py>, header: &NpyHeader) -> PyResult<Room<'py>> {
    let dtype = dtypes::to_numpy(py, header.dtype().map_err(to_py)?)?;
    Room::new(&dtype, header.layout(), header.order(), header.data_bytes())
}

fn header_of<'m>(member: &'m Member<'_>) -> PyResult<&'m NpyHeader> {
    member.header().ok_or_else(|| crate::error::value_error("the member is no NPY file"))
}

/// Returns a source of a file that Python has open, by a descriptor of its own.
#[cfg(unix)]
#[allow(unsafe_code)] // a number becomes a descriptor
fn opened(fd: i32) -> PyResult<Source<'static>> {
    use std::os::fd::BorrowedFd;
    if fd < 0 {
        return Err(crate::error::value_error("the file is not open"));
    }
    // SAFETY: the number must be that of an open descriptor while it is borrowed. Python's file
    // object told it, the caller keeps that object, and `try_clone_to_owned` fails if it is closed.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let file = File::from(borrowed.try_clone_to_owned()?);
    Source::opened(file, "").map_err(to_py)
}

#[cfg(not(unix))]
fn opened(_fd: i32) -> PyResult<Source<'static>> {
    Err(crate::error::value_error("open files are read by their bytes on this system"))
}

#[cfg(unix)]
fn number_of(file: File) -> i32 {
    std::os::fd::IntoRawFd::into_raw_fd(file)
}

#[cfg(not(unix))]
fn number_of(_file: File) -> i32 {
    -1
}
