//! Arrays in files that other programs read.

pub mod npy;
