//! The objects of arrays in files and lists: Numo's, or those of this library.

use std::io;

use magnus::{Error, Ruby, Value};
use shmarray::{Array, DType};

use crate::array::ArrayObject;
use crate::error::type_error;
use crate::numo::{Numo, numo};
use crate::numo_array::{make, no_class};

/// Makes the objects of arrays: Numo's if it has Numo.
#[derive(Clone, Copy)]
pub(crate) struct Maker(Option<&'static Numo>);

impl Maker {
    pub(crate) fn new(ruby: &Ruby, is_numo: bool) -> Result<Self, Error> {
        Ok(Self(if is_numo { Some(numo(ruby)?) } else { None }))
    }

    /// Returns why no array of this dtype can be made. `reader` is the method that can make it.
    pub(super) fn refusal(self, dtype: &DType, reader: &str) -> Option<String> {
        let numo = self.0.filter(|numo| numo.class_for(dtype).is_none());
        numo.map(|_| no_class(dtype, reader))
    }

    /// Raises if no array of this dtype can be made.
    pub(crate) fn check(self, ruby: &Ruby, dtype: &DType, reader: &str) -> Result<(), Error> {
        self.refusal(dtype, reader).map_or(Ok(()), |text| Err(type_error(ruby, text)))
    }

    pub(crate) fn make(self, ruby: &Ruby, array: Array) -> Result<Value, Error> {
        match self.0 {
            Some(numo) => make(ruby, numo, array),
            None => Ok(ArrayObject::holding(ruby, array)),
        }
    }
}

/// Returns an error of core as one about a file: Python objects are in it, so the file is an
/// invalid argument.
pub(super) fn of_file(error: shmarray::Error) -> shmarray::Error {
    match error {
        shmarray::Error::InvalidDType { dtype, reason } => {
            let reason = format!("{dtype}: {reason}");
            shmarray::Error::InvalidArgument { argument: "dtype", reason }
        }
        other => other,
    }
}

/// Returns the error that ends work whose caller has an exception to raise instead.
pub(super) fn stopped() -> shmarray::Error {
    shmarray::Error::Os { call: "read", path: "".into(), source: io::Error::other("stopped") }
}
