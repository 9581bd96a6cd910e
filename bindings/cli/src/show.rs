//! `shmarray show`: one array's values and their statistics.

use anyhow::Result;
use half::f16;
use num_complex::Complex;
use shmarray::{Access, Array, Element, TypeCode};

/// Values printed; of a larger array only the first.
const SHOWN: u64 = 100;

pub(crate) fn print(handle_or_name: &str) -> Result<()> {
    let array = Array::attach(handle_or_name, Access::ReadOnly)?;
    println!("dtype    {} ({})", array.dtype().name(), array.dtype().text());
    println!("shape    {:?}", array.shape());
    println!("strides  {:?} bytes, offset {}", array.strides(), array.layout().offset);
    println!("segment  {}, generation {}", array.handle().segment, array.handle().generation);
    match array.dtype().code() {
        TypeCode::Bool => real::<bool>(&array, |value| f64::from(u8::from(value))),
        TypeCode::Int8 => real::<i8>(&array, f64::from),
        TypeCode::Int16 => real::<i16>(&array, f64::from),
        TypeCode::Int32 => real::<i32>(&array, f64::from),
        TypeCode::Int64 => real::<i64>(&array, |value| value as f64),
        TypeCode::UInt8 => real::<u8>(&array, f64::from),
        TypeCode::UInt16 => real::<u16>(&array, f64::from),
        TypeCode::UInt32 => real::<u32>(&array, f64::from),
        TypeCode::UInt64 => real::<u64>(&array, |value| value as f64),
        TypeCode::Float16 => real::<f16>(&array, f64::from),
        TypeCode::Float32 => real::<f32>(&array, f64::from),
        TypeCode::Float64 => real::<f64>(&array, |value| value),
        TypeCode::Complex64 => values::<Complex<f32>>(&array),
        TypeCode::Complex128 => values::<Complex<f64>>(&array),
        TypeCode::Opaque => bytes(&array),
    }
}

/// Values and statistics of what has an order.
fn real<T: Element + std::fmt::Display>(array: &Array, number: fn(T) -> f64) -> Result<()> {
    values::<T>(array)?;
    let (mut low, mut high, mut sum) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    for k in 0..array.layout().len() {
        let value = number(array.get::<T>(&index(array, k))?);
        (low, high, sum) = (low.min(value), high.max(value), sum + value);
    }
    if !array.layout().is_empty() {
        println!("minimum  {low}\nmean     {}\nmaximum  {high}", sum / array.layout().len() as f64);
    }
    Ok(())
}

fn values<T: Element + std::fmt::Display>(array: &Array) -> Result<()> {
    let count = array.layout().len();
    let shown = (0..count.min(SHOWN)).map(|k| Ok(array.get::<T>(&index(array, k))?.to_string()));
    let shown = shown.collect::<Result<Vec<_>>>()?;
    let more = if count > SHOWN { format!(" … ({count} values)") } else { String::new() };
    println!("values   {}{more}", shown.join(" "));
    Ok(())
}

fn bytes(array: &Array) -> Result<()> {
    let shown = array.to_bytes().into_iter().take(SHOWN as usize).map(|byte| format!("{byte:02x}"));
    println!("bytes    {}", shown.collect::<Vec<_>>().join(" "));
    Ok(())
}

/// The indices of the element that is number k in C order.
fn index(array: &Array, mut k: u64) -> Vec<u64> {
    let mut index = vec![0; array.shape().len()];
    for (at, count) in index.iter_mut().zip(array.shape()).rev() {
        (*at, k) = (k % count, k / count);
    }
    index
}
