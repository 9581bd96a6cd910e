//! Loading one NPY file.

use super::fault::Fault;
use super::header::{NpyHeader, PREFIX_BYTES};
use super::source::Source;
use crate::array::{Array, Options};
use crate::memory::mapping::FillFn;
use crate::value::dtype::DType;
use crate::value::error::{Error, Result};

/// An NPY file, of which the header was read and validated.
///
/// ```
/// use shmarray::{Options, npy::{Npy, Source}};
/// # let file = b"\x93NUMPY\x01\x00\x3d\x00\
/// #     {'descr': '<i4', 'fortran_order': False, 'shape': (2,), }   \n\
/// #     \x05\0\0\0\x07\0\0\0";
/// let npy = Npy::open(Source::bytes(file))?;
/// assert_eq!((npy.header().dtype()?.text(), npy.header().shape()), ("<i4", &[2][..]));
/// let array = npy.load(&Options::new())?; // in shared memory
/// assert_eq!(array.get::<i32>(&[1])?, 7);
/// # Ok::<(), shmarray::Error>(())
/// ```
pub struct Npy<'a> {
    source: Source<'a>,
    header: NpyHeader,
}

impl<'a> Npy<'a> {
    /// Reads the header, and checks that the file has all elements. What follows them is ignored.
    ///
    /// # Errors
    /// [`Error::InvalidFile`], [`Error::Os`].
    pub fn open(source: Source<'a>) -> Result<Self> {
        let header = read_header(&source)?;
        let offset = header.data_offset();
        let needed = header.data_bytes();
        let found = source.size_bytes().saturating_sub(offset);
        if needed > found {
            let reason = format!("the elements take {needed} bytes, and the file has {found}");
            return Err(source.place().invalid(None, Fault::new("data", reason)));
        }
        Ok(Self { source, header })
    }

    /// Returns the header.
    #[must_use]
    pub fn header(&self) -> &NpyHeader {
        &self.header
    }

    /// Returns the dtype.
    ///
    /// # Errors
    /// [`Error::InvalidDType`] for items with Python objects, which only Python can read.
    pub fn dtype(&self) -> Result<&DType> {
        self.header.dtype().map_err(|error| self.source.place().of_dtype(None, error))
    }

    /// Returns the source.
    #[must_use]
    pub fn source(&self) -> &Source<'a> {
        &self.source
    }

    /// Returns the array in shared memory. Its order is the file's, not that of the options.
    ///
    /// # Errors
    /// As for [`Array::create`]; [`Error::InvalidFile`] when the file became shorter, and
    /// [`Error::InvalidDType`] when it has Python objects. No array is left then.
    pub fn load(&self, options: &Options) -> Result<Array> {
        create(self.dtype()?, &self.header, options, &|to| self.read_into(to))
    }

    /// Reads all elements, as they lie in the file, into memory that has just their size.
    ///
    /// # Errors
    /// As for [`Npy::load`]; [`Error::InvalidArgument`] for memory of another size.
    pub fn read_into(&self, to: &mut [u8]) -> Result<()> {
        check_room(to, self.header.data_bytes())?;
        self.source.read_in_parts(to, self.header.data_offset())
    }
}

/// Checks that memory has just the size of what is read into it.
pub(super) fn check_room(to: &[u8], needed: u64) -> Result<()> {
    if to.len() as u64 == needed {
        Ok(())
    } else {
        let reason = format!("it has {} bytes, and the elements take {needed}", to.len());
        Err(Error::argument("to", reason))
    }
}

/// Creates an array as a header describes it, which has this dtype.
pub(super) fn create(
    dtype: &DType,
    header: &NpyHeader,
    options: &Options,
    fill: &FillFn<'_>,
) -> Result<Array> {
    let options = options.clone().order(header.order());
    Array::create_by(dtype.clone(), header.shape(), &options, fill)
}

/// Reads as much of a file as its header says that it has.
fn read_header(source: &Source<'_>) -> Result<NpyHeader> {
    let invalid = |fault| source.place().invalid(None, fault);
    let mut bytes = vec![0; source.size_bytes().min(USUAL_BYTES) as usize];
    source.read(&mut bytes, 0)?;
    let size = NpyHeader::size(&bytes[..bytes.len().min(PREFIX_BYTES)]).map_err(invalid)?;
    let total = size.total.min(source.size_bytes());
    if total > bytes.len() as u64 {
        bytes.resize(total as usize, 0);
        source.read(&mut bytes, 0)?;
    }
    NpyHeader::read(&bytes).map_err(invalid)
}

/// The size of most headers.
const USUAL_BYTES: u64 = 128;
