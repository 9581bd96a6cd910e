//! The cache of mappings that no array of this process uses: mappings of slabs, in which other
//! processes may send more arrays.
//!
//! A cached mapping is no lease. Its segment may end, and the memory go, at any time; an attach
//! through it takes an entry and looks at the state, as through a new mapping. A cached mapping
//! keeps the kernel's lock on the file, so a slab that is LOCK_ONLY is not cached. It pins address
//! space and nothing else, because the process that ends a slab releases its pages first.
//!
//! Address space is limited, too (`ulimit -v`). So the mappings of each kind have a bound in number
//! and in bytes, the least recently used go first, and those of slabs that have ended go when they
//! are seen: when a slab's last array is dropped, when an attach is refused, after a sweep, and
//! whenever the cached bytes have doubled since the last look.
//!
//! A private mapping has one user at a time. If it copies on write, or a fork has frozen it, the
//! pages that its user wrote are dropped before the next one gets it, so that it shows the shared
//! memory again.

use std::sync::Arc;

use super::mapped::Mapped;
use crate::system::{self, Access};
use crate::value::name::SegmentId;

/// The most mappings of each kind: a message with a hundred arrays needs as many, with a hundred to
/// spare.
const MOST: usize = 256;

/// From so many bytes on, slabs that have ended are looked for. Each look loads a word of each
/// slab.
const LEAST_LOOKED_AT_BYTES: u64 = 16 << 20;

/// The cached mappings of one kind, the most recently used last.
#[derive(Default)]
struct Kind {
    mappings: Vec<Arc<Mapped>>,
    bytes: u64,
    /// The bytes that were left after the last look for slabs that have ended.
    left_bytes: u64,
}

/// The cached mappings.
#[derive(Default)]
pub(super) struct Cache {
    shared: Kind,
    private: Kind,
}

/// Mappings that were taken out, to be dropped when nothing is locked.
pub(super) type Evicted = Vec<Arc<Mapped>>;

impl Kind {
    /// Adds a mapping. Returns those that have no room any more, or have ended.
    fn add(&mut self, mapped: Arc<Mapped>) -> Evicted {
        self.bytes += mapped.header.segment_bytes();
        self.mappings.push(mapped);
        let mut evicted = if self.bytes >= LEAST_LOOKED_AT_BYTES + 2 * self.left_bytes {
            let ended = self.take_all(|one| one.leases().is_dead());
            self.left_bytes = self.bytes;
            ended
        } else {
            Vec::new()
        };
        let most_bytes = if self.bytes > LEAST_LOOKED_AT_BYTES {
            system::most_cached_bytes()
        } else {
            LEAST_LOOKED_AT_BYTES
        };
        while self.mappings.len() > MOST || self.bytes > most_bytes {
            evicted.push(self.take(0));
        }
        evicted
    }

    fn take(&mut self, at: usize) -> Arc<Mapped> {
        let mapped = self.mappings.remove(at);
        self.bytes -= mapped.header.segment_bytes();
        mapped
    }

    fn position(&self, is_it: impl Fn(&Arc<Mapped>) -> bool) -> Option<usize> {
        self.mappings.iter().rposition(is_it)
    }

    fn take_all(&mut self, is_evicted: impl Fn(&Mapped) -> bool) -> Evicted {
        let evicted: Evicted = self.mappings.extract_if(.., |one| is_evicted(one)).collect();
        self.bytes -= evicted.iter().map(|one| one.header.segment_bytes()).sum::<u64>();
        evicted
    }
}

impl Cache {
    /// Adds a new mapping. Returns those that it evicts.
    pub(super) fn insert(&mut self, mapped: &Arc<Mapped>) -> Evicted {
        self.shared.add(Arc::clone(mapped))
    }

    pub(super) fn use_again(&mut self, mapped: &Arc<Mapped>) {
        if let Some(at) = self.shared.position(|one| Arc::ptr_eq(one, mapped)) {
            self.shared.mappings[at..].rotate_left(1);
        }
    }

    /// Adds a private mapping whose use has ended. Returns those that it evicts.
    pub(super) fn insert_private(&mut self, mapped: Arc<Mapped>) -> Evicted {
        self.private.add(mapped)
    }

    pub(super) fn take_private(&mut self, id: &SegmentId, access: Access) -> Option<Arc<Mapped>> {
        let at =
            self.private.position(|one| one.header.id == *id && one.private_access() == access)?;
        Some(self.private.take(at))
    }

    /// Removes the mappings that `is_evicted` chooses. Returns them.
    pub(super) fn evict(&mut self, is_evicted: impl Fn(&Mapped) -> bool) -> [Evicted; 2] {
        [&mut self.shared, &mut self.private].map(|kind| kind.take_all(&is_evicted))
    }

    /// Removes all mappings. Allocates nothing.
    pub(super) fn empty(&mut self) -> Self {
        std::mem::take(self)
    }
}
