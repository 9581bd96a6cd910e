//! Where the facts are read from: the files of this machine, or of a test's.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of a system: this machine's, or those under another root in a test.
pub(crate) struct System {
    pub(super) root: PathBuf,
}

impl System {
    pub(crate) fn this() -> Self {
        Self { root: "/".into() }
    }

    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Returns the text of a file, or `None` if it does not exist or may not be read.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim_end().to_owned())
    }

    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }
}
