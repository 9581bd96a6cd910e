//! Many NPY files of one shape and dtype in one array, read by several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use super::fault::Fault;
use super::header::NpyHeader;
use super::load::{Npy, check_room};
use super::source::Source;
use super::threads::threads_of;
use crate::array::{Array, Options};
use crate::element::copy::{Strided, copy_elements, in_threads};
use crate::system;
use crate::value::error::{Error, Result};
use crate::value::shape::{Layout, Order, size_bytes};

/// Many NPY files of one shape and dtype, which become one array `[N, …]`.
///
/// Each file is opened when a thread comes to it, and closed before the next, so any number of
/// files takes few fds.
///
/// ```
/// use shmarray::{Options, npy::{Batch, Source}};
/// # let header = b"\x93NUMPY\x01\x00\x3d\x00\
/// #     {'descr': '|u1', 'fortran_order': False, 'shape': (2,), }   \n";
/// # let file = |n: u8| [&header[..], &[n, n]].concat();
/// let files = [file(1), file(2), file(3)]; // or paths, with Source::file
/// let batch = Batch::open(files.len(), |index| Ok(Source::bytes(&files[index])))?;
/// let array = batch.load(&Options::new(), 2, &|done| Ok(println!("{done} are read")))?;
/// assert_eq!((array.shape(), array.get::<u8>(&[2, 1])?), (&[3, 2][..], 3));
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Batch<F> {
    count: usize,
    open: F,
    header: NpyHeader,
    shape: Vec<u64>,
    item_bytes: u64,
}

/// Is told how many files are read, in the thread that called. An error of it ends the work.
pub type Progress<'a> = dyn Fn(usize) -> Result<()> + Sync + 'a;

impl<'a, F: Fn(usize) -> Result<Source<'a>> + Sync> Batch<F> {
    /// Reads the header of the first file, which all others must have.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there are no files or their sizes together overflow; as for
    /// [`Npy::open`]; [`Error::InvalidDType`] for Python objects.
    pub fn open(count: usize, open: F) -> Result<Self> {
        if count == 0 {
            return Err(Error::argument("files", "a batch needs at least one"));
        }
        let first = Npy::open(open(0)?.numbered(0))?;
        let header = first.header().clone();
        let shape: Vec<u64> = [count as u64].iter().chain(header.shape()).copied().collect();
        size_bytes(&shape, first.dtype()?.itemsize())?;
        let item_bytes = header.data_bytes();
        Ok(Self { count, open, header, shape, item_bytes })
    }

    /// Returns the header of the first file.
    #[must_use]
    pub fn header(&self) -> &NpyHeader {
        &self.header
    }

    /// Returns the shape of the batch: the number of files, then the shape of each.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the size of the batch in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.item_bytes * self.count as u64
    }

    /// Returns the batch in shared memory, in C order, read by so many threads; 0 is one for each
    /// core.
    ///
    /// # Errors
    /// As for [`Array::create`] and [`Npy::load`]; [`Error::InvalidFile`] for a file of another
    /// shape or dtype; those of `progress`. No array is left then.
    pub fn load(
        &self,
        options: &Options,
        threads: usize,
        progress: &Progress<'_>,
    ) -> Result<Array> {
        let dtype = self.header.dtype()?.clone();
        let options = options.clone().order(Order::C);
        Array::create_by(dtype, &self.shape, &options, &|to| self.read_into(to, threads, progress))
    }

    /// Reads the batch into memory that has just its size.
    ///
    /// # Errors
    /// As for [`Batch::load`]; [`Error::InvalidArgument`] for memory of another size.
    pub fn read_into(&self, to: &mut [u8], threads: usize, progress: &Progress<'_>) -> Result<()> {
        check_room(to, self.size_bytes())?;
        let places: Vec<_> = match self.item_bytes {
            0 => (0..self.count).map(|_| Mutex::new(&mut [][..])).collect(),
            bytes => to.chunks_exact_mut(bytes as usize).map(Mutex::new).collect(),
        };
        let next = AtomicUsize::new(0);
        let done = AtomicUsize::new(0);
        let failed = OnceLock::new();
        let work = |index: usize, thread: usize| {
            let Some(Ok(mut place)) = places.get(index).map(Mutex::lock) else { return Ok(()) };
            self.read_one(index, &mut place)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            if thread == 0 { progress(done) } else { Ok(()) }
        };
        in_threads(threads_of(threads).min(self.count), |thread| {
            while failed.get().is_none() {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.count {
                    return;
                }
                if let Err(error) = work(index, thread) {
                    let _ = failed.set(error); // the first one is told
                }
            }
        });
        drop(places);
        failed.into_inner().map_or_else(|| progress(self.count), Err)
    }

    fn read_one(&self, index: usize, to: &mut [u8]) -> Result<()> {
        let npy = Npy::open((self.open)(index)?.numbered(index))?;
        let found = npy.header();
        let expected = &self.header;
        let differs = |field, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
            let reason = format!("{found:?}, and the first file of the batch has {expected:?}");
            Err(npy.source().place().invalid(None, Fault::new(field, reason)))
        };
        if npy.dtype()? != expected.dtype()? {
            return differs("descr", npy.dtype()?, expected.dtype()?);
        }
        if found.shape() != expected.shape() {
            return differs("shape", &found.shape(), &expected.shape());
        }
        if found.order() == Order::F && !is_plain(found) {
            transposed(&npy, to)
        } else {
            npy.read_into(to)
        }
    }
}

/// Whether the elements lie in C order, too.
fn is_plain(header: &NpyHeader) -> bool {
    header.dtype().is_ok_and(|dtype| header.layout().is_contiguous(dtype.itemsize(), Order::C))
}

/// Reads elements that lie in Fortran's order, and puts them in C order.
#[allow(unsafe_code)]
fn transposed(npy: &Npy<'_>, to: &mut [u8]) -> Result<()> {
    let header = npy.header();
    let bytes = to.len() as u64;
    let mut read = system::room_for("a file in Fortran's order", bytes)?;
    read.resize(to.len(), 0);
    npy.read_into(&mut read)?;
    let itemsize = header.dtype()?.itemsize();
    let layout = Layout::contiguous(header.shape(), itemsize, Order::C)?;
    let from = Strided { start: read.as_mut_ptr(), layout: header.layout() };
    // SAFETY: both layouts have the header's shape and are contiguous, and both memories have the
    // size of its elements: `read` was made as large as `to`, which is one of the batch's items.
    unsafe { copy_elements(Strided { start: to.as_mut_ptr(), layout: &layout }, from, itemsize) };
    Ok(())
}
