//! `shmarray show`: one array's values and their statistics.

use std::io::Write;

use anyhow::Result;
use half::f16;
use num_complex::Complex;
use shmarray::{Access, Array, Element, Number, TypeCode};

/// The number of values printed; of a larger array, the first ones are.
const SHOWN: u64 = 100;

pub(crate) fn print(handle_or_name: &str, out: &mut dyn Write) -> Result<()> {
    let array = Array::attach(handle_or_name, Access::ReadOnly)?;
    writeln!(out, "dtype    {} ({})", array.dtype().name(), array.dtype().text())?;
    writeln!(out, "shape    {:?}", array.shape())?;
    writeln!(out, "strides  {:?} bytes, offset {}", array.strides(), array.layout().offset)?;
    writeln!(
        out,
        "segment  {}, generation {}",
        array.descriptor().segment,
        array.descriptor().generation
    )?;
    print_values(&array, out)?;
    print_statistics(&array, out)
}

fn print_values(array: &Array, out: &mut dyn Write) -> Result<()> {
    match array.dtype().code() {
        TypeCode::Bool => values::<bool>(array, out),
        TypeCode::Int8 => values::<i8>(array, out),
        TypeCode::Int16 => values::<i16>(array, out),
        TypeCode::Int32 => values::<i32>(array, out),
        TypeCode::Int64 => values::<i64>(array, out),
        TypeCode::UInt8 => values::<u8>(array, out),
        TypeCode::UInt16 => values::<u16>(array, out),
        TypeCode::UInt32 => values::<u32>(array, out),
        TypeCode::UInt64 => values::<u64>(array, out),
        TypeCode::Float16 => values::<f16>(array, out),
        TypeCode::Float32 => values::<f32>(array, out),
        TypeCode::Float64 => values::<f64>(array, out),
        TypeCode::Complex64 => values::<Complex<f32>>(array, out),
        TypeCode::Complex128 => values::<Complex<f64>>(array, out),
        TypeCode::Opaque => bytes(array, out),
    }
}

/// Prints minimum, mean and maximum. Complex numbers have only a mean, opaque elements none of
/// these.
fn print_statistics(array: &Array, out: &mut dyn Write) -> Result<()> {
    let code = array.dtype().code();
    if array.layout().is_empty() || code == TypeCode::Opaque {
        return Ok(());
    }
    let ordered = !matches!(code, TypeCode::Complex64 | TypeCode::Complex128);
    if ordered {
        writeln!(out, "minimum  {}", as_element(code, array.min()?))?;
    }
    writeln!(out, "mean     {}", array.mean()?)?;
    if ordered {
        writeln!(out, "maximum  {}", as_element(code, array.max()?))?;
    }
    Ok(())
}

/// Returns the number with as many digits as `print_values` prints for that dtype.
fn as_element(code: TypeCode, number: Number) -> String {
    match (code, number) {
        (TypeCode::Float16 | TypeCode::Float32, Number::Float(float)) => (float as f32).to_string(),
        _ => number.to_string(),
    }
}

fn values<T: Element + std::fmt::Display>(array: &Array, out: &mut dyn Write) -> Result<()> {
    let count = array.layout().len();
    let shown = (0..count.min(SHOWN)).map(|k| Ok(array.get::<T>(&index(array, k))?.to_string()));
    let shown = shown.collect::<Result<Vec<_>>>()?;
    let more = if count > SHOWN { format!(" … ({count} values)") } else { String::new() };
    writeln!(out, "values   {}{more}", shown.join(" "))?;
    Ok(())
}

fn bytes(array: &Array, out: &mut dyn Write) -> Result<()> {
    let shown = array.to_bytes().into_iter().take(SHOWN as usize).map(|byte| format!("{byte:02x}"));
    writeln!(out, "bytes    {}", shown.collect::<Vec<_>>().join(" "))?;
    Ok(())
}

/// Returns the indices of the element at position k in C order.
fn index(array: &Array, mut k: u64) -> Vec<u64> {
    let mut index = vec![0; array.shape().len()];
    for (at, count) in index.iter_mut().zip(array.shape()).rev() {
        (*at, k) = (k % count, k / count);
    }
    index
}
