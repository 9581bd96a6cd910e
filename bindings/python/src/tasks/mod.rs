//! What only the packages that run tasks use: pipes, what travels in them, and the slots and tasks
//! of queues.

mod outgoing_messages;
mod pipe;
mod queue_slots;
mod queue_tasks;

pub(crate) use outgoing_messages::{begin_message, end_message, is_in_message, outgoing_fds};
pub(crate) use pipe::{Message, Pipe};
pub(crate) use queue_slots::QueueSlots;
pub(crate) use queue_tasks::QueueTasks;
