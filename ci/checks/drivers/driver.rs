//! The Rust driver of the conformance runner: one command a line, one answer a line.
#![allow(missing_docs)]

use std::io::{BufRead, Write};

use shmarray::{
    Access, Array, Channel, ChannelOptions, DType, DTypeKind, Delivered, Error, Loaned, Number,
    Options, Order,
};

fn main() {
    let mut driver = Driver { array: None, channel: None };
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("standard input is text");
        let (command, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = driver
            .answer(command, rest)
            .unwrap_or_else(|error| format!("error {:?} {error}", error.kind()));
        println!("{answer}");
        std::io::stdout().flush().expect("the runner reads");
    }
}

struct Driver {
    array: Option<Array>,
    channel: Option<Channel>,
}

impl Driver {
    fn answer(&mut self, command: &str, rest: &str) -> Result<String, Error> {
        match command {
            "hello" => Ok(format!("ok rust {}", shmarray::VERSION)),
            "dtypes" => {
                Ok(DType::ALL.iter().fold("ok".to_owned(), |list, dtype| list + " " + dtype.text()))
            }
            "create" => self.create(rest),
            "attach" => self.attach(rest),
            "publish" => self.publish(rest),
            "receive" => receive(rest),
            "close" => {
                (self.array, self.channel) = (None, None);
                Ok("ok".to_owned())
            }
            _ => self.of_array(command),
        }
    }

    fn of_array(&self, command: &str) -> Result<String, Error> {
        let array = self.array.as_ref().expect("the runner attaches first");
        match command {
            "handle" => Ok(format!("ok {}", array.handle())),
            "bytes" => Ok(format!("ok {}", hex(&array.to_bytes()?))),
            "compare" => compare(array),
            "write" => write_last(array),
            "written" => written(array),
            _ => panic!("no such command: {command}"),
        }
    }

    fn create(&mut self, rest: &str) -> Result<String, Error> {
        let (dtype, layout) = rest.split_once(' ').expect("a dtype and a layout");
        let array = make(DType::parse(dtype)?, layout)?;
        fill(&array)?;
        let handle = array.handle();
        self.array = Some(array);
        Ok(format!("ok {handle}"))
    }

    fn attach(&mut self, rest: &str) -> Result<String, Error> {
        let (access, handle) = rest.split_once(' ').expect("an access and a handle");
        let access = if access == "ro" { Access::ReadOnly } else { Access::ReadWrite };
        let array = self.array.insert(Array::attach(handle, access)?);
        Ok(format!("ok {} {} {}", array.dtype().text(), list(array.shape()), list(array.strides())))
    }

    fn publish(&mut self, rest: &str) -> Result<String, Error> {
        let (name, dtype) = rest.split_once(' ').expect("a name and a dtype");
        self.channel = None;
        let options = ChannelOptions::new();
        let channel = Channel::create(name, DType::parse(dtype)?, &[2, 3, 4], &options)?;
        match channel.loan(None)? {
            Loaned::Loan(loan) => {
                fill(loan.array())?;
                loan.publish(dtype.as_bytes())?;
            }
            other => panic!("no loan of a new channel: {other:?}"),
        }
        let handle = channel.handle();
        self.channel = Some(channel);
        Ok(format!("ok {handle}"))
    }
}

fn receive(handle_or_name: &str) -> Result<String, Error> {
    match Channel::open(handle_or_name, true)?.receive(None)? {
        Delivered::Message(view) => {
            Ok(format!("{} {}", compare(view.array())?, String::from_utf8_lossy(view.meta())))
        }
        other => panic!("no message: {other:?}"),
    }
}

fn make(dtype: DType, layout: &str) -> Result<Array, Error> {
    let create = |shape: &[u64], order| Array::create(dtype, shape, &Options::new().order(order));
    match layout {
        "c" => create(&[2, 3, 4], Order::C),
        "f" => create(&[2, 3, 4], Order::F),
        "strided" => create(&[4, 6, 4], Order::C)?.slice(0, None, None, 2)?.slice(1, None, None, 2),
        "reversed" => {
            create(&[2, 3, 4], Order::C)?.slice(0, None, None, -1)?.slice(2, None, None, -1)
        }
        "transposed" => Ok(create(&[4, 3, 2], Order::C)?.transpose()),
        "scalar" => create(&[], Order::C),
        "empty" => create(&[0, 3], Order::C),
        _ => panic!("no such layout: {layout}"),
    }
}

fn fill(array: &Array) -> Result<(), Error> {
    let mut positions = indices(array.shape()).enumerate();
    positions.try_for_each(|(k, index)| array.set_number(&index, pattern(array.dtype(), k as i64)))
}

fn compare(array: &Array) -> Result<String, Error> {
    for (k, index) in indices(array.shape()).enumerate() {
        let found = array.get_number(&index)?;
        if found != pattern(array.dtype(), k as i64) {
            return Ok(format!("bad {k} {found}"));
        }
    }
    Ok(format!("ok {}", array.layout().len()))
}

fn write_last(array: &Array) -> Result<String, Error> {
    match array.set_number(&last(array), pattern(array.dtype(), 100)) {
        Err(Error::ReadOnly) => Ok(format!("refused {}", Error::ReadOnly)),
        done => done.map(|()| "ok".to_owned()),
    }
}

fn written(array: &Array) -> Result<String, Error> {
    let found = array.get_number(&last(array))?;
    if found == pattern(array.dtype(), 100) {
        Ok("ok".to_owned())
    } else {
        Ok(format!("bad {} {found}", array.layout().len() - 1))
    }
}

/// Returns the value of element k.
fn pattern(dtype: &DType, k: i64) -> Number {
    let bits = 8 * dtype.itemsize();
    let real = k as f64 / 2.0 - 3.25;
    match dtype.kind() {
        Some(DTypeKind::Bool) => Number::Bool(k % 3 == 0),
        Some(DTypeKind::Signed) => Number::Integer(wrap(7 * k + 3 - 20, bits)),
        Some(DTypeKind::Unsigned) => Number::Integer(wrap(7 * k + 3, bits).rem_euclid(1 << bits)),
        Some(DTypeKind::Float) => Number::Float(real),
        Some(DTypeKind::Complex) => Number::Complex(real, 2.5 - k as f64),
        Some(kind) => panic!("no value of the line protocol for {kind:?}"),
        None => panic!("items without a meaning have no elements"),
    }
}

/// Returns the signed number of so many bits that has the lowest bits of `whole`.
fn wrap(whole: i64, bits: u64) -> i128 {
    let unused = 128 - bits;
    i128::from(whole) << unused >> unused
}

fn last(array: &Array) -> Vec<u64> {
    array.shape().iter().map(|count| count - 1).collect()
}

/// All indices in C order.
fn indices(shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let shape = shape.to_vec();
    (0..shape.iter().product()).map(move |k: u64| {
        let mut rest = k;
        let mut index: Vec<u64> =
            shape.iter().rev().map(|count| (rest % count, rest /= count).0).collect();
        index.reverse();
        index
    })
}

fn hex(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        _ => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn list<T: ToString>(numbers: &[T]) -> String {
    match numbers {
        [] => "-".to_owned(),
        _ => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
    }
}
