//! Any bytes as an NPZ file: refused by an error that names the member and the field, or read in
//! the same way by every function, within a limit, from bytes that no two members share.
//!
//! The first byte of an input selects what is corrected before it is tried, so that mutations also
//! get behind the comparison of the CRC. The rest are the file's bytes:
//!
//! | bit | corrects |
//! |---|---|
//! | 0 | the CRC of each stored member in the directory, as far as the directory can be found |
//! | 1 | the sizes in the members' own headers, and their names, are those of the directory |
#![no_main]

use libfuzzer_sys::fuzz_target;
use shmarray::npy::{Member, Npz, Source};
use shmarray::{Error, Options};

/// The most bytes that deflated members may become.
const MOST_BYTES: u64 = 1 << 20;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;

fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let part = bytes.get(at..at.checked_add(size)?)?;
    Some(part.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let at = bytes.get(from..)?.windows(what.len()).position(|window| window == what)?;
    Some(from + at)
}

/// Makes one member's own header and its CRC what the bits ask for.
fn correct_member(bits: u8, bytes: &mut [u8], entry: usize) -> Option<()> {
    let offset = number(bytes, entry + 42, 4)?;
    let method = number(bytes, entry + 10, 2)?;
    let compressed = number(bytes, entry + 20, 4)?;
    let name = number(bytes, entry + 28, 2)?;
    if bits & 2 != 0 {
        let facts = bytes.get(entry + 6..entry + 30)?.to_vec();
        bytes.get_mut(offset + 4..offset + 28)?.copy_from_slice(&facts);
        let name = bytes.get(entry + ENTRY_BYTES..)?.get(..name)?.to_vec();
        bytes.get_mut(offset + LOCAL_BYTES..)?.get_mut(..name.len())?.copy_from_slice(&name);
    }
    let lengths = number(bytes, offset + 26, 2)? + number(bytes, offset + 28, 2)?;
    let data = bytes.get(offset + LOCAL_BYTES + lengths..)?.get(..compressed)?;
    if bits & 1 != 0 && method == 0 {
        let crc = crc32fast::hash(data).to_le_bytes();
        bytes.get_mut(entry + 16..entry + 20)?.copy_from_slice(&crc);
    }
    Some(())
}

fn corrected(bits: u8, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while bits & 3 != 0
        && let Some(entry) = find(&bytes, b"PK\x01\x02", at)
    {
        let _ = correct_member(bits, &mut bytes, entry);
        at = entry + 4;
    }
    bytes
}

/// An error about a member names it, and is short unless its name is long.
fn check_error(error: &Error, name: Option<&str>) {
    match error {
        Error::InvalidFile { member, field, reason, .. } => {
            assert!(!field.is_empty() && reason.len() < 1000, "{field}: {reason}");
            assert!(name.is_none() || member.as_deref() == name, "{error}, and it was {name:?}");
        }
        Error::InvalidDType { .. } => {}
        error => panic!("not the file is at fault: {error}"),
    }
}

/// Every way to read a member finds the same.
fn check_member(npz: &Npz<'_>, member: &Member<'_>) {
    let read = member.read();
    let loaded = member.load(&Options::new());
    let verified = member.verify();
    assert_eq!(read.is_ok(), verified.is_ok(), "{:?}, {:?}", read.err(), verified.err());
    for error in [read.as_ref().err(), loaded.as_ref().err()].into_iter().flatten() {
        check_error(error, Some(member.name()));
    }
    let Ok(whole) = read else { return assert!(loaded.is_err(), "broken data was loaded") };
    assert_eq!(whole.len() as u64, member.size_bytes());
    if let Some(at) = member.stored_at() {
        let mut direct = vec![0; whole.len()];
        let source = npz.source();
        assert!(at + member.size_bytes() <= source.size_bytes());
        rawzip::ReaderAt::read_exact_at(source, &mut direct, at).unwrap();
        assert_eq!(direct, whole);
    }
    let elements = match member.header() {
        Some(header) if header.has_objects() => return assert!(loaded.is_err()),
        Some(header) => &whole[header.data_offset() as usize..][..header.data_bytes() as usize],
        None => &whole[..],
    };
    let mut into = vec![0; elements.len()];
    member.read_into(&mut into).unwrap();
    assert_eq!(into, elements);
    loaded.unwrap();
}

/// No two stored members share a byte.
fn check_apart(members: &[Member<'_>]) {
    let stored =
        members.iter().filter_map(|member| Some((member.stored_at()?, member.size_bytes())));
    let mut parts: Vec<_> = stored.filter(|(_, size)| *size > 0).collect();
    parts.sort_unstable();
    for pair in parts.windows(2) {
        assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((bits, bytes)) = input.split_first() else { return };
    let bytes = corrected(*bits, bytes);
    let npz = match Npz::open(Source::bytes(&bytes)) {
        Ok(npz) => npz.with_max_bytes(MOST_BYTES),
        Err(error) => return check_error(&error, None),
    };
    let mut members = Vec::new();
    for index in 0..npz.len() {
        assert_eq!(npz.find(npz.name(index)), Some(index));
        match npz.member(index) {
            Ok(member) => members.push(member),
            Err(error) => check_error(&error, Some(npz.name(index))),
        }
    }
    members.iter().for_each(|member| check_member(&npz, member));
    check_apart(&members);
});
