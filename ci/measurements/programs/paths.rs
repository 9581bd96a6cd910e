//! Measures creating and attaching in Rust: prints the seconds of one call as a line of JSON.
//!
//! `paths create BYTES COUNT`; `paths attach COUNT < handles, one a line`
#![allow(missing_docs)]

use std::time::Instant;

use shmarray::{Access, Array, DType, Options, Result};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    match arguments[0].as_str() {
        "create" => println!("{:.9}", create_row(number(1), number(2))?),
        "attach" => println!("{}", attach_rows(number(1))?),
        other => panic!("no such row: {other}"),
    }
    Ok(())
}

/// The seconds of one call of `count`.
fn each(count: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed().as_secs_f64() / count as f64)
}

/// Not cleared: clearing is a memset of the size.
fn create(bytes: u64, count: u64) -> Result<()> {
    let dtype = DType::parse("|u1")?;
    let options = Options::new().uninitialized(true);
    for _ in 0..count {
        drop(Array::create(dtype.clone(), &[bytes], &options)?);
    }
    Ok(())
}

fn create_row(bytes: u64, count: u64) -> Result<f64> {
    create(bytes, count / 10 + 1)?;
    each(count, || create(bytes, count))
}

fn attach(handle: &str) -> Result<Array> {
    Array::attach(handle, Access::ReadWrite)
}

fn attach_all(handles: &[String], arrays: &mut Vec<Array>) -> Result<f64> {
    each(handles.len() as u64, || {
        handles.iter().try_for_each(|handle| attach(handle).map(|array| arrays.push(array)))
    })
}

/// The first handle is attached before the clock starts: it pays for what a process does once.
fn attach_rows(count: u64) -> Result<String> {
    let handles: Vec<String> = std::io::stdin().lines().map(|line| line.expect("text")).collect();
    let _kept = attach(&handles[0])?;
    let mut arrays = Vec::with_capacity(handles.len());
    let cold = attach_all(&handles[1..], &mut arrays)?;
    let held = each(count, || (0..count).try_for_each(|_| attach(&handles[1]).map(drop)))?;
    arrays.clear();
    let again = attach_all(&handles[1..], &mut arrays)?;
    Ok(format!(r#"{{"cold": {cold:.9}, "held": {held:.9}, "again": {again:.9}}}"#))
}
