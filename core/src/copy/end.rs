//! One side of a copy.

use crate::shape::Layout;

/// Where a copy reads or writes: an address of offset 0, and where the elements are from there.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) start: *mut u8,
    pub(crate) layout: &'a Layout,
}

impl End<'_> {
    /// The element whose indices are all zero.
    pub(crate) fn first(self) -> *mut u8 {
        self.start.wrapping_add(self.layout.offset as usize)
    }
}
