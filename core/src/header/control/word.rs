//! A control word, the entry of a lease table, and the announcement of stores.

#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(loom)]
use super::loom_atomics::{AtomicU64, Ordering};

/// A word in shared memory, with the operations that the protocol needs and no others. Each
/// operation that stores is announced.
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

    /// Replaces `from` by `to`. Returns whether the word was `from`.
    #[must_use]
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

    /// Adds to a count, and returns it. A count is a hint and may be below zero for a moment.
    ///
    /// AcqRel: the process that brings it to zero scans the entries, and sees what the others did
    /// before they counted. Each addition is the partner of the next one.
    #[cfg_attr(loom, track_caller)]
    pub(crate) fn add(&self, more: i64) -> i64 {
        let _around = self.announced();
        self.0.fetch_add(more as u64, Ordering::AcqRel).wrapping_add(more as u64) as i64
    }

    #[cfg(not(any(linux_backend, miri)))]
    pub(crate) fn update(&self, change: impl FnMut(u64) -> Option<u64>) -> Result<u64, u64> {
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// A word for loom, which lies in no mapped memory.
    #[cfg(loom)]
    pub(super) fn zero() -> Self {
        Self::of(0)
    }

    /// A word for loom with a first value.
    #[cfg(loom)]
    pub(super) fn of(value: u64) -> Self {
        Self(AtomicU64::of(value))
    }

    fn announced(&self) -> Announced {
        Announced::around(std::ptr::from_ref(self).cast(), size_of::<Self>())
    }
}

/// The fence between `replace`, `set`, `clear` or `add` and a load that follows. On x86-64 their
/// instructions are such fences, and the compiler moves no load before them, because they acquire.
/// A fence of its own would take as long as three of them.
#[cfg_attr(loom, track_caller)]
pub(crate) fn fence_after_rmw() {
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    super::fence(Ordering::SeqCst);
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The fence between two loads. On x86-64 a processor makes its loads in their order, and all see
/// the stores of others in one order.
#[cfg_attr(loom, track_caller)]
pub(crate) fn fence_between_loads() {
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    super::fence(Ordering::SeqCst);
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// A guard around a store to shared memory. With the cfg `shmarray_steps` the guard announces the
/// store before and after it, so that `tests/crashes` can kill a process there; a store
/// without an announcement fails that test.
#[must_use]
pub(crate) struct Announced {
    address: *const u8,
    bytes: usize,
}

impl Announced {
    pub(crate) fn around(address: *const u8, bytes: usize) -> Self {
        const BEFORE: u64 = 1;
        announce(BEFORE, address, bytes);
        Self { address, bytes }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        const AFTER: u64 = 2;
        announce(AFTER, self.address, self.bytes);
    }
}

/// Makes a system call without effect, at which a tracer can stop this process.
#[cfg(all(shmarray_steps, target_os = "linux"))]
#[allow(unsafe_code)]
fn announce(when: u64, address: *const u8, bytes: usize) {
    const MARK: u64 = u64::from_le_bytes(*b"shmarray");
    // SAFETY: the call cannot touch memory, because `getppid` takes no arguments and the kernel
    // ignores what is in the other registers.
    unsafe { libc::syscall(libc::SYS_getppid, MARK, when, address, bytes) };
}

#[cfg(not(all(shmarray_steps, target_os = "linux")))]
fn announce(_: u64, _: *const u8, _: usize) {}

/// One entry of a lease table, in shared memory.
#[repr(C)]
pub(crate) struct Entry {
    /// `owner << 1 | held`; 0 is free.
    pub(crate) owner: ControlWord,
    /// The owner info, for people and for the liveness check. It is stored before the entry is
    /// first held.
    pub(crate) owner_info: ControlWord,
}
