//! A fault in a file, and the file and the member that have it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::value::error::Error;

/// What is wrong with a file, without the file. It becomes an [`Error`] with its [`Place`].
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) field: &'static str,
    pub(super) reason: String,
}

impl Fault {
    pub(super) fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

/// Returns the beginning of a text of the file, for an error.
pub(super) fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

/// The file that an error is about.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Memory that holds a file.
    Memory,
    /// Memory that holds one of the files of a batch.
    Item(usize),
    Path(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("in memory"),
            Self::Item(index) => write!(f, "{index} of the batch, in memory"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl Place {
    /// Returns the error for a fault of this file, or of a member of it.
    pub(super) fn invalid(&self, member: Option<&str>, fault: Fault) -> Error {
        let Fault { field, reason } = fault;
        Error::InvalidFile {
            file: self.to_string(),
            member: member.map(str::to_owned),
            field,
            reason,
        }
    }

    /// Returns an error about a dtype with the file, or the member of it, that has the dtype.
    pub(super) fn of_dtype(&self, member: Option<&str>, error: Error) -> Error {
        let Error::InvalidDType { dtype, reason } = error else { return error };
        let member = member.map_or_else(String::new, |member| format!(": member {member:?}"));
        Error::InvalidDType { dtype, reason: format!("{self}{member}: {reason}") }
    }

    pub(super) fn os(&self, call: &'static str, source: io::Error) -> Error {
        match self {
            Self::Path(path) if source.kind() == io::ErrorKind::NotFound => {
                Error::FileNotFound { path: path.clone() }
            }
            Self::Path(path) => Error::os(call, path, source),
            Self::Memory | Self::Item(_) => Error::os(call, "", source),
        }
    }
}
