//! Elements of any strides in memory: one side of a copy.

use crate::value::shape::Layout;

/// Elements of any strides: the address of offset 0, and the layout of the elements from there.
#[derive(Clone, Copy)]
pub(crate) struct Strided<'a> {
    pub(crate) start: *mut u8,
    pub(crate) layout: &'a Layout,
}

impl Strided<'_> {
    /// Returns the address of the element whose indices are all zero.
    pub(crate) fn first(self) -> *mut u8 {
        self.start.wrapping_add(self.layout.offset as usize)
    }
}
