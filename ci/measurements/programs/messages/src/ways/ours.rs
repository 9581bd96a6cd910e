//! Channels of shmarray.

use std::time::Duration;

use shmarray::{Channel, ChannelMode, ChannelOptions, DType, Delivered, Loaned};

use super::{Outcome, Plan, Receives, Sends, Wait, read, write};

struct End {
    channel: Channel,
    wait: Wait,
}

pub fn queue(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    sender(plan, ChannelMode::Queue)
}

pub fn broadcast(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    sender(plan, ChannelMode::Broadcast)
}

fn sender(plan: &Plan, mode: ChannelMode) -> Outcome<Box<dyn Sends>> {
    let options = ChannelOptions::new().slots(plan.slots).mode(mode).exist_ok(true);
    let shape = [plan.bytes as u64];
    let channel = Channel::create(&plan.name, DType::parse("|u1")?, &shape, &options)?;
    Ok(Box::new(End { channel, wait: plan.wait }))
}

pub fn receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    let channel = Channel::open_within(&plan.name, Receives::Now, None)?.ok_or("no channel")?;
    Ok(Box::new(End { channel, wait: plan.wait }))
}

impl Sends for End {
    fn send(&mut self, number: u64) -> Outcome<()> {
        let Loaned::Loan(loan) = self.channel.loan(None)? else { return Err("no slot".into()) };
        // SAFETY: a message has at least eight bytes.
        unsafe { write(loan.array().as_ptr(), number) };
        loan.publish(b"")?;
        Ok(())
    }
}

impl Receives for End {
    fn receive(&mut self) -> Outcome<u64> {
        let timeout = (self.wait != Wait::Block).then_some(Duration::ZERO);
        loop {
            match self.channel.receive(timeout)? {
                // SAFETY: a message has at least eight bytes.
                Delivered::Message(message) => {
                    return Ok(unsafe { read(message.array().as_ptr()) });
                }
                Delivered::Ended { died: true, .. } => return Err("the sender died".into()),
                Delivered::Ended { .. } => return Err("the stream has ended".into()),
                _ if self.wait == Wait::Yield => std::thread::yield_now(),
                _ => {} // it polls
            }
        }
    }
}
