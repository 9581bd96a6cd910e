//! What only `Numo::Parallel` uses: private methods of the module `Shmarray`.

use magnus::{Error, RModule, Ruby};

mod contained;
#[cfg(target_os = "linux")]
mod job_counter;
#[cfg(target_os = "linux")]
mod system;

/// Defines the methods.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    system::define(shmarray)?;
    #[cfg(target_os = "linux")]
    job_counter::define(ruby, shmarray)?;
    contained::define(shmarray)
}
