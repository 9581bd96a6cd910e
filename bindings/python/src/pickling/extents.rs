//! The extents of arrays, and whether arrays may have memory in common.

use crate::memory::Facts;

/// The bytes from the lowest of an array to the highest.
///
/// Its elements lie in *runs*, which are bytes without gaps, and whose starts are multiples of its
/// *period* apart, as in the module `_overlaps`. An array that is one run has the period 0.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    pub(super) low: usize,
    pub(super) high: usize,
    run: usize,
    period: usize,
    /// Whether it is an out-of-band buffer. Two such buffers may overlap.
    is_out_of_band: bool,
}

impl Extent {
    pub(super) fn contiguous(low: usize, bytes: usize) -> Self {
        Self { low, high: low + bytes, run: bytes, period: 0, is_out_of_band: false }
    }

    pub(super) fn out_of_band(self) -> Self {
        Self { is_out_of_band: true, ..self }
    }

    pub(super) fn of(facts: &Facts<'_>) -> Self {
        let (low, high) = facts.extent();
        if facts.is_contiguous() {
            return Self::contiguous(low, high - low);
        }
        let mut steps: Vec<_> = facts
            .shape()
            .iter()
            .zip(facts.strides())
            .map(|(count, step)| (step.unsigned_abs(), *count as usize))
            .collect();
        steps.sort_unstable();
        let (mut run, mut period) = (facts.itemsize() as usize, 0);
        for (step, count) in steps {
            if step <= run {
                run += count.saturating_sub(1) * step;
            } else if count > 1 {
                period = gcd(period, step);
            }
        }
        Self { low, high, run, period, is_out_of_band: false }
    }
}

/// Returns whether two extents, not both of out-of-band buffers, may have a byte in common. It may
/// return true where none is.
pub(super) fn have_common(extents: &mut Vec<Extent>) -> bool {
    extents.retain(|extent| extent.low < extent.high);
    extents.sort_unstable_by_key(|extent| extent.low);
    let mut chain = 0;
    let mut end = 0;
    for at in 0..extents.len() {
        if extents[at].low >= end {
            chain = at;
        }
        end = end.max(extents[at].high);
        let is_last = extents.get(at + 1).is_none_or(|next| next.low >= end);
        let members = &extents[chain..=at];
        if is_last
            && at > chain
            && !members.iter().all(|one| one.is_out_of_band)
            && !are_side_by_side(members)
        {
            return true;
        }
    }
    false
}

/// Returns whether their runs are apart modulo the greatest common divisor of their periods.
fn are_side_by_side(chain: &[Extent]) -> bool {
    let period = chain.iter().fold(0, |period, extent| gcd(period, extent.period));
    if chain.iter().any(|extent| extent.period == 0 || extent.run >= period) {
        return false;
    }
    let mut runs: Vec<_> = chain
        .iter()
        .map(|extent| (extent.low % period, extent.low % period + extent.run))
        .collect();
    runs.sort_unstable();
    let is_around = runs[runs.len() - 1].1 > runs[0].0 + period;
    !is_around && runs.windows(2).all(|pair| pair[1].0 >= pair[0].1)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
