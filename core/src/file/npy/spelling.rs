//! The type strings that NumPy reads beyond those that it writes: characters (`d`), names
//! (`float`), repeated items (`3i4`, `(2,3)f8`) and several with commas between them (`i4,f4`).
//!
//! Source: NumPy, "Data type objects (dtype)", "Specifying and constructing data types", and
//! `numpy._core._internal._commastring`.

use crate::value::dtype::DType;

/// The type of each character, as on a 64-bit Unix.
const CHARACTERS: [(&str, &str); 26] = [
    ("?", "b1"),
    ("b", "i1"),
    ("B", "u1"),
    ("h", "i2"),
    ("H", "u2"),
    ("i", "i4"),
    ("I", "u4"),
    ("l", "i8"),
    ("L", "u8"),
    ("q", "i8"),
    ("Q", "u8"),
    ("n", "i8"),
    ("N", "u8"),
    ("p", "i8"),
    ("P", "u8"),
    ("e", "f2"),
    ("f", "f4"),
    ("d", "f8"),
    ("g", "f16"),
    ("F", "c8"),
    ("D", "c16"),
    ("G", "c32"),
    ("S", "S0"),
    ("U", "U0"),
    ("V", "V0"),
    ("c", "S1"),
];

/// The type of each name that is not one of a dtype of the table.
const NAMES: [(&str, &str); 34] = [
    ("bool_", "b1"),
    ("byte", "i1"),
    ("ubyte", "u1"),
    ("short", "i2"),
    ("ushort", "u2"),
    ("intc", "i4"),
    ("uintc", "u4"),
    ("int", "i8"),
    ("int_", "i8"),
    ("intp", "i8"),
    ("long", "i8"),
    ("longlong", "i8"),
    ("uint", "u8"),
    ("uintp", "u8"),
    ("ulong", "u8"),
    ("ulonglong", "u8"),
    ("half", "f2"),
    ("single", "f4"),
    ("float", "f8"),
    ("double", "f8"),
    ("longdouble", "f16"),
    ("float128", "f16"),
    ("csingle", "c8"),
    ("complex", "c16"),
    ("cdouble", "c16"),
    ("clongdouble", "c32"),
    ("complex256", "c32"),
    ("str", "U0"),
    ("str_", "U0"),
    ("unicode", "U0"),
    ("bytes", "S0"),
    ("bytes_", "S0"),
    ("void", "V0"),
    ("object", "O"),
];

/// One item of a type string.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SpelledItem {
    /// The type string that a handle has.
    pub(super) text: String,
    pub(super) is_object: bool,
    /// The shape, if the item is repeated.
    pub(super) shape: Option<Vec<u64>>,
}

/// What a type string describes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Spelled {
    One(SpelledItem),
    /// Fields, which are named `f0`, `f1` and so on.
    Fields(Vec<SpelledItem>),
}

/// Returns what a type string describes. `None` if its items cannot be told apart; whether there is
/// such a type is not checked.
pub(super) fn read(text: &str) -> Option<Spelled> {
    let is_one = !text.contains(',') && !text.starts_with(|first: char| first.is_ascii_digit());
    if is_one && !text.starts_with('(') {
        return Some(Spelled::One(item(text)));
    }
    let mut items = Vec::new();
    let mut rest = text;
    while !rest.trim().is_empty() {
        let (item, after) = repeated(rest)?;
        items.push(item);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None if after.is_empty() && items.len() == 1 => return items.pop().map(Spelled::One),
            None if after.is_empty() => rest = after,
            None => return None,
        }
    }
    (!items.is_empty()).then_some(Spelled::Fields(items))
}

/// Reads an item, which may be repeated, up to the comma behind it.
fn repeated(text: &str) -> Option<(SpelledItem, &str)> {
    let (before, rest) = split_order(text.trim_start());
    let (shape, rest) = shape(rest.trim_start())?;
    let (order, rest) = split_order(rest.trim_start());
    if !before.is_empty() && !order.is_empty() && before != order {
        return None;
    }
    let mut is_unit = false; // a comma may stand in `M8[…]`
    let end = rest.find(|character| {
        is_unit = (is_unit || character == '[') && character != ']';
        character == ',' && !is_unit
    });
    let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
    let text = [before, if before.is_empty() { order } else { "" }, name.trim_end()].concat();
    Some((SpelledItem { shape, ..item(&text) }, after))
}

fn split_order(text: &str) -> (&str, &str) {
    text.split_at(usize::from(text.starts_with(['<', '>', '=', '|'])))
}

/// Reads how often an item is repeated: `3`, `(3,)`, `(2, 3)`, or nothing.
fn shape(text: &str) -> Option<(Option<Vec<u64>>, &str)> {
    if let Some(inside) = text.strip_prefix('(') {
        let (counts, rest) = inside.split_once(')')?;
        let counts = counts.split(',').map(str::trim).filter(|count| !count.is_empty());
        let counts: Vec<u64> = counts.map(str::parse).collect::<Result<_, _>>().ok()?;
        return Some(((!counts.is_empty()).then_some(counts), rest));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match &text[..digits] {
        "" | "1" => Some((None, &text[digits..])),
        count => Some((Some(vec![count.parse().ok()?]), &text[digits..])),
    }
}

/// Returns one item as a handle has it.
fn item(text: &str) -> SpelledItem {
    let named = |names: &[(&str, &'static str)], wanted: &str| {
        names.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text)
    };
    if DType::ALL.iter().any(|row| row.is_by_name() && row.text() == text) {
        return SpelledItem { text: text.to_owned(), is_object: false, shape: None };
    }
    let (order, rest) = split_order(text);
    let in_table = || DType::ALL.iter().find(|dtype| dtype.name() == text).map(|row| row.text());
    let dated = |name, short| rest.strip_prefix(name).map(|unit| format!("{short}{unit}"));
    let text = named(&CHARACTERS, rest)
        .or_else(|| named(&NAMES, text))
        .map(str::to_owned)
        .or_else(|| in_table().map(|text| text[1..].to_owned()))
        .or_else(|| dated("datetime64", "M8"))
        .or_else(|| dated("timedelta64", "m8"))
        .unwrap_or_else(|| match rest {
            "M" | "m" => format!("{rest}8"),
            "O" | "O4" | "O8" => "O".to_owned(),
            _ => rest.to_owned(),
        });
    let is_object = text == "O";
    let is_bytes = matches!(&*text, "b1" | "i1" | "u1") || text.starts_with(['S', 'V', 'O']);
    let order = match order {
        _ if is_bytes => '|',
        ">" => '>',
        _ => '<',
    };
    SpelledItem { text: format!("{order}{text}"), is_object, shape: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Option<String> {
        let item = |item: &SpelledItem| match &item.shape {
            Some(shape) => format!("{}{shape:?}", item.text),
            None => item.text.clone(),
        };
        read(text).map(|spelled| match spelled {
            Spelled::One(one) => item(&one),
            Spelled::Fields(fields) => fields.iter().map(item).collect::<Vec<_>>().join(" "),
        })
    }

    #[test]
    fn every_spelling_becomes_numpys_own() {
        for (text, expected) in [
            ("<f", "<f4"),
            (">d", ">f8"),
            ("l", "<i8"),
            ("?", "|b1"),
            ("|b", "|i1"),
            ("=H", "<u2"),
            ("float", "<f8"),
            ("float64", "<f8"),
            ("bool", "|b1"),
            ("uint8", "|u1"),
            ("str", "<U0"),
            ("M", "<M8"),
            (">datetime64[25s]", ">M8[25s]"),
            ("timedelta64", "<m8"),
            ("object", "|O"),
            ("|O8", "|O"),
            ("|i4", "<i4"),
            ("int4", "int4"),
            ("2bfloat16, f4", "bfloat16[2] <f4"),
            ("3i4", "<i4[3]"),
            ("1i4", "<i4"),
            ("(2, 3)>f8", ">f8[2, 3]"),
            (">(2,)f8", ">f8[2]"),
            ("i4,f4", "<i4 <f4"),
            ("i4,", "<i4"),
            (" >i4 , 2S5 ,(2,3)d, M8[2s]", ">i4 |S5[2] <f8[2, 3] <M8[2s]"),
        ] {
            assert_eq!(spelled(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["<3>i4", "(2", "(a)i4", ",", "i4 (", ""] {
            let refused = spelled(text).is_none_or(|found| DType::parse(&found).is_err());
            assert!(refused, "{text}");
        }
    }
}
