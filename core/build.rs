//! Names for the backends of `src/system`, one of which each build has.

use cfg_aliases::cfg_aliases;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    cfg_aliases! {
        linux_backend: { all(target_os = "linux", not(shmarray_portable), not(miri)) },
        portable_backend: {
            all(not(miri), any(shmarray_portable, target_os = "macos", target_os = "windows"))
        },
        // It stands in under Miri, and on systems that the crate refuses.
        memory_backend: { not(any(linux_backend, portable_backend)) },
        inflates_whole: {
            all(feature = "libdeflate", target_os = "linux", target_env = "gnu", not(miri))
        },
    }
}
