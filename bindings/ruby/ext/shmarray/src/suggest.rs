//! Guesses the dtype that was meant by a name that is none.

use shmarray::DType;

/// Names in C, Java, Ruby's pack, NumPy and Numo, and the names of the same dtypes here.
const WORDS: &[(&str, &str)] = &[
    ("boolean", "bool"),
    ("byte", "uint8"),
    ("char", "int8"),
    ("uchar", "uint8"),
    ("short", "int16"),
    ("ushort", "uint16"),
    ("int", "int32"),
    ("integer", "int32"),
    ("uint", "uint32"),
    ("long", "int64"),
    ("ulong", "uint64"),
    ("half", "float16"),
    ("single", "float32"),
    ("sfloat", "float32"),
    ("float", "float64"),
    ("double", "float64"),
    ("dfloat", "float64"),
    ("scomplex", "complex64"),
    ("complex", "complex128"),
    ("dcomplex", "complex128"),
    ("?", "bool"),
    ("b", "int8"),
    ("i", "int32"),
    ("u", "uint32"),
    ("f", "float32"),
    ("d", "float64"),
    ("c", "complex128"),
];

/// Returns `"; did you mean :int32?"`, or nothing, for the `inspect` of a Symbol, a String or a
/// class.
pub(crate) fn suggestion(inspected: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '?';
    let word = inspected.strip_prefix("Numo::").unwrap_or(inspected).to_ascii_lowercase();
    let word = word.chars().filter(|&c| plain(c)).collect::<String>();
    meant(&word).map_or(String::new(), |name| format!("; did you mean :{name}?"))
}

fn meant(word: &str) -> Option<&'static str> {
    let translated = WORDS.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours);
    let row = |dtype: &&DType| {
        dtype.name() == word || dtype.text().trim_start_matches(['<', '|']) == word
    };
    translated.or_else(|| DType::ALL.iter().find(row).map(DType::name)).or_else(|| nearest(word))
}

/// Returns the name with the smallest edit distance: at most two, less for a short word.
fn nearest(word: &str) -> Option<&'static str> {
    let most = match word.len() {
        0..=2 => 0,
        3..=4 => 1,
        _ => 2,
    };
    let names = DType::ALL.iter().map(|dtype| {
        let name = dtype.name();
        (changes(word, name), name.len().abs_diff(word.len()), name)
    });
    names.filter(|(changes, ..)| *changes <= most).min().map(|(.., name)| name)
}

/// Returns Levenshtein's distance: the letters to insert, to delete or to replace.
fn changes(from: &str, to: &str) -> usize {
    let mut row = (0..=to.len()).collect::<Vec<_>>();
    for (done, left) in from.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = done + 1;
        for (at, right) in to.bytes().enumerate() {
            let exchanged = corner + usize::from(left != right);
            corner = row[at + 1];
            row[at + 1] = exchanged.min(corner + 1).min(row[at] + 1);
        }
    }
    row[to.len()]
}
