//! The base of an array: what keeps its memory.

use std::any::Any;
use std::sync::Arc;

use crate::memory::segment::Segment;
use crate::value::shape::Layout;

/// What keeps the memory of an array, with the layout of its elements there. The layout is checked
/// against the segment's data (I1 to I3 of `shape`), and shared, so that a clone allocates nothing.
#[derive(Clone)]
pub(super) enum Base {
    Segment(Arc<Segment>, Arc<Layout>),
    /// A slot of a channel. Without a layout the array is the slot's message.
    Slot(SlotRef, Option<Arc<Layout>>),
}

impl Base {
    pub(super) fn segment(&self) -> &Arc<Segment> {
        match self {
            Self::Segment(segment, _) => segment,
            Self::Slot(slot, _) => slot.slots.segment(),
        }
    }

    pub(super) fn layout(&self) -> &Layout {
        match self {
            Self::Segment(_, layout) | Self::Slot(_, Some(layout)) => layout,
            Self::Slot(slot, None) => slot.slots.layout(slot.id.slot),
        }
    }

    pub(super) fn slot(&self) -> Option<&SlotRef> {
        match self {
            Self::Segment(..) => None,
            Self::Slot(slot, _) => Some(slot),
        }
    }

    /// Returns the same base with the layout of other elements.
    pub(super) fn with_layout(&self, layout: Layout) -> Self {
        let layout = Arc::new(layout);
        match self {
            Self::Segment(segment, _) => Self::Segment(Arc::clone(segment), layout),
            Self::Slot(slot, _) => Self::Slot(slot.clone(), Some(layout)),
        }
    }
}

/// The slots of a channel that this process has, each with a count of the arrays that keep it.
pub(crate) trait Slots: Any + Send + Sync {
    fn segment(&self) -> &Arc<Segment>;

    /// Returns the layout of a slot's message, if all messages have the channel's shape.
    fn layout(&self, slot: u32) -> &Layout;

    /// Counts one more array. One that counts in `id` exists meanwhile.
    fn add(&self, id: UseId);

    /// Counts one array less. The last one gives the slot back.
    fn remove(&self, id: UseId);
}

/// One use of a slot. In a later use of the same slot the number differs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UseId {
    pub(crate) slot: u32,
    pub(crate) number: u64,
}

/// A counted reference to a slot.
pub(crate) struct SlotRef {
    slots: Arc<dyn Slots>,
    id: UseId,
}

impl SlotRef {
    /// Makes the first reference of a use, which counts it already.
    pub(crate) fn first(slots: Arc<dyn Slots>, id: UseId) -> Self {
        Self { slots, id }
    }

    /// Returns the slots, which are an `S`, and the use that this reference counts in.
    pub(crate) fn of<S: Slots>(&self) -> Option<(&S, UseId)> {
        let slots: &dyn Any = &*self.slots;
        slots.downcast_ref().map(|slots| (slots, self.id))
    }
}

impl Clone for SlotRef {
    fn clone(&self) -> Self {
        self.slots.add(self.id);
        Self { slots: Arc::clone(&self.slots), id: self.id }
    }
}

impl Drop for SlotRef {
    fn drop(&mut self) {
        self.slots.remove(self.id);
    }
}
