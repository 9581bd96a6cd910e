//! Reading the facts: from /proc, /sys, /etc, the kernel and the directory of segments.

mod system;
mod entries;
mod machine;
mod mounts;

pub(crate) use mounts::directory;
pub(crate) use system::System;

use anyhow::Result;

use super::directory::{Container, Directory};
use super::leftovers::{FoundFile, Part, Registry};
use super::limits::Limits;
use super::logout::Logout;
use super::memory::{Huge, Memory};

/// The input of the checks.
pub(crate) struct Readings {
    pub(crate) directory: Directory,
    pub(crate) container: Container,
    pub(crate) memory: Memory,
    pub(crate) huge: Huge,
    pub(crate) logout: Logout,
    pub(crate) limits: Limits,
    pub(crate) release: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) entries: Vec<FoundFile>,
    pub(crate) registry: Option<Registry>,
}

/// Reads the facts.
///
/// # Errors
/// If something exists but cannot be read.
pub(crate) fn facts(system: &System) -> Result<Readings> {
    let user = nix::unistd::geteuid().as_raw();
    let directory = mounts::directory(system);
    // Before `segments`, by which this process uses the registry itself.
    let registry = entries::registry(&directory.path, user);
    let segments = if directory.is_usable() { shmarray::segments()? } else { Vec::new() };
    Ok(Readings {
        container: machine::container(
            system,
            std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        ),
        memory: machine::memory(system),
        huge: machine::huge(system),
        logout: machine::logout(system, user, &directory.path),
        limits: machine::limits(system, user, &directory.path)?,
        release: system.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        // A sweep leaves what is another user's.
        parts: segments
            .iter()
            .filter(|segment| segment.other_user.is_none())
            .map(entries::part)
            .collect(),
        entries: if directory.is_usable() {
            entries::entries(&directory.path, user, &segments)?
        } else {
            Vec::new()
        },
        registry,
        directory,
    })
}

/// Returns a system that has only these files, for tests.
#[cfg(test)]
fn made_up(files: &[(&str, &str)]) -> (tempfile::TempDir, System) {
    let root = tempfile::tempdir().unwrap();
    let system = System { root: root.path().to_owned() };
    for (path, text) in files {
        let path = system.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (root, system)
}
