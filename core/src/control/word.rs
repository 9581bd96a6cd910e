//! A control word, the entry of a lease table, and stores that announce themselves.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use super::loom_atomics::{AtomicU64, Ordering};

/// A word in shared memory. It has the operations that the protocol needs, and no others; each
/// that stores is announced.
#[repr(transparent)]
pub(crate) struct ControlWord(AtomicU64);

impl ControlWord {
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        self.0.load(order)
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn store(&self, value: u64, order: Ordering) {
        let _around = self.announced();
        self.0.store(value, order);
    }

    /// Whether it was `from` and is now `to`.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn replace(&self, from: u64, to: u64) -> bool {
        let _around = self.announced();
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn set(&self, bits: u64) {
        let _around = self.announced();
        self.0.fetch_or(bits, Ordering::AcqRel);
    }

    #[cfg_attr(loom, track_caller)]
    pub(crate) fn clear(&self, bits: u64) {
        let _around = self.announced();
        self.0.fetch_and(!bits, Ordering::AcqRel);
    }

    /// A count that is a hint. Who brings it to zero looks, and sees what the others did before
    /// they counted: each is the next one's partner.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn add(&self, more: u64) -> u64 {
        let _around = self.announced();
        self.0.fetch_add(more, Ordering::AcqRel).wrapping_add(more)
    }

    #[cfg(all(not(miri), any(feature = "portable", not(target_os = "linux"))))]
    pub(crate) fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// A word for loom, which is in no memory.
    #[cfg(loom)]
    pub(super) fn zero() -> Self {
        Self(AtomicU64::zero())
    }

    fn announced(&self) -> Announced {
        Announced::around(std::ptr::from_ref(self).cast(), size_of::<Self>())
    }
}

/// A store to shared memory is made while one of these lives. With the feature `steps` it is
/// announced before and after, which is how `tests/crashes` kills a process there; a store that is
/// not announced fails it.
#[must_use]
pub(crate) struct Announced {
    place: *const u8,
    bytes: usize,
}

impl Announced {
    pub(crate) fn around(place: *const u8, bytes: usize) -> Self {
        const BEFORE: u64 = 1;
        announce(BEFORE, place, bytes);
        Self { place, bytes }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        const AFTER: u64 = 2;
        announce(AFTER, self.place, self.bytes);
    }
}

/// A system call that does nothing, but at which whoever traces this process can stop it.
#[cfg(all(feature = "steps", target_os = "linux"))]
#[allow(unsafe_code)]
fn announce(when: u64, place: *const u8, bytes: usize) {
    const MARK: u64 = u64::from_le_bytes(*b"shmarray");
    // SAFETY: `getppid` takes no arguments; the kernel ignores what else is in the registers.
    unsafe { libc::syscall(libc::SYS_getppid, MARK, when, place, bytes) };
}

#[cfg(not(all(feature = "steps", target_os = "linux")))]
fn announce(_: u64, _: *const u8, _: usize) {}

/// One holder, in shared memory.
#[repr(C)]
pub(crate) struct Entry {
    /// `owner << 1 | held`; 0 is free.
    pub(crate) owner: ControlWord,
    /// Who that is, for people and for the check of its life; written before it is first held.
    pub(crate) owner_info: ControlWord,
}
