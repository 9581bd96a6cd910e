//! What the system and one process have: a Unix socket, a word that is polled or slept at, and
//! crossbeam-channel between threads.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType};
use rustix::net::{accept, bind, connect, listen, recv, send, socket};
use rustix::thread::futex;

use super::{Outcome, Plan, Receives, Sends, Wait, Word, read, write};
use crate::workers::until;

/// A packet must fit into the socket's buffer; larger messages go through a stream.
const PACKET_BYTES: usize = 64 << 10;

struct Socket {
    fd: OwnedFd,
    frame: Vec<u8>,
    flags: RecvFlags,
}

impl Socket {
    fn new(fd: OwnedFd, plan: &Plan) -> Self {
        let flags = if plan.wait == Wait::Block { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        Self { fd, frame: vec![0; plan.bytes], flags }
    }
}

fn unconnected(plan: &Plan) -> Outcome<OwnedFd> {
    let kind = if plan.bytes > PACKET_BYTES { SocketType::STREAM } else { SocketType::SEQPACKET };
    Ok(socket(AddressFamily::UNIX, kind, None)?)
}

pub fn socket_sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    let fd = unconnected(plan)?;
    let address = SocketAddrUnix::new(plan.path())?;
    until(|| connect(&fd, &address))?;
    Ok(Box::new(Socket::new(fd, plan)))
}

pub fn socket_receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    let path = plan.path();
    let _ = std::fs::remove_file(&path); // of a receiver that was killed
    let listens = unconnected(plan)?;
    bind(&listens, &SocketAddrUnix::new(&path)?)?;
    listen(&listens, 1)?;
    let fd = accept(&listens)?;
    std::fs::remove_file(&path)?;
    Ok(Box::new(Socket::new(fd, plan)))
}

impl Sends for Socket {
    fn send(&mut self, number: u64) -> Outcome<()> {
        // SAFETY: a message has at least eight bytes.
        unsafe { write(self.frame.as_mut_ptr(), number) };
        let mut left = self.frame.as_slice();
        while !left.is_empty() {
            left = &left[send(&self.fd, left, SendFlags::NOSIGNAL)?..];
        }
        Ok(())
    }
}

impl Receives for Socket {
    fn receive(&mut self) -> Outcome<u64> {
        let mut got = 0;
        while got < self.frame.len() {
            match recv(&self.fd, &mut self.frame[got..], self.flags) {
                Ok((0, _)) => return Err("the stream has ended".into()),
                Ok((more, _)) => got += more,
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // SAFETY: a message has at least eight bytes.
        Ok(unsafe { read(self.frame.as_ptr()) })
    }
}

struct OfWord {
    word: &'static Word,
    wait: Wait,
    last: u32,
}

pub fn word_sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    Ok(Box::new(OfWord { word: plan.word, wait: plan.wait, last: 0 }))
}

pub fn word_receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    Ok(Box::new(OfWord { word: plan.word, wait: plan.wait, last: 0 }))
}

impl Sends for OfWord {
    fn send(&mut self, number: u64) -> Outcome<()> {
        self.word.0.store(number as u32, Release);
        if self.wait == Wait::Block {
            futex::wake(&self.word.0, futex::Flags::empty(), 1)?;
        }
        Ok(())
    }
}

impl Receives for OfWord {
    fn receive(&mut self) -> Outcome<u64> {
        loop {
            let seen = self.word.0.load(Acquire);
            if seen != self.last {
                self.last = seen;
                return Ok(seen.into());
            }
            if self.wait == Wait::Block {
                match futex::wait(&self.word.0, futex::Flags::empty(), seen, None) {
                    Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

struct LocalSender(Sender<u64>);
struct LocalReceiver(Receiver<u64>, Wait);

pub fn local_sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    Ok(Box::new(LocalSender(plan.local.0.clone())))
}

pub fn local_receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    Ok(Box::new(LocalReceiver(plan.local.1.clone(), plan.wait)))
}

impl Sends for LocalSender {
    fn send(&mut self, number: u64) -> Outcome<()> {
        Ok(self.0.send(number)?)
    }
}

impl Receives for LocalReceiver {
    fn receive(&mut self) -> Outcome<u64> {
        if self.1 == Wait::Block {
            return Ok(self.0.recv()?);
        }
        loop {
            match self.0.try_recv() {
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
                received => return Ok(received?),
            }
        }
    }
}
