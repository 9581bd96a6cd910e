//! The reductions, and how one ends early.

use std::fmt;

use crate::value::error::Error;

/// A reduction of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their arithmetic mean.
    Mean,
    /// Their minimum.
    Min,
    /// Their maximum.
    Max,
    /// How many of them are 0, 1, 2 …, up to their maximum.
    Bincount {
        /// The least number of counts.
        min_length: u64,
    },
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Min => "min",
            Self::Max => "max",
            Self::Bincount { .. } => "bincount",
        })
    }
}

/// Why a reduction ended early.
#[derive(Debug)]
pub(super) enum Stop {
    Asked,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

pub(super) type Ended<T = ()> = std::result::Result<T, Stop>;

/// The number of results that are passed on at once.
pub(super) const AT_ONCE: usize = 256;
