//! ringfire: a ring of numbers for small messages, without loss; of blobs for all others, which
//! have no receive that blocks.

use ringfire::{BlobConsumer, BlobProducer, BlobProducerBuilder, FlowControl, FutexWait};
use ringfire::{RingConsumer, RingProducer, RingProducerBuilder};

use super::{Outcome, Plan, Receives, Sends, Wait, read, write};
use crate::workers::until;

const NUMBER: usize = size_of::<u64>();

struct Numbers(RingProducer<u64>);
struct NumbersBack(RingConsumer<u64>, Wait);
struct Blobs(BlobProducer<u64>, usize);
struct BlobsBack(BlobConsumer<u64>);

fn path(plan: &Plan) -> String {
    format!("/dev/shm/bench-{}", plan.name)
}

pub fn sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    let slots = u64::from(plan.slots.next_power_of_two());
    if plan.bytes > NUMBER {
        let bytes = (8 * plan.bytes).next_power_of_two();
        let blobs = BlobProducerBuilder::new(slots, bytes).build(path(plan))?;
        return Ok(Box::new(Blobs(blobs, plan.bytes)));
    }
    let numbers = RingProducerBuilder::new(slots)
        .flow_control(FlowControl::LosslessBackpressure)
        .build(path(plan))?;
    Ok(Box::new(Numbers(numbers)))
}

pub fn receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    if plan.bytes > NUMBER && plan.wait == Wait::Block {
        return Err("no receive of blobs that blocks".into());
    }
    if plan.bytes > NUMBER {
        return Ok(Box::new(BlobsBack(until(|| BlobConsumer::attach(path(plan)))?)));
    }
    Ok(Box::new(NumbersBack(until(|| RingConsumer::attach(path(plan)))?, plan.wait)))
}

impl Sends for Numbers {
    fn send(&mut self, number: u64) -> Outcome<()> {
        self.0.push(&number);
        Ok(())
    }
}

impl Receives for NumbersBack {
    fn receive(&mut self) -> Outcome<u64> {
        if self.1 == Wait::Block {
            return Ok(self.0.recv_blocking(&mut FutexWait::new(0, None)));
        }
        loop {
            if let Some(number) = self.0.try_recv() {
                return Ok(number);
            }
        }
    }
}

impl Sends for Blobs {
    fn send(&mut self, number: u64) -> Outcome<()> {
        // SAFETY: a message has at least eight bytes.
        self.0.push_with(&0, self.1, |blob| unsafe { write(blob.as_mut_ptr(), number) })?;
        Ok(())
    }
}

impl Receives for BlobsBack {
    fn receive(&mut self) -> Outcome<u64> {
        loop {
            // SAFETY: a message has at least eight bytes.
            if let Some(number) = self.0.view(|_, blob| unsafe { read(blob.as_ptr()) })? {
                return Ok(number);
            }
        }
    }
}
