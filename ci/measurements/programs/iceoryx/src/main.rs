//! iceoryx2 in Rust: sends a loaned frame and gets another back, with both sides polling. Prints
//! a line when the other side may start, and the seconds of one round trip; both are JSON.
//!
//! `iceoryx-rounds ask NAME BYTES COUNT`; `iceoryx-rounds answer NAME BYTES COUNT`

use std::error::Error;
use std::time::Instant;

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;

const WARM_UP: u64 = 100;

struct Side {
    out: Publisher<ipc::Service, [u8], ()>,
    back: Subscriber<ipc::Service, [u8], ()>,
    bytes: usize,
}

impl Side {
    fn new(out: &str, back: &str, bytes: usize) -> Result<Self, Box<dyn Error>> {
        let node = NodeBuilder::new().create::<ipc::Service>()?;
        let service = |name: &str| -> Result<_, Box<dyn Error>> {
            let builder = node.service_builder(&name.try_into()?);
            Ok(builder.publish_subscribe::<[u8]>().open_or_create()?)
        };
        let sends = service(out)?;
        let back = service(back)?;
        let out = sends.publisher_builder().initial_max_slice_len(bytes).create()?;
        let back = back.subscriber_builder().create()?;
        println!("\"ready\"");
        // A frame that is sent before there is a subscriber is lost.
        while sends.dynamic_config().number_of_subscribers() == 0 {
            std::thread::yield_now();
        }
        Ok(Self { out, back, bytes })
    }

    /// Sends a frame, of which it writes only the first byte.
    fn send(&self, first: u8) -> Result<(), Box<dyn Error>> {
        let mut sample = self.out.loan_slice_uninit(self.bytes)?;
        sample.payload_mut()[0].write(first);
        // SAFETY: the receiver reads the first byte alone, which was just written.
        unsafe { sample.assume_init() }.send()?;
        Ok(())
    }

    fn receive(&self) -> Result<u8, Box<dyn Error>> {
        loop {
            if let Some(sample) = self.back.receive()? {
                return Ok(sample.payload()[0]);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    set_log_level(LogLevel::Error);
    let arguments: Vec<String> = std::env::args().collect();
    let name = &arguments[2];
    let bytes = arguments[3].parse()?;
    let count = arguments[4].parse::<u64>()?;
    let there = format!("{name}-there");
    let back = format!("{name}-back");
    if arguments[1] == "answer" {
        let side = Side::new(&back, &there, bytes)?;
        for _ in 0..count + WARM_UP {
            side.send(side.receive()?)?;
        }
        return Ok(());
    }
    let side = Side::new(&there, &back, bytes)?;
    let mut began = Instant::now();
    for number in 0..count + WARM_UP {
        if number == WARM_UP {
            began = Instant::now();
        }
        side.send(number as u8)?;
        assert_eq!(side.receive()?, number as u8, "another frame came back");
    }
    println!("{:.9}", began.elapsed().as_secs_f64() / count as f64);
    Ok(())
}
