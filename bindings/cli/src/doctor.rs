//! `shmarray doctor`: checks this machine's settings for shared memory.
//!
//! `read` reads the facts; each check is a pure function from facts to a [`Finding`]. The command
//! neither attaches nor creates anything, because the first attach of a process sweeps, and would
//! give back the memory that is to be reported.

#[cfg(target_os = "linux")]
mod finding;
#[cfg(target_os = "linux")]
mod directory;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod leftovers;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod logout;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod read;
#[cfg(target_os = "linux")]
mod report;

use std::io::Write;

use anyhow::Result;

#[cfg(not(target_os = "linux"))]
pub(crate) fn print(_json: bool, _out: &mut dyn Write) -> Result<u8> {
    anyhow::bail!(
        "doctor only knows Linux so far; on this system there is nothing that it can check"
    )
}

#[cfg(target_os = "linux")]
pub(crate) fn print(json: bool, out: &mut dyn Write) -> Result<u8> {
    let facts = read::facts(&read::System::this())?;
    let findings = examine(&facts);
    if json {
        writeln!(out, "{}", report::json(&findings)?)?
    } else {
        write!(out, "{}", report::text(&findings))?
    }
    out.flush()?;
    Ok(u8::from(report::has_problem(&findings)))
}

/// Returns the directory of segments and the room in it.
#[cfg(target_os = "linux")]
pub(crate) fn room() -> (std::path::PathBuf, directory::Room) {
    let directory = read::directory(&read::System::this());
    (directory.path, directory.room)
}

/// Returns the findings of all checks, the most general first.
#[cfg(target_os = "linux")]
fn examine(facts: &read::Readings) -> Vec<finding::Finding> {
    let read::Readings {
        directory,
        container,
        memory,
        huge,
        logout,
        limits,
        release,
        parts,
        entries,
        registry,
    } = facts;
    let mut findings = vec![kernel::release(release), directory::location(directory)];
    if directory.is_usable() {
        findings.extend([
            directory::file_system(directory),
            directory::trial(directory),
            directory::size(directory, *container),
            memory::limit(memory, directory, *container),
            memory::huge_pages(huge, directory, *container),
            memory::reserved_pages(huge, directory),
            logout::remove_ipc(logout),
        ]);
    }
    findings.extend(limits::all(limits));
    if directory.is_usable() {
        findings.push(leftovers::segments(parts));
        findings.extend(leftovers::files(entries));
        findings.push(leftovers::registry(registry.as_ref()));
    }
    findings
}
