//! The loops of a copy, one of each for the sizes that a processor moves at once.
#![allow(unsafe_code)] // they copy between addresses that the plan computed

use std::mem::MaybeUninit;

use super::item::{AnySize, EndWords, Fixed, ItemCopy};
use super::plan::{Dim, Inner, LINE_BYTES, Plan};
use crate::element::per_byte;

impl Plan {
    /// # Safety
    /// All that the plan reads can be read, all that it writes can be written, and the two do not
    /// overlap.
    pub(super) unsafe fn run(mut self) {
        let walk = match self.run_bytes {
            1 => Self::walk::<Fixed<1>>,
            2 => Self::walk::<Fixed<2>>,
            4 => Self::walk::<Fixed<4>>,
            8 => Self::walk::<Fixed<8>>,
            16 => Self::walk::<Fixed<16>>,
            3 => Self::walk::<EndWords<2>>,
            5..8 => Self::walk::<EndWords<4>>,
            9..16 => Self::walk::<EndWords<8>>,
            17..=32 => Self::walk::<EndWords<16>>,
            _ => Self::walk::<AnySize>,
        };
        let inner = self.arrange();
        // SAFETY: the caller promises what the walk needs, and the match above chose the item for
        // runs of this size.
        unsafe { walk(&self, inner) };
    }

    /// # Safety
    /// As for [`Plan::run`], and the item is for runs of this size.
    unsafe fn walk<I: ItemCopy>(&self, inner: Inner) {
        let walk = CopyWalk { item: I::of(self.run_bytes), inner };
        // SAFETY: the caller promises that the elements of all dimensions, from these two addresses
        // on, can be read and written.
        unsafe { walk.dimensions(&self.dims, self.to, self.from) };
    }
}

struct CopyWalk<I> {
    item: I,
    inner: Inner,
}

/// A tile between two ends, which stays in the first-level cache.
#[repr(align(64))]
struct Tile([MaybeUninit<u8>; TILE_BYTES]);

const TILE_BYTES: usize = 16 << 10;
/// The most bytes and elements of a tile along the source, where it is read in rows, and along the
/// end that is written. They are whole cache lines even where a tile does not begin with one, and
/// few pages, each of which the processor has to find. Measured.
const NEAR: Side = Side { bytes: 512, count: 64 };
const FAR: Side = Side { bytes: 256, count: 128 };

struct Side {
    bytes: usize,
    count: usize,
}

impl Side {
    fn of(&self, itemsize: usize) -> usize {
        (self.bytes / itemsize).clamp(1, self.count)
    }
}

/// The number of rows that are written at once: so few that their cache lines stay in the
/// first-level cache until they are full, even where strides of a power of two put all of them into
/// one set. Measured.
const STREAMS: usize = 12;

/// The bytes that a strip spans in the end where it is longest.
const STRIP_BYTES: usize = 16 << 10;
const SHORTEST_STRIP: usize = 64;

// The functions below have the contract of `Plan::run`. An address that they compute is an
// element's, because every index is below its dimension's count.
impl<I: ItemCopy> CopyWalk<I> {
    /// # Safety
    /// As for [`Plan::run`], for the elements in `dims` from these addresses on.
    unsafe fn dimensions(&self, dims: &[Dim], to: *mut u8, from: *const u8) {
        match (dims, self.inner) {
            // SAFETY: without dimensions these are the addresses of one element, which the caller
            // promises can be read and written.
            ([], _) => unsafe { self.item.copy(to, from) },
            // SAFETY: the caller promises that the elements in `dims`, from these addresses on, can
            // be read and written.
            (&[row], _) => unsafe { self.row(row, to, from) },
            // SAFETY: the caller promises that the elements in `dims`, from these addresses on, can
            // be read and written.
            (&[short, long], Inner::Strips) => unsafe { self.strips(short, long, to, from) },
            // SAFETY: the caller promises that the elements in `dims`, from these addresses on, can
            // be read and written.
            (&[near, far], Inner::Tiles) => unsafe { self.tiles(near, far, to, from) },
            // SAFETY: the caller promises that the elements in `dims`, from these addresses on, can
            // be read and written.
            (&[near, far], Inner::Streams) => unsafe { self.streams(near, far, to, from) },
            ([outer, rest @ ..], _) => outer.each(to, from, |to, from| {
                // SAFETY: the caller promises that the elements in `dims` can be read and written,
                // and the index of `outer` is below its count.
                unsafe { self.dimensions(rest, to, from) };
            }),
        }
    }

    /// # Safety
    /// As for [`CopyWalk::dimensions`].
    unsafe fn strips(&self, short: Dim, long: Dim, to: *mut u8, from: *const u8) {
        let step = long.to.unsigned_abs().max(long.from.unsigned_abs());
        long.cut((STRIP_BYTES / step.max(1)).max(SHORTEST_STRIP), to, from, |strip, to, from| {
            short.each(to, from, |to, from| {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; a strip is a part of the long one.
                unsafe { self.row(strip, to, from) };
            });
        });
    }

    /// Reads pieces of rows, and writes each of their items to the end of a row of its own.
    ///
    /// # Safety
    /// As for [`CopyWalk::dimensions`].
    unsafe fn streams(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        near.cut(STREAMS, to, from, |near, to, from| {
            far.each(to, from, |to, from| {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; this piece is a part of `near`.
                unsafe { self.row(near, to, from) };
            });
        });
    }

    /// # Safety
    /// As for [`CopyWalk::dimensions`].
    unsafe fn tiles(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes();
        let mut tile = Tile([MaybeUninit::uninit(); TILE_BYTES]);
        near.cut(NEAR.of(bytes), to, from, |near, to, from| {
            far.cut(FAR.of(bytes), to, from, |far, to, from| {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; these pieces are parts of them, and `NEAR` times `FAR` elements fit the
                // tile.
                unsafe { self.tile(&mut tile, [near, far], to, from) };
            });
        });
    }

    /// Reads along one dimension and writes along the other, through a tile. No cache line of
    /// either end is needed twice, wherever its strides put it in the cache.
    ///
    /// # Safety
    /// As for [`CopyWalk::dimensions`], and the tile has room.
    unsafe fn tile(&self, tile: &mut Tile, [near, far]: [Dim; 2], to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes() as isize;
        let tile = tile.0.as_mut_ptr().cast::<u8>();
        let across = bytes * far.count as isize;
        let along = bytes;
        // SAFETY: the caller promises that the elements of both dimensions can be read, and `touch`
        // only reads.
        unsafe { touch(near, far, from) };
        // SAFETY: the caller promises that the elements of both dimensions can be read and that the
        // tile, which is private, has room for them.
        unsafe { self.turn(Dim { to: across, ..near }, Dim { to: along, ..far }, tile, from) };
        Dim { from: across, ..near }.each(to, tile, |to, tile| {
            // SAFETY: the caller promises that the elements can be written; `turn` has stored all
            // elements of the tile that are read here.
            unsafe { self.row(Dim { from: along, ..far }, to, tile) };
        });
    }

    /// Reads along `near`, four rows at a time, and writes across it.
    ///
    /// # Safety
    /// As for [`CopyWalk::dimensions`], and what `far` writes lies side by side.
    unsafe fn turn(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        let four = Dim { count: far.count / 4, to: 4 * far.to, from: 4 * far.from };
        let is_dense = near.from == self.item.bytes() as isize;
        four.each(to, from, |to, from| {
            let done = if is_dense {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; those of `near` lie side by side.
                unsafe { self.item.words_of_four(near, to, from, far.from) }
            } else {
                0
            };
            near.each_from(done, to, from, |to, from| {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; these four are of successive indices of `far`, which it writes side by
                // side.
                unsafe { self.item.four(to, from, far.from) };
            });
        });
        let rest = Dim { count: far.count % 4, ..far };
        let four = four.count as isize * 4;
        rest.each(
            to.wrapping_offset(four * far.to),
            from.wrapping_offset(four * far.from),
            |to, from| {
                // SAFETY: the caller promises that the elements of both dimensions can be read and
                // written; these indices of `far` are the last ones.
                unsafe { self.row(near, to, from) };
            },
        );
    }

    /// # Safety
    /// As for [`CopyWalk::dimensions`].
    unsafe fn row(&self, row: Dim, to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes() as isize;
        let copy = |to, from| {
            // SAFETY: the caller promises that the row's elements can be read and written, and
            // `each` calls with addresses of these.
            unsafe { self.item.copy(to, from) };
        };
        // Steps that are constants here give loops with vector instructions.
        match (row.to, row.from) {
            // SAFETY: the caller promises that the row's elements can be read and written, and they
            // lie side by side in both ends.
            (t, f) if (t, f) == (bytes, bytes) => unsafe {
                per_byte::copy(to, from, bytes as usize * row.count);
            },
            (t, 0) if t == bytes => Dim { to: bytes, from: 0, ..row }.each(to, from, copy),
            (t, f) if (t, f) == (bytes, -bytes) => {
                // SAFETY: the caller promises that the row's elements can be read and written, and
                // they lie side by side in both ends.
                let done = unsafe { self.item.words_backwards(row.count, to, from) };
                Dim { to: bytes, from: -bytes, ..row }.each_from(done, to, from, copy)
            }
            (t, f) if (t, f) == (bytes, 2 * bytes) => {
                Dim { to: bytes, from: 2 * bytes, ..row }.each(to, from, copy)
            }
            (t, _) if t == bytes => Dim { to: bytes, ..row }.each(to, from, copy),
            (_, f) if f == bytes => Dim { from: bytes, ..row }.each(to, from, copy),
            _ => row.each(to, from, copy),
        }
    }
}

/// Reads a byte of each cache line of the rows along `near`, so that the processor waits for all of
/// them at once and not for one row after the other.
///
/// # Safety
/// As for [`CopyWalk::dimensions`].
unsafe fn touch(near: Dim, far: Dim, from: *const u8) {
    let step = (LINE_BYTES / near.from.unsigned_abs()).max(1);
    let lines = Dim { count: near.count.div_ceil(step), from: near.from * step as isize, ..near };
    let last = near.from * (near.count as isize - 1);
    let read = |from: *const u8| {
        // SAFETY: the address is of an element, which the caller promises can be read.
        let _: [u8; 1] = unsafe { per_byte::load(from) };
    };
    far.each(std::ptr::null_mut(), from, |to, from| {
        lines.each(to, from, |_, from| read(from));
        read(from.wrapping_offset(last)); // a row may end in one more line
    });
}

impl Dim {
    /// Calls `visit` with the addresses of every index.
    #[inline(always)]
    pub(super) fn each(
        self,
        to: *mut u8,
        from: *const u8,
        mut visit: impl FnMut(*mut u8, *const u8),
    ) {
        for index in 0..self.count as isize {
            visit(to.wrapping_offset(index * self.to), from.wrapping_offset(index * self.from));
        }
    }

    /// Calls `visit` with the addresses of every index from `first` on.
    #[inline(always)]
    pub(super) fn each_from(
        self,
        first: usize,
        to: *mut u8,
        from: *const u8,
        visit: impl FnMut(*mut u8, *const u8),
    ) {
        let to = to.wrapping_offset(self.to * first as isize);
        let from = from.wrapping_offset(self.from * first as isize);
        Self { count: self.count - first, ..self }.each(to, from, visit);
    }

    /// Calls `visit` with pieces of at most `most` indices, and their addresses.
    fn cut(
        self,
        most: usize,
        to: *mut u8,
        from: *const u8,
        mut visit: impl FnMut(Self, *mut u8, *const u8),
    ) {
        for first in (0..self.count).step_by(most) {
            let piece = Self { count: most.min(self.count - first), ..self };
            let index = first as isize;
            visit(
                piece,
                to.wrapping_offset(index * self.to),
                from.wrapping_offset(index * self.from),
            );
        }
    }
}
