//! The Rust driver of the conformance runner: one command a line, one answer a line.
#![allow(missing_docs)]

use std::io::{BufRead, Write};

use half::f16;
use num_complex::Complex;
use shmarray::{Access, Array, DType, Element, Error, Options, Order, TypeCode};

fn main() {
    let mut driver = Driver { array: None };
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
            "close" => {
                self.array = None;
                Ok("ok".to_owned())
            }
            _ => self.of_array(command),
        }
    }

    fn of_array(&self, command: &str) -> Result<String, Error> {
        let array = self.array.as_ref().expect("the runner attaches first");
        match command {
            "handle" => Ok(format!("ok {}", array.handle())),
            "bytes" => Ok(format!("ok {}", hex(&array.to_bytes()))),
            "compare" => with_elements(array, Compare),
            "write" => match with_elements(array, WriteLast) {
                Err(Error::ReadOnly) => Ok(format!("refused {}", Error::ReadOnly)),
                done => done,
            },
            "written" => with_elements(array, Written),
            _ => panic!("no such command: {command}"),
        }
    }

    fn create(&mut self, rest: &str) -> Result<String, Error> {
        let (dtype, layout) = rest.split_once(' ').expect("a dtype and a layout");
        let array = make(DType::parse(dtype)?, layout)?;
        with_elements(&array, Fill)?;
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
}

fn make(dtype: DType, layout: &str) -> Result<Array, Error> {
    let create = |shape: &[u64], order| {
        Array::create(dtype, shape, &Options { order, ..Options::default() })
    };
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

/// An operation on all elements of an array, whatever their type.
trait Visit {
    fn visit<T: Pattern>(self, array: &Array) -> Result<String, Error>;
}

fn with_elements(array: &Array, visit: impl Visit) -> Result<String, Error> {
    match array.dtype().code() {
        TypeCode::Bool => visit.visit::<bool>(array),
        TypeCode::Int8 => visit.visit::<i8>(array),
        TypeCode::Int16 => visit.visit::<i16>(array),
        TypeCode::Int32 => visit.visit::<i32>(array),
        TypeCode::Int64 => visit.visit::<i64>(array),
        TypeCode::UInt8 => visit.visit::<u8>(array),
        TypeCode::UInt16 => visit.visit::<u16>(array),
        TypeCode::UInt32 => visit.visit::<u32>(array),
        TypeCode::UInt64 => visit.visit::<u64>(array),
        TypeCode::Float16 => visit.visit::<f16>(array),
        TypeCode::Float32 => visit.visit::<f32>(array),
        TypeCode::Float64 => visit.visit::<f64>(array),
        TypeCode::Complex64 => visit.visit::<Complex<f32>>(array),
        TypeCode::Complex128 => visit.visit::<Complex<f64>>(array),
        TypeCode::Opaque => panic!("items without a meaning have no elements"),
    }
}

struct Fill;
impl Visit for Fill {
    fn visit<T: Pattern>(self, array: &Array) -> Result<String, Error> {
        for (k, index) in indices(array.shape()).enumerate() {
            array.set(&index, T::pattern(k as i64))?;
        }
        Ok("ok".to_owned())
    }
}

struct Compare;
impl Visit for Compare {
    fn visit<T: Pattern>(self, array: &Array) -> Result<String, Error> {
        let mut count = 0;
        for (k, index) in indices(array.shape()).enumerate() {
            let found: T = array.get(&index)?;
            if found != T::pattern(k as i64) {
                return Ok(format!("bad {k} {found:?}"));
            }
            count += 1;
        }
        Ok(format!("ok {count}"))
    }
}

struct WriteLast;
impl Visit for WriteLast {
    fn visit<T: Pattern>(self, array: &Array) -> Result<String, Error> {
        array.set(&last(array), T::pattern(100))?;
        Ok("ok".to_owned())
    }
}

struct Written;
impl Visit for Written {
    fn visit<T: Pattern>(self, array: &Array) -> Result<String, Error> {
        let found: T = array.get(&last(array))?;
        match found == T::pattern(100) {
            true => Ok("ok".to_owned()),
            false => Ok(format!("bad {} {found:?}", array.layout().len() - 1)),
        }
    }
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

/// The value that stands in element k.
trait Pattern: Element + PartialEq + std::fmt::Debug {
    fn pattern(k: i64) -> Self;
}

macro_rules! patterns {
    ($($type:ty: $k:ident => $value:expr;)*) => {$(
        impl Pattern for $type {
            fn pattern($k: i64) -> Self { $value }
        }
    )*};
}

patterns! {
    bool: k => k % 3 == 0;
    i8: k => (7 * k + 3 - 20) as i8;
    i16: k => (7 * k + 3 - 20) as i16;
    i32: k => (7 * k + 3 - 20) as i32;
    i64: k => 7 * k + 3 - 20;
    u8: k => (7 * k + 3) as u8;
    u16: k => (7 * k + 3) as u16;
    u32: k => (7 * k + 3) as u32;
    u64: k => (7 * k + 3) as u64;
    f16: k => f16::from_f64(k as f64 / 2.0 - 3.25);
    f32: k => k as f32 / 2.0 - 3.25;
    f64: k => k as f64 / 2.0 - 3.25;
    Complex<f32>: k => Complex::new(f32::pattern(k), 2.5 - k as f32);
    Complex<f64>: k => Complex::new(f64::pattern(k), 2.5 - k as f64);
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
