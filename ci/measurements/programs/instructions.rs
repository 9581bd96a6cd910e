//! Takes one path of the library so many times, for ci/instructions to count.
#![allow(missing_docs, unsafe_code)]

use std::hint::black_box;

use shmarray::{
    Access, Array, Channel, ChannelOptions, DType, Delivered, Descriptor, Layout, Loaned, Options,
    Order, Pipe, Received, Receives,
};

/// The call that is repeated, made from what is made once.
type Path = (&'static str, fn() -> Box<dyn FnMut()>);

const PATHS: &[Path] = &[
    ("create and drop, 80 B", || creates(80)),
    ("create and drop, 1 MiB", || creates(1 << 20)),
    ("attach and drop what is mapped, 80 B", || attaches(80)),
    ("attach and drop what is mapped, 1 MiB", || attaches(1 << 20)),
    ("handle to text", || {
        let array = create(80);
        Box::new(move || drop(black_box(array.handle())))
    }),
    ("handle from text", || {
        let text = create(80).handle();
        Box::new(move || drop(black_box(Descriptor::parse(&text).unwrap())))
    }),
    ("share and drop, 80 B", shares),
    ("send to a pipe and receive, 80 B", sends),
    ("loan, publish and receive, 80 B", publishes),
    ("copy out, 8 by 8 transposed", || copies_out(&create_square().transpose())),
    ("copy out, 8 by 8", || copies_out(&create_square())),
    ("get an element", || {
        let square = create_square();
        Box::new(move || drop(black_box(square.get::<f64>(black_box(&[3, 4])))))
    }),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [path, times] => run(path, times.parse().expect("how many times is a number")),
        _ => PATHS.iter().for_each(|(name, _)| println!("{name}")),
    }
}

fn run(path: &str, times: usize) {
    let (_, make) = PATHS.iter().find(|(name, _)| *name == path).expect("no such path");
    let mut call = make();
    (0..times).for_each(|_| call());
}

/// Not cleared: clearing is a memset of the size.
fn create(bytes: u64) -> Array {
    let options = Options::new().uninitialized(true);
    Array::create(DType::parse("|u1").unwrap(), &[bytes], &options).unwrap()
}

fn create_square() -> Array {
    Array::create(DType::parse("<f8").unwrap(), &[8, 8], &Options::default()).unwrap()
}

fn creates(bytes: u64) -> Box<dyn FnMut()> {
    Box::new(move || drop(create(black_box(bytes))))
}

fn attaches(bytes: u64) -> Box<dyn FnMut()> {
    let array = create(bytes);
    let handle = array.handle();
    Box::new(move || {
        let _held = &array;
        drop(Array::attach(black_box(&handle), Access::ReadWrite).unwrap());
    })
}

fn sends() -> Box<dyn FnMut()> {
    let array = create(80);
    let (here, there) = Pipe::pair().unwrap();
    Box::new(move || {
        here.send(b"", &[&array], None).unwrap();
        let Received::Message(message) = there.receive(None).unwrap() else { panic!("no message") };
        drop(message.array(0, Access::ReadWrite).unwrap());
    })
}

fn publishes() -> Box<dyn FnMut()> {
    let name = format!("instructions-{}", std::process::id());
    let dtype = DType::parse("|u1").unwrap();
    let sender = Channel::create(&name, dtype, &[80], &ChannelOptions::new().slots(4)).unwrap();
    let receiver = Channel::open(&name, Receives::Now).unwrap();
    Box::new(move || {
        let Loaned::Loan(loan) = sender.loan(None).unwrap() else { panic!("no slot") };
        loan.publish(b"").unwrap();
        let Delivered::Message(delivery) = receiver.receive(None).unwrap() else {
            panic!("no message")
        };
        drop(delivery);
    })
}

fn shares() -> Box<dyn FnMut()> {
    let private = [1.5f64; 10];
    let layout = Layout::contiguous(&[10], 8, Order::C).unwrap();
    let dtype = DType::parse("<f8").unwrap();
    Box::new(move || {
        // SAFETY: `private` lives on and has the ten elements of 8 bytes that `layout` describes.
        let shared = unsafe {
            Array::share(private.as_ptr().cast(), dtype.clone(), &layout, &Options::default())
        };
        drop(shared.unwrap());
    })
}

fn copies_out(array: &Array) -> Box<dyn FnMut()> {
    let array = array.clone();
    let mut bytes = [0; 512];
    Box::new(move || array.read_into(black_box(&mut bytes)).unwrap())
}
