//! ZeroMQ: a push and a pull socket over ipc.

use zmq::{Context, DONTWAIT, Error, Message, PULL, PUSH, Socket};

use super::{Outcome, Plan, Receives, Sends, Wait, read, write};

/// How long a socket that is closed waits for its messages to be sent.
const LINGER_MS: i32 = 1000;

struct Push {
    socket: Socket,
    frame: Vec<u8>,
}

struct Pull {
    socket: Socket,
    message: Message,
    flags: i32,
}

fn socket(kind: zmq::SocketType, plan: &Plan) -> Outcome<Socket> {
    let socket = Context::new().socket(kind)?;
    socket.set_linger(LINGER_MS)?;
    socket.set_sndhwm(plan.slots as i32)?;
    socket.set_rcvhwm(plan.slots as i32)?;
    Ok(socket)
}

pub fn sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    let socket = socket(PUSH, plan)?;
    socket.connect(&format!("ipc://{}", plan.path()))?;
    Ok(Box::new(Push { socket, frame: vec![0; plan.bytes] }))
}

pub fn receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    let socket = socket(PULL, plan)?;
    socket.bind(&format!("ipc://{}", plan.path()))?;
    let flags = if plan.wait == Wait::Block { 0 } else { DONTWAIT };
    Ok(Box::new(Pull { socket, message: Message::new(), flags }))
}

impl Sends for Push {
    fn send(&mut self, number: u64) -> Outcome<()> {
        // SAFETY: a message has at least eight bytes.
        unsafe { write(self.frame.as_mut_ptr(), number) };
        Ok(self.socket.send(self.frame.as_slice(), 0)?)
    }
}

impl Receives for Pull {
    fn receive(&mut self) -> Outcome<u64> {
        loop {
            match self.socket.recv(&mut self.message, self.flags) {
                Err(Error::EAGAIN) => continue,
                received => received?,
            }
            // SAFETY: a message has at least eight bytes.
            return Ok(unsafe { read(self.message.as_ptr()) });
        }
    }
}
