//! Loads, stores and copies of memory that others may write meanwhile.
//!
//! Threads and processes write to an array whenever they like, and nothing orders them. So that
//! this is defined in Rust too, each byte here is loaded or stored by a relaxed atomic access of
//! its own, as by C++'s `atomic_load_per_byte_memcpy` (P1478): every byte that is read was
//! written by some store, and the bytes of one element may come from different stores.
//!
//! Larger atomic accesses would not do. Elements may lie at any byte, views of one memory may have
//! items of different sizes, and atomic accesses of different sizes to the same bytes are a data
//! race (`std::sync::atomic`, "Memory model for atomic accesses").
//!
//! * `instructions`: an instruction that loads eight bytes loads each of them atomically. The
//!   compiler has no type for such an access, so the instruction is assembly, and a copy is the C
//!   library's `memcpy` by an address that the compiler cannot see through.
//! * `bytes`: one byte after the other, for Miri, which knows no assembly, and for processors that
//!   `instructions` has no rows for.

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod bytes;
#[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
mod instructions;

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(crate) use bytes::{copy, load, store};
#[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use instructions::{copy, load, store};

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    fn loads_and_stores<const BYTES: usize>() {
        let source: Vec<u8> = (0..40).collect();
        for offset in 0..8 {
            let mut target = [0xAA; 40];
            // SAFETY: the source has 40 bytes, more than the offset and the largest item.
            let loaded = unsafe { load::<BYTES>(source[offset..].as_ptr()) };
            assert_eq!(loaded[..], source[offset..offset + BYTES]);
            // SAFETY: the target has 40 bytes, more than the offset and the largest item.
            unsafe { store(target[offset..].as_mut_ptr(), loaded) };
            assert_eq!(target[offset..offset + BYTES], source[offset..offset + BYTES]);
            assert!(target[..offset].iter().chain(&target[offset + BYTES..]).all(|&b| b == 0xAA));
        }
    }

    #[test]
    fn items_of_every_size_are_loaded_and_stored_at_any_byte() {
        loads_and_stores::<1>();
        loads_and_stores::<2>();
        loads_and_stores::<4>();
        loads_and_stores::<8>();
        loads_and_stores::<16>();
    }

    #[test]
    fn a_copy_takes_all_bytes_and_no_other() {
        let source: Vec<u8> = (0..200).collect();
        for count in [0, 1, 7, 64, 199] {
            let mut target = [0xAA; 200];
            // SAFETY: both have 200 bytes, at least as many as are copied.
            unsafe { copy(target.as_mut_ptr(), source.as_ptr(), count) };
            assert_eq!(target[..count], source[..count]);
            assert!(target[count..].iter().all(|&byte| byte == 0xAA), "{count}");
        }
    }
}
