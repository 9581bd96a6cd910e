//! A deflated member that is inflated at once, by libdeflate: some 1.2 to 6 times as fast as in
//! pieces, by [`Stream`](super::stream::Stream).
//!
//! It takes private memory for the deflated member and for the inflated one, so it is for members
//! of usual samples. All others come in pieces, and so does one of which anything is wrong: the
//! stream says what.
#![allow(unsafe_code)] // libdeflate is written in C

use std::ptr::NonNull;

use libdeflate_sys::{
    libdeflate_alloc_decompressor, libdeflate_decompressor, libdeflate_deflate_decompress_ex,
    libdeflate_free_decompressor, libdeflate_result_LIBDEFLATE_SUCCESS,
};

use super::methods::Method;
use super::source::Source;
use super::stream::Extent;
use super::threads::give_way;
use crate::system;

/// The most bytes of a member. Larger ones leave the cache on their way through private memory: one
/// of 6 MB took 25 ms, and 21 in pieces. A thread gives way before and after.
const MOST_BYTES: u64 = 4 << 20;

/// What private memory is for.
const ROOM: &str = "a member of an archive";

/// Returns a whole member, if it is deflated, not too large, and has the size and the CRC that the
/// directory says.
pub(super) fn inflate(source: &Source<'_>, extent: Extent) -> Option<Vec<u8>> {
    let deflated_bytes = extent.end - extent.start;
    if extent.method != Method::Deflated || extent.size.max(deflated_bytes) > MOST_BYTES {
        return None;
    }
    give_way();
    let mut deflated = system::room_for(ROOM, deflated_bytes).ok()?;
    deflated.resize(deflated_bytes as usize, 0);
    source.read(&mut deflated, extent.start).ok()?;
    let member = Decompressor::new()?.inflate(&deflated, extent.size as usize)?;
    give_way();
    (crc32fast::hash(&member) == extent.crc).then_some(member)
}

/// libdeflate's state, which holds nothing from one call to the next.
struct Decompressor(NonNull<libdeflate_decompressor>);

impl Decompressor {
    /// `None` without memory for it.
    fn new() -> Option<Self> {
        // SAFETY: the function has no conditions; it allocates, and returns null if it cannot.
        NonNull::new(unsafe { libdeflate_alloc_decompressor() }).map(Self)
    }

    /// Inflates all of `deflated` to exactly so many bytes. `None` if it is anything else, or
    /// without memory for them.
    fn inflate(&mut self, deflated: &[u8], bytes: usize) -> Option<Vec<u8>> {
        let mut member = system::room_for(ROOM, bytes as u64).ok()?;
        let mut used = 0;
        let mut written = 0;
        // SAFETY: the state is from `libdeflate_alloc_decompressor` and borrowed exclusively; the
        // input is a slice; the output has room for `bytes`, which `room_for` reserved and nobody
        // else knows, and is written only; both counts are variables of this function.
        let result = unsafe {
            libdeflate_deflate_decompress_ex(
                self.0.as_ptr(),
                deflated.as_ptr().cast(),
                deflated.len(),
                member.as_mut_ptr().cast(),
                bytes,
                &raw mut used,
                &raw mut written,
            )
        };
        let is_whole = result == libdeflate_result_LIBDEFLATE_SUCCESS;
        if !is_whole || (used, written) != (deflated.len(), bytes) {
            return None;
        }
        // SAFETY: the room is for `bytes`, and libdeflate has just written as many.
        unsafe { member.set_len(bytes) };
        Some(member)
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: the state is from `libdeflate_alloc_decompressor`, and only this value has it.
        unsafe { libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::DeflateEncoder};

    use super::*;

    #[test]
    fn a_member_comes_whole_or_not_at_all() {
        let contents: Vec<u8> = (0..100_000u32).map(|number| (number / 7) as u8).collect();
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::new(6));
        deflated.write_all(&contents).unwrap();
        let mut file = deflated.finish().unwrap();
        let end = file.len() as u64;
        let crc = crc32fast::hash(&contents);
        file.extend(b"what follows");
        let source = Source::bytes(&file);
        let right =
            Extent { start: 0, end, method: Method::Deflated, size: contents.len() as u64, crc };
        assert_eq!(inflate(&source, right), Some(contents));
        for wrong in [
            Extent { method: Method::Stored, ..right },
            Extent { crc: crc ^ 1, ..right },
            Extent { size: right.size - 1, ..right },
            Extent { size: right.size + 1, ..right },
            Extent { size: MOST_BYTES + 1, ..right },
            Extent { end: end + 1, ..right },
            Extent { end: end - 1, ..right },
            Extent { end: end + 100, ..right },
            Extent { start: 1, ..right },
        ] {
            assert_eq!(inflate(&source, wrong), None, "{wrong:?}");
        }
    }
}
