//! What only `Numo::Parallel` uses: private methods of the module `Shmarray`.

use magnus::{Error, RModule, Ruby};

mod contained;
mod job_counter;
#[cfg(target_os = "linux")]
mod system;

/// Defines the methods.
pub(crate) fn define(ruby: &Ruby, shmarray: RModule) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    system::define(shmarray)?;
    job_counter::define(ruby, shmarray)?;
    contained::define(shmarray)
}
