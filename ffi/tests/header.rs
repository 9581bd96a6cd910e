//! The committed header, the list of symbols and the exports say the same.
#![allow(missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn generated() -> String {
    let ffi = repository().join("ffi");
    let config = cbindgen::Config::from_file(ffi.join("cbindgen.toml")).unwrap();
    let bindings =
        cbindgen::Builder::new().with_crate(&ffi).with_config(config).generate().unwrap();
    let mut header = Vec::new();
    bindings.write(&mut header);
    // `# Safety` sections are for Rust's readers: the header's own page says what pointers are.
    let text = String::from_utf8(header).unwrap();
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
    lines.join("\n") + "\n"
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
