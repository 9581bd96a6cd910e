//! Files of other programs read as NumPy reads them, or are refused by an error that says what is
//! wrong and where. `npy_corpus/origins.toml` says who wrote them.
#![cfg(not(miri))] // real files

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde_json::Value;
use shmarray::npy::{
    Contents, Elements, Member, Npy, NpyHeader, Npz, NpzOptions, Source, write_npy, write_npz,
};
use shmarray::{Array, Error, Options, Order};
use tempfile::TempDir;

use crate::support::scenario;

/// The fields that an error may name, by the files that have them at fault. The first pattern that
/// is a part of the name counts.
const FIELDS: &[(&str, &[&str])] = &[
    ("cut-at-0", &["magic"]),
    ("cut-at-5", &["magic"]),
    ("cut-at-7", &["version"]),
    ("cut-at-9", &["header length"]),
    ("cut-at-64", &["header"]),
    ("cut-at-1", &["header", "data"]),
    ("magic", &["magic"]),
    ("version-", &["version"]),
    ("length-beyond-end", &["header length"]),
    ("shape-larger-than-file", &["data"]),
    ("shape-", &["shape", "header"]),
    ("dtype-", &["descr", "header"]),
    ("descr-", &["descr"]),
    ("order-a-number", &["fortran_order"]),
    ("key-missing", &["fortran_order"]),
    ("doubled-key", &["descr"]),
    ("zip-checksum", &["CRC"]),
    ("zip-deflate-broken", &["data"]),
    ("zip-size-too-small", &["size"]),
    ("zip-local-name-differs", &["name"]),
    ("zip-", &["archive", "directory", "compressed size"]),
    ("no-fields", &["descr"]),
    ("npy-matlab-one-dimension", &["shape"]),
    ("npyjs-strings", &["data"]),
    ("infozip-comment-like-an-end", &["archive"]),
    ("handmade-", &["header"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/behaviour/npy_corpus")
}

/// Returns a new folder with the files of the corpus.
fn unpacked() -> TempDir {
    let place = TempDir::new().unwrap();
    let packed = fs::File::open(folder().join("files.tar.gz")).unwrap();
    tar::Archive::new(GzDecoder::new(packed)).unpack(place.path()).unwrap();
    place
}

/// Returns the files of the corpus, each with what it must read as.
fn expected() -> BTreeMap<String, Value> {
    let text = fs::read_to_string(folder().join("expected.json")).unwrap();
    let files: Vec<Value> = serde_json::from_str(&text).unwrap();
    files.into_iter().map(|says| (says["file"].as_str().unwrap().to_owned(), says)).collect()
}

/// Does something with each file, read from its path and from memory. Reports all that differ.
fn each_file(ending: &str, check: impl Fn(&str, &Value, Source<'_>) -> Result<(), String>) {
    let mut differ = Vec::new();
    let mut count = 0;
    let files = unpacked();
    for (name, says) in expected().iter().filter(|(name, _)| name.ends_with(ending)) {
        let path = files.path().join(name);
        let bytes = fs::read(&path).unwrap();
        for source in [Source::file(&path).unwrap(), Source::bytes(&bytes)] {
            differ.extend(check(name, says, source).err().map(|says| format!("{name}: {says}")));
        }
        count += 1;
    }
    assert!(differ.is_empty(), "of {count} files:\n{}", differ.join("\n"));
    assert!(count > 50, "{count} files are too few");
}

fn is(what: &str, found: impl Into<Value>, says: &Value) -> Result<(), String> {
    let found = found.into();
    if found == *says { Ok(()) } else { Err(format!("{what} is {found}, expected {says}")) }
}

/// Returns the `descr` as a header of NumPy's has it.
fn descr_of(header: &NpyHeader) -> String {
    let bytes = header.to_bytes().unwrap();
    let text: String = match bytes[6] {
        3 => String::from_utf8(bytes[12..].to_vec()).unwrap(),
        1 => bytes[10..].iter().map(|byte| char::from(*byte)).collect(),
        _ => bytes[12..].iter().map(|byte| char::from(*byte)).collect(),
    };
    let descr = text.split_once("'descr': ").unwrap().1;
    let descr = descr.rsplit_once(", 'fortran_order': ").unwrap().0;
    if descr.starts_with('[') { descr.to_owned() } else { descr.trim_matches('\'').to_owned() }
}

/// Whether an array is what the corpus says. `stored` are its elements as they lie in the file.
fn agrees(says: &Value, header: &NpyHeader, array: &Array, stored: &[u8]) -> Result<(), String> {
    let itemsize = array.dtype().itemsize();
    let is_c = header.layout().is_contiguous(itemsize, Order::C);
    is("descr", descr_of(header), &says["descr"])?;
    is("shape", array.shape(), &says["shape"])?;
    is("order", if is_c { "C" } else { "F" }, &says["order"])?;
    is("crc32", crc32fast::hash(&array.to_bytes().unwrap()), &says["crc32"])?;
    if says.get("crc32_stored").is_none() {
        return Ok(());
    }
    is("crc32_stored", crc32fast::hash(stored), &says["crc32_stored"])
}

/// Returns how a file or a member may be refused. An archive may be if each of its members is.
fn refusal_of(says: &Value) -> Option<&str> {
    let of_all = says["members"].as_object().and_then(|members| {
        members.values().all(|says| says["refused"] == "broken").then_some("broken")
    });
    says["refused"].as_str().or(says["either"].as_bool().map(|_| "broken")).or(of_all)
}

/// Whether an error is the expected one, and says where the fault is.
fn is_refused(says: &Value, error: &Error, name: &str, member: Option<&str>) -> Result<(), String> {
    let text = error.to_string();
    let unexpected = || Err(format!("{member:?} is refused: {text}"));
    let Some(refused) = refusal_of(says) else { return unexpected() };
    let (field, is_there) = match error {
        Error::InvalidFile { file, member: found, field, .. } => {
            let is_here = file.ends_with(name) || file == "in memory";
            (*field, is_here && (member.is_none() || found.as_deref() == member))
        }
        Error::InvalidDType { reason, .. } => {
            let is_here = reason.contains(name) || reason.contains("in memory");
            ("object", is_here && member.is_none_or(|member| reason.contains(member)))
        }
        _ => ("", false),
    };
    let fields = match refused {
        "object" => &["object"][..],
        "method" => &["compression method"],
        "encrypted" => &["flags"],
        _ => FIELDS.iter().find(|(part, _)| name.contains(part)).map_or(&[][..], |(_, all)| all),
    };
    if is_there && fields.contains(&field) { Ok(()) } else { unexpected() }
}

/// What follows when a file was read that may be refused.
fn is_either(says: &Value) -> Result<(), String> {
    says["either"].as_bool().map(|_| ()).ok_or_else(|| "it is not refused".to_owned())
}

fn loaded(npy: &Npy<'_>) -> Result<(Array, Vec<u8>), Error> {
    let array = npy.load(&Options::new())?;
    let mut stored = vec![0; npy.header().data_bytes() as usize];
    npy.read_into(&mut stored)?;
    Ok((array, stored))
}

#[test]
fn every_npy_file_of_the_corpus_reads_as_it_should() {
    scenario(|| {
        each_file(".npy", |name, says, source| {
            let npy = match Npy::open(source) {
                Ok(npy) => npy,
                Err(error) => return is_refused(says, &error, name, None),
            };
            match loaded(&npy) {
                Ok(_) if says.get("descr").is_none() => is_either(says),
                Ok((array, stored)) => {
                    let behind = npy.source().size_bytes() - npy.header().data_offset();
                    let behind = behind - npy.header().data_bytes();
                    is("behind", behind, says.get("behind").unwrap_or(&0.into()))?;
                    agrees(says, npy.header(), &array, &stored)
                }
                Err(error) => is_refused(says, &error, name, None),
            }
        });
    });
}

/// Whether a member is what the corpus says.
fn member_agrees(says: &Value, member: &Member<'_>) -> Result<Result<(), String>, Error> {
    let array = member.load(&Options::new())?;
    member.verify()?;
    let whole = member.read()?;
    let Some(header) = member.header() else {
        let agrees = is("bytes", whole.len(), &says["bytes"])
            .and_then(|()| is("crc32", crc32fast::hash(&whole), &says["crc32"]));
        assert_eq!(array.to_bytes().unwrap(), whole);
        return Ok(agrees);
    };
    let stored = &whole[header.data_offset() as usize..][..header.data_bytes() as usize];
    let mut read = vec![0; stored.len()];
    member.read_into(&mut read)?;
    assert_eq!(read, stored);
    if says.get("refused").is_some() {
        return Ok(is_either(says));
    }
    Ok(agrees(says, header, &array, stored))
}

fn archive_agrees(name: &str, says: &Value, npz: &Npz<'_>) -> Result<(), String> {
    let names: Vec<_> = (0..npz.len()).map(|index| npz.name(index)).collect();
    let files: Vec<_> =
        names.iter().map(|name| name.strip_suffix(".npy").unwrap_or(name)).collect();
    is("files", files, &says["files"])?;
    for (key, says) in says["members"].as_object().unwrap() {
        let Some(index) = npz.find(key) else { return Err(format!("{key:?} is not found")) };
        match npz.member(index).and_then(|member| member_agrees(says, &member)) {
            Ok(agrees) => agrees.map_err(|differs| format!("{key}: {differs}"))?,
            Err(error) => is_refused(says, &error, name, Some(npz.name(index)))?,
        }
    }
    Ok(())
}

#[test]
fn every_npz_file_of_the_corpus_reads_as_it_should() {
    scenario(|| {
        each_file(".npz", |name, says, source| match Npz::open(source) {
            Ok(_) if says.get("files").is_none() => is_either(says),
            Ok(npz) => archive_agrees(name, says, &npz),
            Err(error) => is_refused(says, &error, name, None),
        });
    });
}

/// Whether a name is of a pattern, in which `*` is any text and `[!c]` another character than `c`.
fn is_of(name: &str, pattern: &str) -> bool {
    let first = name.chars().next();
    let rest = name.get(1..).unwrap_or_default();
    match pattern.as_bytes() {
        [] => name.is_empty(),
        [b'*', ..] => (0..=name.len()).any(|at| is_of(&name[at..], &pattern[1..])),
        [b'[', b'!', not, b']', ..] => {
            first.is_some_and(|first| first != char::from(*not)) && is_of(rest, &pattern[4..])
        }
        [same, ..] => first == Some(char::from(*same)) && is_of(rest, &pattern[1..]),
    }
}

#[test]
fn every_file_of_the_corpus_has_one_origin_and_is_expected() {
    let origins = fs::read_to_string(folder().join("origins.toml")).unwrap();
    let tables = origins.lines().filter_map(|line| line.strip_prefix("[\"")?.strip_suffix("\"]"));
    let patterns: Vec<_> = tables.collect();
    let place = unpacked();
    let files = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<_> = files.map(|name| name.into_string().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, expected().into_keys().collect::<Vec<_>>());
    for name in files {
        let origins = patterns.iter().filter(|pattern| is_of(&name, pattern)).count();
        assert_eq!(origins, 1, "{name}");
    }
}

/// The files that NumPy wrote otherwise than by `numpy.save` and `savez`.
const NOT_AS_SAVED: &[&str] = &["version-", "three-in-a-row", "streamed", "deflated", "empties"];

fn written_again(source: Source<'_>) -> Result<Vec<u8>, Error> {
    let array = Npy::open(source)?.load(&Options::new())?;
    let mut bytes = Vec::new();
    write_npy(&mut bytes, &Elements::of(&array)?)?;
    Ok(bytes)
}

fn archive_written_again(source: Source<'_>) -> Result<Vec<u8>, Error> {
    let npz = Npz::open(source)?;
    let load = |index| npz.load(index, &Options::new());
    let arrays = (0..npz.len()).map(load).collect::<Result<Vec<_>, _>>()?;
    let contents = |array| Elements::of(array).map(Contents::Elements);
    let members = arrays.iter().enumerate().map(|(at, array)| Ok((npz.name(at), contents(array)?)));
    let mut file = Cursor::new(Vec::new());
    write_npz(&mut file, &members.collect::<Result<Vec<_>, Error>>()?, NpzOptions::default())?;
    Ok(file.into_inner())
}

#[test]
fn files_of_numpy_are_written_again_byte_for_byte() {
    scenario(|| {
        let mut differ = Vec::new();
        let mut count = 0;
        let files = unpacked();
        let all = expected().into_keys().filter(|name| name.starts_with("numpy-py313-"));
        for name in all.filter(|name| NOT_AS_SAVED.iter().all(|part| !name.contains(part))) {
            let path = files.path().join(&name);
            let written = if name.ends_with(".npy") {
                written_again(Source::file(&path).unwrap())
            } else {
                archive_written_again(Source::file(&path).unwrap())
            };
            match written {
                Ok(bytes) if bytes == fs::read(&path).unwrap() => count += 1,
                Ok(_) => differ.push(name),
                Err(error) => assert!(
                    matches!(error, Error::InvalidDType { .. } | Error::InvalidFile { .. }),
                    "{name}: {error}"
                ),
            }
        }
        assert_eq!(differ, [""; 0], "{count} are the same");
        assert!(count > 50, "{count} files are too few");
    });
}
