//! Plain values: errors, dtypes, shapes, names, numbers, descriptors.

pub(crate) mod error;
pub(crate) mod json;
pub mod small;
pub(crate) mod dtype;
pub(crate) mod shape;
pub(crate) mod name;
pub(crate) mod number;
pub(crate) mod descriptor;
