//! tachyon-ipc: a ring of bytes for one sender and one receiver.

use tachyon_ipc::{Bus, TachyonError};

use super::{Outcome, Plan, Receives, Sends, Wait, read, write};
use crate::workers::until;

const HEADER_BYTES: usize = 64;
/// A receiver tells after each 32 messages that they are free.
const SLOTS: usize = 48;

struct Ring {
    bus: Bus,
    bytes: usize,
    spins: u32,
}

impl Ring {
    fn new(bus: Bus, plan: &Plan) -> Self {
        let polls = plan.wait != Wait::Block;
        bus.set_polling_mode(polls.into());
        Self { bus, bytes: plan.bytes, spins: if polls { u32::MAX } else { 0 } }
    }
}

pub fn sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    let bus = until(|| Bus::connect(&plan.path()))?;
    Ok(Box::new(Ring::new(bus, plan)))
}

pub fn receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    let slots = SLOTS.max(plan.slots as usize);
    let bytes = (slots * (plan.bytes + HEADER_BYTES)).next_power_of_two();
    Ok(Box::new(Ring::new(Bus::listen(&plan.path(), bytes)?, plan)))
}

impl Sends for Ring {
    fn send(&mut self, number: u64) -> Outcome<()> {
        let mut slot = loop {
            match self.bus.acquire_tx(self.bytes) {
                Err(TachyonError::BufferFull) => std::thread::yield_now(),
                slot => break slot?,
            }
        };
        // SAFETY: a message has at least eight bytes.
        unsafe { write(slot.as_mut_slice().as_mut_ptr(), number) };
        Ok(slot.commit(self.bytes, 1)?)
    }
}

impl Receives for Ring {
    fn receive(&mut self) -> Outcome<u64> {
        let message = self.bus.acquire_rx(self.spins)?;
        // SAFETY: a message has at least eight bytes.
        let number = unsafe { read(message.data().as_ptr()) };
        message.commit()?;
        Ok(number)
    }
}
