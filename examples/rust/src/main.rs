//! `cargo run`: receives the frames of a camera, which is another process, in a task of tokio.
//!
//! The channel's event is an fd that is readable while a receive need not wait, so `AsyncFd` waits
//! for it, and the thread's other tasks go on: here a clock.

use std::cell::Cell;
use std::error::Error;
use std::process::Command;
use std::time::Duration;

use shmarray::{
    Channel, ChannelEvent, ChannelOptions, DType, Delivered, Delivery, Loaned, Receives,
};
use tokio::io::unix::AsyncFd;
use tokio::time::interval;

const FRAMES: u64 = 100;
const SHAPE: [u64; 2] = [480, 640];
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

/// Receives without blocking the thread.
struct Receiver {
    channel: Channel,
    event: AsyncFd<ChannelEvent>,
}

impl Receiver {
    fn new(channel: Channel) -> Result<Self, Box<dyn Error>> {
        // SAFETY: the fd of an event is the same, and open, for as long as the event lives.
        let event = unsafe { AsyncFd::register(channel.event()?)? };
        Ok(Self { channel, event })
    }

    /// Returns the next message, or none at the end of the stream.
    async fn next(&self) -> Result<Option<Delivery>, Box<dyn Error>> {
        loop {
            let mut ready = self.event.readable().await?;
            match self.channel.receive(AT_ONCE)? {
                Delivered::Message(message) => return Ok(Some(message)),
                Delivered::Ended { died: true, .. } => return Err("the camera died".into()),
                Delivered::Ended { .. } => return Ok(None),
                _ => ready.clear_ready(), // another thread was faster
            }
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(name) = std::env::args().nth(1) {
        return film(&name);
    }
    let name = format!("frames-{}", std::process::id());
    let options = ChannelOptions::new().slots(4);
    let channel = Channel::create(&name, DType::parse("float32")?, &SHAPE, &options)?;
    let mut camera = Command::new(std::env::current_exe()?).arg(&name).spawn()?;

    let ticks = Cell::new(0);
    let clock = async {
        let mut every = interval(Duration::from_millis(1));
        loop {
            every.tick().await;
            ticks.set(ticks.get() + 1);
        }
    };
    tokio::select! {
        seen = watch(Receiver::new(channel)?) => {
            println!("{} frames; the clock ticked {} times meanwhile", seen?, ticks.get());
        }
        () = clock => {}
    }
    camera.wait()?;
    Ok(())
}

/// Receives every frame. Returns their number.
async fn watch(receiver: Receiver) -> Result<u64, Box<dyn Error>> {
    let mut seen = 0;
    while let Some(frame) = receiver.next().await? {
        // SAFETY: nobody writes to a message that was published.
        let pixels = unsafe { frame.array().raw_view::<f32>()?.deref_into_view() };
        assert!(pixels.iter().all(|&pixel| pixel == frame.sequence() as f32));
        seen += 1;
    }
    assert_eq!(seen, FRAMES);
    Ok(seen)
}

/// The camera: sends its frames, and ends.
fn film(name: &str) -> Result<(), Box<dyn Error>> {
    let channel = Channel::open(name, Receives::Later)?;
    for number in 0..FRAMES {
        let Loaned::Loan(slot) = channel.loan(None)? else { unreachable!("it waits") };
        // SAFETY: the slot is this process's alone until it is published.
        unsafe { slot.array().raw_view_mut::<f32>()?.deref_into_view_mut() }.fill(number as f32);
        slot.publish(b"")?;
    }
    Ok(())
}
