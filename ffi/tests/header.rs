//! The committed header, the list of symbols and the exports say the same.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The sections of the header: the title of each, and the module that declares it.
const SECTIONS: [(&str, &str); 20] = [
    ("The library", "library"),
    ("Statuses and errors", "error"),
    ("Dtypes", "dtype"),
    ("Creation options", "options"),
    ("Arrays", "array"),
    ("Views of arrays", "view"),
    ("Tensors of other frameworks", "dlpack"),
    ("Waiting", "waiting"),
    ("Pipes and messages", "message"),
    ("Channels", "channel"),
    ("Channels: loans", "loan"),
    ("Channels: deliveries", "delivery"),
    ("Channels: ends that are handed over", "handed_over"),
    ("Segments", "segment"),
    ("NPY files", "npy"),
    ("NPZ files", "npz"),
    ("Lists: columns", "column"),
    ("Lists: builders of columns", "column_builder"),
    ("Lists", "list"),
    ("Dictionaries", "dict"),
];

fn generated() -> String {
    let template = std::fs::read_to_string(repository().join("ffi/shmarray.h.in")).unwrap();
    let sections = SECTIONS.map(|(title, module)| {
        format!("/* ---- {title} {} */\n\n{}", "-".repeat(88 - title.len()), declarations(module))
    });
    [
        ("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR")),
        ("@MINOR@", env!("CARGO_PKG_VERSION_MINOR")),
        ("@PATCH@", env!("CARGO_PKG_VERSION_PATCH")),
        ("@VERSION@", env!("CARGO_PKG_VERSION")),
        ("@DECLARATIONS@", &sections.join("\n\n")),
    ]
    .into_iter()
    .fold(template, |text, (name, value)| text.replace(name, value))
}

/// Returns what cbindgen writes of a module, laid out to be read.
fn declarations(module: &str) -> String {
    let ffi = repository().join("ffi");
    let config = cbindgen::Config::from_file(ffi.join("cbindgen.toml")).unwrap();
    let source = ffi.join("src").join(module).with_extension("rs");
    let bindings =
        cbindgen::Builder::new().with_src(source).with_config(config).generate().unwrap();
    let mut written = Vec::new();
    bindings.write(&mut written);
    let text = without_safety_sections(&String::from_utf8(written).unwrap());
    // Names of structs need no "struct", which cbindgen writes before those of the same module.
    let text =
        text.replace("struct shma_", "shma_").replace("typedef shma_", "typedef struct shma_");
    // [[nodiscard]] must come before other attributes.
    let text = text.replace("SHMA_API\nSHMA_NODISCARD\n", "SHMA_NODISCARD SHMA_API\n");
    let text = text.replace("SHMA_API SHMA_NODISCARD ", "SHMA_NODISCARD SHMA_API ");
    dense_constants(&short_comments(&text)).trim().to_owned()
}

/// `# Safety` sections are for Rust's readers: the header's own page says what pointers are.
fn without_safety_sections(text: &str) -> String {
    let mut lines = Vec::new();
    let mut safety = false;
    for line in text.lines() {
        safety = (safety || line.trim() == "* # Safety") && line.trim() != "*/";
        if !safety {
            lines.push(line);
        } else if lines.last().is_some_and(|last: &&str| last.trim() == "*") {
            lines.pop();
        }
    }
    lines.join("\n")
}

/// Puts a comment of one line on that line.
fn short_comments(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        lines.push(line.to_owned());
        let [.., first, comment, last] = lines.as_slice() else { continue };
        let words = comment.trim().strip_prefix("* ");
        let short = match (first.trim(), words, last.trim()) {
            ("/**", Some(words), "*/") => format!("{first} {words} */"),
            _ => continue,
        };
        if short.len() <= 100 {
            lines.truncate(lines.len() - 3);
            lines.push(short);
        }
    }
    lines.join("\n")
}

/// Puts constants before the structs that stand between them and their type, without empty lines
/// between them, and negative ones in parentheses.
fn dense_constants(text: &str) -> String {
    let mut paragraphs: Vec<String> = Vec::new();
    for paragraph in text.split("\n\n") {
        if !paragraph.contains("#define ") {
            paragraphs.push(paragraph.to_owned());
            continue;
        }
        let constant = match paragraph.rsplit_once(' ') {
            Some((name, number)) if number.starts_with('-') => format!("{name} ({number})"),
            _ => paragraph.to_owned(),
        };
        let structs = paragraphs
            .iter()
            .rev()
            .take_while(|text| {
                text.contains("typedef struct ") && text.ends_with(';') && text.contains('{')
            })
            .count();
        let place = paragraphs.len() - structs;
        match place.checked_sub(1).map(|last| &mut paragraphs[last]) {
            Some(last) if last.contains("#define ") => *last += &format!("\n{constant}"),
            _ => paragraphs.insert(place, constant),
        }
    }
    paragraphs.join("\n\n")
}

/// Names that follow a predicate, one from each line.
fn names(text: &str, name: impl Fn(&str) -> Option<&str>) -> BTreeSet<String> {
    text.lines().filter_map(|line| name(line).map(str::to_owned)).collect()
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let path = repository().join("include/shmarray.h");
    let generated = generated();
    if std::env::var_os("SHMA_BLESS").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "run SHMA_BLESS=1 cargo test -p shmarray-ffi --test header");
}

#[test]
fn every_compiler_reads_its_characters() {
    let header = generated();
    let other: Vec<&str> = header.lines().filter(|line| !line.is_ascii()).collect();
    assert_eq!(other, Vec::<&str>::new());
}

#[test]
fn each_module_that_exports_has_a_section() {
    let library = std::fs::read_to_string(repository().join("ffi/src/lib.rs")).unwrap();
    let exporting = names(&library, |line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    assert_eq!(exporting, SECTIONS.map(|(_, module)| module.to_owned()).into());
}

#[test]
fn the_list_of_symbols_is_that_of_the_header() {
    let map = std::fs::read_to_string(repository().join("include/shmarray.map")).unwrap();
    let listed =
        names(&map, |line| line.trim().strip_suffix(';').filter(|name| name.starts_with("shma_")));
    let header = generated();
    let declared: BTreeSet<String> = header
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '('))
        .filter_map(|word| word.split_once('(').map(|(name, _)| name.to_owned()))
        .filter(|name| {
            name.starts_with("shma_") && !header.contains(&format!("typedef struct {name}"))
        })
        .collect();
    // Words in comments are written without a parenthesis, so what remains are declarations.
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(declared, listed);
}
