//! The command line of shmarray.
fn main() {}
