//! Measures channels in Rust: prints the seconds of one message as a line of JSON.
//!
//! `channels ask|answer NAME BYTES COUNT poll|block`: there and back. `channels send NAME BYTES
//! COUNT SENDERS RECEIVERS`: one way, by forked processes.
#![allow(missing_docs, unsafe_code)]

use std::time::{Duration, Instant};

use shmarray::{Channel, ChannelOptions, DType, Delivered, Delivery, Loaned, Result};

const WARM_UP: u64 = 100;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize| arguments[index].as_str();
    let number = |index: usize| arguments[index].parse::<u64>().expect("a number");
    match text(0) {
        "ask" => println!("{:.9}", ask(text(1), number(2), number(3), timeout(text(4)))?),
        "answer" => answer(text(1), timeout(text(4)))?,
        "send" => {
            println!("{:.9}", send_all(text(1), number(2), number(3), number(4), number(5))?);
        }
        other => panic!("no such row: {other}"),
    }
    Ok(())
}

fn timeout(wait: &str) -> Option<Duration> {
    match wait {
        "poll" => Some(Duration::ZERO),
        "block" => None,
        other => panic!("neither poll nor block: {other}"),
    }
}

fn create(name: &str, bytes: u64) -> Result<Channel> {
    Channel::create(name, DType::parse("|u1")?, &[bytes], &ChannelOptions::new().slots(4))
}

/// Sends a frame, of which it writes only the first byte: filling the rest costs the same in every
/// system.
fn send(channel: &Channel, first: u8) -> Result<()> {
    let Loaned::Loan(loan) = channel.loan(None)? else { panic!("no slot") };
    loan.array().set(&[0], first)?;
    loan.publish(b"").map(drop)
}

/// `None` at the end of the stream.
fn receive(channel: &Channel, timeout: Option<Duration>) -> Result<Option<Delivery>> {
    loop {
        match channel.receive(timeout)? {
            Delivered::Message(delivery) => return Ok(Some(delivery)),
            Delivered::Ended { .. } => return Ok(None),
            _ => {} // it polls
        }
    }
}

fn first(delivery: &Delivery) -> Result<u8> {
    delivery.array().get(&[0])
}

fn ask(name: &str, bytes: u64, count: u64, timeout: Option<Duration>) -> Result<f64> {
    let there = create(&format!("{name}.there"), bytes)?;
    let back = create(&format!("{name}.back"), bytes)?;
    println!("\"ready\"");
    let round = |number: u64| {
        send(&there, number as u8)?;
        let delivery = receive(&back, timeout)?.expect("an answer");
        assert_eq!(first(&delivery)?, number as u8, "another frame came back");
        Ok(())
    };
    (0..WARM_UP).try_for_each(round)?;
    let began = Instant::now();
    (0..count).try_for_each(round)?;
    Ok(began.elapsed().as_secs_f64() / count as f64)
}

fn answer(name: &str, timeout: Option<Duration>) -> Result<()> {
    let open = |part: &str| Channel::open_within(&format!("{name}.{part}"), true, None);
    let there = open("there")?.expect("waits");
    let back = open("back")?.expect("waits");
    while let Some(delivery) = receive(&there, timeout)? {
        let number = first(&delivery)?;
        drop(delivery);
        send(&back, number)?;
    }
    Ok(())
}

/// The seconds of one message, from the first that is sent to the last that is received.
fn send_all(name: &str, bytes: u64, count: u64, senders: u64, receivers: u64) -> Result<f64> {
    let channel = create(name, bytes)?;
    let here = create(&format!("{name}.here"), 1)?;
    let go = create(&format!("{name}.go"), 1)?;
    let mut children = Vec::new();
    for child in 0..senders + receivers {
        // SAFETY: a fork needs a process with one thread, which this one is.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            if child < senders {
                drop(channel.loan(Some(Duration::ZERO))?); // from now on it sends
                send(&here, 1)?;
                let _ = receive(&go, None)?; // until all are there
                for number in 0..count / senders {
                    send(&channel, number as u8)?;
                }
            } else {
                send(&here, 1)?;
                while let Some(delivery) = receive(&channel, None)? {
                    first(&delivery)?;
                }
            }
            std::process::exit(0);
        }
        children.push(pid);
    }
    for _ in 0..senders + receivers {
        receive(&here, None)?;
    }
    channel.close();
    let began = Instant::now();
    for _ in 0..senders {
        send(&go, 1)?;
    }
    for pid in children {
        // SAFETY: the pointer may be null, and the pid is of a child of this process.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
    Ok(began.elapsed().as_secs_f64() / (count / senders * senders) as f64)
}
