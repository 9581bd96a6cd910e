//! Loads and stores as instructions, and copies as the C library's `memcpy`.
#![allow(unsafe_code)] // assembly

use std::arch::asm;
use std::mem::transmute_copy;

#[cfg(target_arch = "aarch64")]
type Word16 = std::arch::aarch64::uint8x16_t;
#[cfg(target_arch = "x86_64")]
type Word16 = std::arch::x86_64::__m128i;

/// Defines `load` and `store` from the instructions of each size.
macro_rules! instructions {
    ($($size:literal: $type:ty, $register:ident, $load:literal, $store:literal;)*) => {
        /// Returns `BYTES` bytes, each loaded atomically.
        ///
        /// # Safety
        /// `BYTES` bytes can be read at `from`.
        #[inline(always)]
        pub(crate) unsafe fn load<const BYTES: usize>(from: *const u8) -> [u8; BYTES] {
            match BYTES {
                $($size => {
                    let word: $type;
                    // SAFETY: the instruction reads so many bytes at any address, which the caller
                    // promises can be read, and changes nothing but its register.
                    unsafe {
                        asm!(
                            $load,
                            from = in(reg) from,
                            word = out($register) word,
                            options(nostack, preserves_flags, readonly)
                        )
                    };
                    // SAFETY: the word has as many bytes as the array, and all bytes are valid.
                    unsafe { transmute_copy(&word) }
                })*
                _ => unreachable!("no instruction has this size"),
            }
        }

        /// Stores `BYTES` bytes, each atomically.
        ///
        /// # Safety
        /// `BYTES` bytes can be written at `to`.
        #[inline(always)]
        pub(crate) unsafe fn store<const BYTES: usize>(to: *mut u8, bytes: [u8; BYTES]) {
            match BYTES {
                $($size => {
                    // SAFETY: the array has as many bytes as the word, and all bytes are valid.
                    let word: $type = unsafe { transmute_copy(&bytes) };
                    // SAFETY: the instruction writes so many bytes at any address, which the caller
                    // promises can be written.
                    unsafe {
                        asm!(
                            $store,
                            to = in(reg) to,
                            word = in($register) word,
                            options(nostack, preserves_flags)
                        )
                    };
                })*
                _ => unreachable!("no instruction has this size"),
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
instructions! {
    1: u8, reg_byte, "mov {word}, byte ptr [{from}]", "mov byte ptr [{to}], {word}";
    2: u16, reg, "movzx {word:e}, word ptr [{from}]", "mov word ptr [{to}], {word:x}";
    4: u32, reg, "mov {word:e}, dword ptr [{from}]", "mov dword ptr [{to}], {word:e}";
    8: u64, reg, "mov {word}, qword ptr [{from}]", "mov qword ptr [{to}], {word}";
    16: Word16, xmm_reg, "movdqu {word}, xmmword ptr [{from}]", "movdqu xmmword ptr [{to}], {word}";
}

#[cfg(target_arch = "aarch64")]
instructions! {
    1: u8, reg, "ldrb {word:w}, [{from}]", "strb {word:w}, [{to}]";
    2: u16, reg, "ldrh {word:w}, [{from}]", "strh {word:w}, [{to}]";
    4: u32, reg, "ldr {word:w}, [{from}]", "str {word:w}, [{to}]";
    8: u64, reg, "ldr {word}, [{from}]", "str {word}, [{to}]";
    16: Word16, vreg, "ldr {word:q}, [{from}]", "str {word:q}, [{to}]";
}

unsafe extern "C" {
    fn memcpy(to: *mut u8, from: *const u8, count: usize) -> *mut u8;
}

/// Copies `count` bytes, each loaded and stored atomically.
///
/// # Safety
/// `count` bytes can be read at `from` and written at `to`, and do not overlap.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, count: usize) {
    let mut unseen: unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8 = memcpy;
    // SAFETY: there is no instruction. The compiler must assume that the address was changed, so it
    // cannot take the call for a copy of its own, which must not race.
    unsafe { asm!("/* {0} */", inout(reg) unseen, options(nostack, preserves_flags)) };
    // SAFETY: `memcpy` needs bytes that can be read and written and do not overlap, as the caller
    // promises. Each instruction of it accesses each of its bytes atomically.
    unsafe { unseen(to, from, count) };
}
