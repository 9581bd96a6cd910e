//! An array as a picture: a PNG file, or drawn in the terminal.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Result, bail};
use shmarray::{Array, DTypeKind, Number};

/// The widest picture in a terminal, in columns. A character shows two pixels, one above the other.
const MOST_COLUMNS: usize = 80;

/// The pixels of an array of `[height, width]` or `[height, width, 1, 3 or 4]` numbers.
///
/// Bytes are what they are. Other numbers are scaled, so that the least is 0 and the greatest 255;
/// those that are not finite are 0.
pub(crate) struct Picture {
    height: usize,
    width: usize,
    /// 1, gray; 3, red, green and blue; 4, the opacity besides.
    channels: usize,
    bytes: Vec<u8>,
}

impl Picture {
    pub(crate) fn of(array: &Array) -> Result<Self> {
        let (height, width, channels) = match *array.shape() {
            [height, width] => (height, width, 1),
            [height, width, channels @ (1 | 3 | 4)] => (height, width, channels),
            _ => bail!(
                "a picture has the shape [height, width] or [height, width, channels] with 1, 3 \
                 or 4 channels, and the array has {:?}",
                array.shape()
            ),
        };
        let is_real = array.dtype().kind().is_some_and(|kind| kind != DTypeKind::Complex);
        if !is_real || array.layout().is_empty() {
            bail!("a picture has pixels of real numbers, and the array has none");
        }
        let numbers = numbers(array)?;
        let bytes = match array.dtype().name() {
            "uint8" => numbers.iter().map(|number| *number as u8).collect(),
            _ => scaled(&numbers),
        };
        let [height, width, channels] = [height, width, channels].map(|count| count as usize);
        Ok(Self { height, width, channels, bytes })
    }

    pub(crate) fn write_png(&self, path: &Path) -> Result<()> {
        let file = BufWriter::new(File::create(path)?);
        let mut encoder = png::Encoder::new(file, self.width.try_into()?, self.height.try_into()?);
        encoder.set_color(match self.channels {
            1 => png::ColorType::Grayscale,
            3 => png::ColorType::Rgb,
            _ => png::ColorType::Rgba,
        });
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.bytes)?;
        writer.finish()?;
        Ok(())
    }

    /// Draws upper half blocks, whose foreground is the upper pixel, in 24-bit colours.
    pub(crate) fn draw(&self, out: &mut dyn Write) -> Result<()> {
        let step = self.width.div_ceil(MOST_COLUMNS);
        for y in (0..self.height).step_by(2 * step) {
            for x in (0..self.width).step_by(step) {
                let [red, green, blue] = self.pixel(y, x);
                write!(out, "\x1b[38;2;{red};{green};{blue}m")?;
                if y + step < self.height {
                    let [red, green, blue] = self.pixel(y + step, x);
                    write!(out, "\x1b[48;2;{red};{green};{blue}m")?;
                }
                write!(out, "▀")?;
            }
            writeln!(out, "\x1b[0m")?;
        }
        Ok(())
    }

    fn pixel(&self, y: usize, x: usize) -> [u8; 3] {
        let at = (y * self.width + x) * self.channels;
        match self.channels {
            1 => [self.bytes[at]; 3],
            _ => [self.bytes[at], self.bytes[at + 1], self.bytes[at + 2]],
        }
    }
}

/// Returns the elements in C order.
fn numbers(array: &Array) -> Result<Vec<f64>> {
    let mut index = vec![0; array.shape().len()];
    let mut numbers = Vec::new();
    for _ in 0..array.layout().len() {
        numbers.push(as_f64(array.get_number(&index)?));
        for (at, count) in index.iter_mut().zip(array.shape()).rev() {
            *at = (*at + 1) % count;
            if *at > 0 {
                break;
            }
        }
    }
    Ok(numbers)
}

fn as_f64(number: Number) -> f64 {
    match number {
        Number::Bool(is_true) => f64::from(u8::from(is_true)),
        Number::Integer(integer) => integer as f64,
        Number::Float(float) => float,
        _ => f64::NAN,
    }
}

/// Returns the numbers, with the least as 0 and the greatest as 255.
fn scaled(numbers: &[f64]) -> Vec<u8> {
    let finite = || numbers.iter().copied().filter(|number| number.is_finite());
    let least = finite().fold(f64::INFINITY, f64::min);
    let range = finite().fold(f64::NEG_INFINITY, f64::max) - least;
    let scale = if range > 0.0 { 255.0 / range } else { 0.0 };
    numbers.iter().map(|number| ((number - least) * scale).round() as u8).collect()
}
