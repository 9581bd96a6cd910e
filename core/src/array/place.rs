//! Where an array lies: what keeps its memory, and which of it are its elements.

use std::sync::Arc;

use super::slot_share::SlotShare;
use crate::memory::segment::Segment;
use crate::value::shape::Layout;

/// Where an array lies. A layout is checked against the segment's data (I1 to I3 of `shape`), and
/// shared, so that a clone allocates nothing.
#[derive(Clone)]
pub(super) enum Place {
    Segment(Arc<Segment>, Arc<Layout>),
    /// In a slot of a channel, of which the array has no share.
    Unkept(Arc<Segment>, Arc<Layout>),
    /// In a slot of a channel. Without a layout it is the slot's message.
    Slot(SlotShare, Option<Arc<Layout>>),
}

impl Place {
    pub(super) fn segment(&self) -> &Arc<Segment> {
        match self {
            Self::Segment(segment, _) | Self::Unkept(segment, _) => segment,
            Self::Slot(share, _) => share.segment(),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        match self {
            Self::Segment(_, layout) | Self::Unkept(_, layout) | Self::Slot(_, Some(layout)) => {
                layout
            }
            Self::Slot(share, None) => share.layout(),
        }
    }

    pub(super) fn is_slot(&self) -> bool {
        !matches!(self, Self::Segment(..))
    }

    /// Returns the same place with other elements.
    pub(super) fn with_layout(&self, layout: Layout) -> Self {
        let layout = Arc::new(layout);
        match self {
            Self::Segment(segment, _) => Self::Segment(Arc::clone(segment), layout),
            Self::Unkept(segment, _) => Self::Unkept(Arc::clone(segment), layout),
            Self::Slot(share, _) => Self::Slot(share.clone(), Some(layout)),
        }
    }

    /// Returns the same place without a share of the slot.
    pub(super) fn unkept(&self) -> Self {
        match self {
            Self::Slot(share, _) => {
                let layout = Arc::new(self.layout().clone());
                Self::Unkept(Arc::clone(share.segment()), layout)
            }
            other => other.clone(),
        }
    }
}
