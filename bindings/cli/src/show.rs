//! `shmarray show`: one array's values and their statistics, the columns of a list, or a channel.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use shmarray::{Access, Array, Column, DType, DTypeKind, Dict, List, Number};

#[cfg(target_os = "linux")]
use crate::channel::{self, Before};
use crate::picture::Picture;

/// The number of values printed; of a larger array, the first ones are.
const SHOWN: u64 = 100;

/// What is asked of the command.
pub(crate) struct Show {
    pub(crate) handle_or_name: String,
    /// The file for a picture of the array.
    pub(crate) png: Option<PathBuf>,
    /// Whether to draw the array.
    pub(crate) draws: bool,
}

pub(crate) fn print(show: &Show, out: &mut dyn Write) -> Result<()> {
    let array = match Array::attach(&show.handle_or_name, Access::ReadOnly) {
        Ok(array) => array,
        Err(error) => return print_channel(&show.handle_or_name, error, out),
    };
    if let Some(path) = &show.png {
        let cannot = || format!("cannot write {}", path.display());
        Picture::of(&array)?.write_png(path).with_context(cannot)?;
    }
    print_array(array.clone(), out)?;
    if show.draws { Picture::of(&array)?.draw(out) } else { Ok(()) }
}

/// Prints the channel that has the name; else fails with the error that it is no array's.
#[cfg(target_os = "linux")]
fn print_channel(name: &str, no_array: shmarray::Error, out: &mut dyn Write) -> Result<()> {
    match shmarray::ChannelStats::read(name) {
        Ok(stats) => {
            let seen = channel::seen(&stats, None, &mut Before::now());
            channel::print(&seen, out)
        }
        Err(_) => Err(no_array.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn print_channel(_name: &str, no_array: shmarray::Error, _out: &mut dyn Write) -> Result<()> {
    Err(no_array.into())
}

fn print_array(array: Array, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "dtype    {} ({})", array.dtype().name(), array.dtype().text())?;
    writeln!(out, "shape    {:?}", array.shape())?;
    writeln!(out, "strides  {:?} bytes, offset {}", array.strides(), array.layout().offset)?;
    writeln!(
        out,
        "segment  {}, generation {}",
        array.descriptor().segment,
        array.descriptor().generation
    )?;
    match array.dtype().name() {
        "list" => print_column("items", List::of(array)?.items(), 0, out),
        "dict" => {
            let dict = Dict::of(array)?;
            print_column("keys", dict.keys(), 0, out)?;
            print_column("values", dict.values(), 0, out)
        }
        _ => {
            print_values(&array, out)?;
            print_statistics(&array, out)
        }
    }
}

/// Prints what the items of a column are, and below it its children.
fn print_column(name: &str, column: Column<'_>, depth: usize, out: &mut dyn Write) -> Result<()> {
    let kind = format!("{:?}", column.kind()).to_lowercase();
    write!(out, "{:indent$}{name}  {} {kind}", "", column.len(), indent = 2 * depth)?;
    if let Some(dtype) = column.dtype() {
        write!(out, " of {}", dtype.text())?;
    }
    match column.common_shape() {
        Some(shape) => write!(out, ", shape {shape:?}")?,
        None if column.ndim() > 0 => write!(out, ", dimensions {}", column.ndim())?,
        None => {}
    }
    if column.nulls() > 0 {
        write!(out, ", {} None", column.nulls())?;
    }
    writeln!(out)?;
    for child in column.children() {
        let name = if child.name().is_empty() { "items" } else { child.name() };
        print_column(name, child, depth + 1, out)?;
    }
    Ok(())
}

fn print_values(array: &Array, out: &mut dyn Write) -> Result<()> {
    match array.dtype().kind() {
        Some(_) => values(array, out),
        None => bytes(array, out),
    }
}

/// Prints minimum, mean and maximum. Complex numbers have only a mean, opaque elements none of
/// these.
fn print_statistics(array: &Array, out: &mut dyn Write) -> Result<()> {
    let dtype = array.dtype();
    let Some(kind) = dtype.kind().filter(|_| !array.layout().is_empty()) else {
        return Ok(());
    };
    let ordered = kind != DTypeKind::Complex;
    if ordered {
        writeln!(out, "minimum  {}", as_element(dtype, array.min()?))?;
    }
    writeln!(out, "mean     {}", array.mean()?)?;
    if ordered {
        writeln!(out, "maximum  {}", as_element(dtype, array.max()?))?;
    }
    Ok(())
}

/// Returns the number with as many digits as an element has: those of `f32` for `float32` and for
/// the parts of `complex64`.
fn as_element(dtype: &DType, number: Number) -> String {
    match number {
        Number::Float(float) if dtype.itemsize() <= 4 => (float as f32).to_string(),
        Number::Complex(re, im) if dtype.itemsize() <= 8 => {
            format!("{}{:+}i", re as f32, im as f32)
        }
        _ => number.to_string(),
    }
}

fn values(array: &Array, out: &mut dyn Write) -> Result<()> {
    let count = array.layout().len();
    let shown = (0..count.min(SHOWN))
        .map(|k| Ok(as_element(array.dtype(), array.get_number(&index(array, k))?)));
    let shown = shown.collect::<Result<Vec<_>>>()?;
    let more = if count > SHOWN { format!(" … ({count} values)") } else { String::new() };
    writeln!(out, "values   {}{more}", shown.join(" "))?;
    Ok(())
}

fn bytes(array: &Array, out: &mut dyn Write) -> Result<()> {
    let items = SHOWN.div_ceil(array.dtype().itemsize().max(1)).min(array.layout().len());
    let mut shown = Vec::new();
    for k in 0..items {
        let first = index(array, k);
        let item = first.iter().try_fold(array.clone(), |array, at| array.select(0, *at as i64))?;
        shown.extend(item.to_bytes()?.into_iter().map(|byte| format!("{byte:02x}")));
    }
    shown.truncate(SHOWN as usize);
    writeln!(out, "bytes    {}", shown.join(" "))?;
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
