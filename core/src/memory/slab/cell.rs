//! A cell that this process has claimed and that holds no array yet.
//!
//! [`claim_cell`] (UNUSED or FREE → CLAIMED), then [`Claimed::fill`], then [`Claimed::make_live`]
//! (→ LIVE) or [`Claimed::unclaim`] (→ FREE). If the process dies in between, the cell stays
//! CLAIMED without a living owner, and a sweep frees it (I3 of `lease`).

use std::sync::Arc;

use super::pool_limit;
use crate::header::control::{DECOMMITTED, Ordering};
use crate::header::format::CELL_DESCRIPTION_BYTES;
use crate::header::lease::{EntryIndex, Leases};
use crate::memory::mapping::{Fill, Mapped};
use crate::system::{self, Owner};
use crate::value::descriptor::GENERATION_LIMIT;
use crate::value::error::Result;
use crate::value::name::random_generation;

/// A claimed cell.
#[must_use = "it must go live or be unclaimed"]
pub(super) struct Claimed {
    pub(super) mapped: Arc<Mapped>,
    pub(super) cell: u32,
    pub(super) entry: EntryIndex,
    /// Whether its memory is as the kernel made it.
    pub(super) is_zero: bool,
    /// Whether the initial contents were written to the file before it was mapped.
    pub(super) is_filled: bool,
}

/// Claims a cell of a slab. `None` when another process has claimed it, or all of its entries are
/// taken.
pub(super) fn claim_cell(mapped: &Arc<Mapped>, cell: u32, me: Owner) -> Option<Claimed> {
    let whole = mapped.leases();
    let leases = whole.cell(cell)?;
    // Before the claim, which ends UNUSED. Only this process stores elements in the slab's cells.
    let is_zero = leases.is_unused();
    // Before the claim: a CLAIMED cell without an entry is taken for a dead process's (I3).
    let entry = leases.take_entry(me.id, me.info)?;
    if !leases.claim() {
        leases.leave(entry);
        return None;
    }
    whole.control.used().add(1);
    let warm = !is_zero && leases.control.flags().load(Ordering::Acquire) & DECOMMITTED == 0;
    if warm {
        whole.control.warm().add(-1);
    }
    Some(Claimed { mapped: Arc::clone(mapped), cell, entry, is_zero, is_filled: false })
}

impl Claimed {
    pub(super) fn leases(&self) -> Leases {
        self.mapped.leases_of(Some(self.cell))
    }

    /// Reserves the cell's memory if it was decommitted, and stores the initial contents of the
    /// array. The flag is cleared later, by [`Claimed::make_live`].
    ///
    /// # Errors
    /// [`Error::NoSpace`] when there is no room for memory that was decommitted, and those of
    /// [`Fill::apply`].
    #[allow(unsafe_code)]
    pub(super) fn fill(&self, data_bytes: u64, fill: &Fill<'_>) -> Result<()> {
        if self.leases().control.flags().load(Ordering::Acquire) & DECOMMITTED != 0 {
            let (offset, bytes) = self.mapped.part(Some(self.cell));
            let part = (self.mapped.header.header_bytes + offset, bytes);
            pool_limit::find_room(self.mapped.directory(), bytes)?;
            system::recommit(self.mapped.directory(), &self.mapped.header.id, part)?;
        }
        if !self.is_filled {
            // SAFETY: the elements can be read, as the caller of `Array::create_filled` promised,
            // and the cell, CLAIMED by this thread, has room for `data_bytes` of them.
            if unsafe { fill.write_to_cell(&self.mapped, self.cell)? } {
                return Ok(());
            }
            let data = self.mapped.data(Some(self.cell));
            self.mapped.prepare_stores(if fill.stores(self.is_zero) { data_bytes } else { 0 });
            // SAFETY: `apply` needs writable memory for one thread alone. The process that made the
            // slab mapped it writable, the cell has room for `data_bytes` (`cell_bytes_for`), and
            // it is this thread's while it is CLAIMED (I3 of `lease`).
            unsafe { fill.apply(data, data_bytes, self.is_zero)? };
        }
        Ok(())
    }

    /// Makes the cell LIVE, as an array of so many bytes. Returns its generation.
    pub(super) fn make_live(
        &self,
        description: &[u8; CELL_DESCRIPTION_BYTES],
        data_bytes: u64,
    ) -> Result<u64> {
        let leases = self.leases();
        let generation = match leases.control.generation() {
            0 => random_generation()?,
            // From 1 to GENERATION_LIMIT - 1, even if another program stored a larger number.
            earlier => earlier % (GENERATION_LIMIT - 1) + 1,
        };
        leases.control.describe(description);
        leases.begin_life(self.entry, generation, data_bytes);
        Ok(generation)
    }

    /// Makes the cell FREE again.
    pub(super) fn unclaim(&self) {
        let leases = self.leases();
        leases.unclaim();
        leases.leave(self.entry);
    }
}
