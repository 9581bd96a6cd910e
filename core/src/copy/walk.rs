//! The loops of a copy, one of each for the sizes that a processor moves at once.
#![allow(unsafe_code)] // copies between two addresses that the plan has computed

use std::mem::MaybeUninit;

use super::plan::{Dim, Inner, LINE_BYTES, Plan};

/// What is copied at every index.
trait Item: Copy {
    fn of(bytes: usize) -> Self;

    fn bytes(self) -> usize;

    /// # Safety
    /// `bytes` can be read and written there, and do not overlap.
    unsafe fn copy(self, to: *mut u8, from: *const u8);

    /// Four of them that are `step` bytes apart, side by side.
    ///
    /// # Safety
    /// As `copy`, for each.
    #[inline(always)]
    unsafe fn four(self, to: *mut u8, from: *const u8, step: isize) {
        Dim { count: 4, to: self.bytes() as isize, from: step }.each(to, from, |to, from| {
            // SAFETY: the caller's.
            unsafe { self.copy(to, from) };
        });
    }
}

/// Of a size that is known here: one load and one store.
#[derive(Clone, Copy)]
struct Fixed<const BYTES: usize>;

/// Of one to two times `WORD` bytes: the first and the last word, which may overlap.
#[derive(Clone, Copy)]
struct Ends<const WORD: usize>(usize);

/// Of any size.
#[derive(Clone, Copy)]
struct Run(usize);

impl<const BYTES: usize> Item for Fixed<BYTES> {
    fn of(_: usize) -> Self {
        Self
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        BYTES
    }

    #[inline(always)]
    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from, to, BYTES) };
    }

    /// All are loaded before one is stored: then it is one store.
    #[inline(always)]
    unsafe fn four(self, to: *mut u8, from: *const u8, step: isize) {
        let four: [[MaybeUninit<u8>; BYTES]; 4] = std::array::from_fn(|index| {
            let from = from.wrapping_offset(step * index as isize);
            // SAFETY: the caller's; bytes need no alignment.
            unsafe { from.cast::<[MaybeUninit<u8>; BYTES]>().read() }
        });
        // SAFETY: as above.
        unsafe { to.cast::<[[MaybeUninit<u8>; BYTES]; 4]>().write(four) };
    }
}

impl<const WORD: usize> Item for Ends<WORD> {
    fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    #[inline(always)]
    fn bytes(self) -> usize {
        self.0
    }

    #[inline(always)]
    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        let last = self.0 - WORD;
        // SAFETY: the caller's; there are at least `WORD` bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, to, WORD) };
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(from.wrapping_add(last), to.wrapping_add(last), WORD)
        };
    }
}

impl Item for Run {
    fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    fn bytes(self) -> usize {
        self.0
    }

    unsafe fn copy(self, to: *mut u8, from: *const u8) {
        // SAFETY: the caller's.
        unsafe { std::ptr::copy_nonoverlapping(from, to, self.0) };
    }
}

impl Plan {
    /// # Safety
    /// All that it reads can be read, all that it writes can be written, and the two do not
    /// overlap.
    pub(super) unsafe fn run(mut self) {
        let walk = match self.run_bytes {
            1 => Self::walk::<Fixed<1>>,
            2 => Self::walk::<Fixed<2>>,
            4 => Self::walk::<Fixed<4>>,
            8 => Self::walk::<Fixed<8>>,
            16 => Self::walk::<Fixed<16>>,
            3 => Self::walk::<Ends<2>>,
            5..8 => Self::walk::<Ends<4>>,
            9..16 => Self::walk::<Ends<8>>,
            17..=32 => Self::walk::<Ends<16>>,
            _ => Self::walk::<Run>,
        };
        let inner = self.arrange();
        // SAFETY: the caller's; that item is for such a run.
        unsafe { walk(&self, inner) };
    }

    /// # Safety
    /// As [`Plan::run`], and the item is for its run.
    unsafe fn walk<I: Item>(&self, inner: Inner) {
        let walk = Walk { item: I::of(self.run_bytes), inner };
        // SAFETY: the caller's.
        unsafe { walk.dimensions(&self.dims, self.to, self.from) };
    }
}

struct Walk<I> {
    item: I,
    inner: Inner,
}

/// A tile on its way, in the first cache.
#[repr(align(64))]
struct Tile([MaybeUninit<u8>; TILE_BYTES]);

const TILE_BYTES: usize = 16 << 10;
/// Most bytes and elements of a tile along the source, where it is read in rows, and along what is
/// written: whole cache lines also where it does not begin with one, and few pages, which the
/// processor has to find. Measured.
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

/// How many rows are written at once: so few that their lines stay in the first cache until they
/// are full, also where strides of a power of two put all of them into one set. Measured.
const STREAMS: usize = 12;

/// What a strip takes in the end where it is longest.
const STRIP_BYTES: usize = 16 << 10;
const SHORTEST_STRIP: usize = 64;

// SAFETY of all below: as `Plan::run`; the addresses are those of elements, since every index is
// below its dimension's count.
impl<I: Item> Walk<I> {
    /// # Safety
    /// As [`Plan::run`], for the elements in `dims` from these addresses on.
    unsafe fn dimensions(&self, dims: &[Dim], to: *mut u8, from: *const u8) {
        match (dims, self.inner) {
            // SAFETY: the caller's.
            ([], _) => unsafe { self.item.copy(to, from) },
            // SAFETY: the caller's.
            (&[row], _) => unsafe { self.row(row, to, from) },
            // SAFETY: the caller's.
            (&[short, long], Inner::Strips) => unsafe { self.strips(short, long, to, from) },
            // SAFETY: the caller's.
            (&[near, far], Inner::Tiles) => unsafe { self.tiles(near, far, to, from) },
            // SAFETY: the caller's.
            (&[near, far], Inner::Streams) => unsafe { self.streams(near, far, to, from) },
            ([outer, rest @ ..], _) => outer.each(to, from, |to, from| {
                // SAFETY: the caller's; an index below the count.
                unsafe { self.dimensions(rest, to, from) };
            }),
        }
    }

    /// # Safety
    /// As [`Walk::dimensions`].
    unsafe fn strips(&self, short: Dim, long: Dim, to: *mut u8, from: *const u8) {
        let step = long.to.unsigned_abs().max(long.from.unsigned_abs());
        long.cut((STRIP_BYTES / step.max(1)).max(SHORTEST_STRIP), to, from, |strip, to, from| {
            short.each(to, from, |to, from| {
                // SAFETY: the caller's; a part of the dimension.
                unsafe { self.row(strip, to, from) };
            });
        });
    }

    /// Reads pieces of rows, and writes each of their items to the end of a row of its own.
    ///
    /// # Safety
    /// As [`Walk::dimensions`].
    unsafe fn streams(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        near.cut(STREAMS, to, from, |near, to, from| {
            far.each(to, from, |to, from| {
                // SAFETY: the caller's; a part of the dimension.
                unsafe { self.row(near, to, from) };
            });
        });
    }

    /// # Safety
    /// As [`Walk::dimensions`].
    unsafe fn tiles(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes();
        let mut tile = Tile([MaybeUninit::uninit(); TILE_BYTES]);
        near.cut(NEAR.of(bytes), to, from, |near, to, from| {
            far.cut(FAR.of(bytes), to, from, |far, to, from| {
                // SAFETY: the caller's; a part of both dimensions, which fits the tile.
                unsafe { self.tile(&mut tile, [near, far], to, from) };
            });
        });
    }

    /// Reads along the one dimension and writes along the other, through a tile: no line of either
    /// end is needed twice, wherever its strides put it in the cache.
    ///
    /// # Safety
    /// As [`Walk::dimensions`], and the tile has room.
    unsafe fn tile(&self, tile: &mut Tile, [near, far]: [Dim; 2], to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes() as isize;
        let tile = tile.0.as_mut_ptr().cast::<u8>();
        let (across, along) = (bytes * far.count as isize, bytes);
        // SAFETY: the caller's.
        unsafe { touch(near, far, from) };
        // SAFETY: the caller's; the tile is ours.
        unsafe { self.turn(Dim { to: across, ..near }, Dim { to: along, ..far }, tile, from) };
        Dim { from: across, ..near }.each(to, tile, |to, tile| {
            // SAFETY: the caller's; the tile's elements have been written.
            unsafe { self.row(Dim { from: along, ..far }, to, tile) };
        });
    }

    /// Reads along `near`, four rows at a time, and writes across it.
    ///
    /// # Safety
    /// As [`Walk::dimensions`], and what `far` writes lies side by side.
    unsafe fn turn(&self, near: Dim, far: Dim, to: *mut u8, from: *const u8) {
        let four = Dim { count: far.count / 4, to: 4 * far.to, from: 4 * far.from };
        four.each(to, from, |to, from| {
            near.each(to, from, |to, from| {
                // SAFETY: the caller's.
                unsafe { self.item.four(to, from, far.from) };
            });
        });
        let (rest, four) = (Dim { count: far.count % 4, ..far }, four.count as isize * 4);
        rest.each(
            to.wrapping_offset(four * far.to),
            from.wrapping_offset(four * far.from),
            |to, from| {
                // SAFETY: the caller's.
                unsafe { self.row(near, to, from) };
            },
        );
    }

    /// # Safety
    /// As [`Walk::dimensions`].
    unsafe fn row(&self, row: Dim, to: *mut u8, from: *const u8) {
        let bytes = self.item.bytes() as isize;
        let copy = |to, from| {
            // SAFETY: the caller's.
            unsafe { self.item.copy(to, from) };
        };
        // Steps that are known here make loops with vector instructions.
        match (row.to, row.from) {
            // SAFETY: the caller's; they lie side by side in both.
            (t, f) if (t, f) == (bytes, bytes) => unsafe {
                std::ptr::copy_nonoverlapping(from, to, bytes as usize * row.count);
            },
            (t, 0) if t == bytes => Dim { to: bytes, from: 0, ..row }.each(to, from, copy),
            (t, f) if (t, f) == (bytes, -bytes) => {
                Dim { to: bytes, from: -bytes, ..row }.each(to, from, copy)
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

/// Reads a little of each cache line of the rows along `near`, so that the processor waits for all
/// of them at once and not for one row after the other.
///
/// # Safety
/// As [`Walk::dimensions`].
unsafe fn touch(near: Dim, far: Dim, from: *const u8) {
    let step = (LINE_BYTES / near.from.unsigned_abs()).max(1);
    let lines = Dim { count: near.count.div_ceil(step), from: near.from * step as isize, ..near };
    let last = near.from * (near.count as isize - 1);
    let read = |from: *const u8| {
        // SAFETY: the caller's: a byte of an element, whose value nobody looks at.
        unsafe { from.cast::<MaybeUninit<u8>>().read_volatile() };
    };
    far.each(std::ptr::null_mut(), from, |to, from| {
        lines.each(to, from, |_, from| read(from));
        read(from.wrapping_offset(last)); // a row may end in one line more
    });
}

impl Dim {
    /// Calls with the addresses of every index.
    #[inline(always)]
    fn each(self, to: *mut u8, from: *const u8, mut visit: impl FnMut(*mut u8, *const u8)) {
        for index in 0..self.count as isize {
            visit(to.wrapping_offset(index * self.to), from.wrapping_offset(index * self.from));
        }
    }

    /// Calls with its pieces of at most `most` indices, and where they begin.
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
