//! Attacks in the names of members.

use shmarray::npy::{Npz, Source};

use super::making::{Member, archive, npy_of_bytes};
use super::{load_npz, npz_refusal};
use crate::support::scenario;

fn named(name: &[u8]) -> Member {
    Member::stored("", &npy_of_bytes(20)).both(|header| header.name = name.to_vec())
}

fn name_is_refused(name: &str) {
    let found = npz_refusal(&archive(&[named(name.as_bytes())]));
    assert_eq!(found, (Some(name.to_owned()), "name"));
}

/// No file is made by a name, and `numpy.savez` may have been given such a name.
#[test]
fn a_name_that_would_be_a_path_is_nothing_but_a_name() {
    scenario(|| {
        for name in [
            "/etc/passwd",
            "/group/a.npy",
            "C:\\a.npy",
            "\\\\host\\a.npy",
            "..",
            "../a.npy",
            "a/../../b.npy",
            "..\\a.npy",
            "/..",
            "./a.npy",
            "a//b.npy",
            ".npy",
        ] {
            let bytes = archive(&[named(name.as_bytes())]);
            let npz = Npz::open(Source::bytes(&bytes)).unwrap();
            assert_eq!((npz.find(name), npz.name(0)), (Some(0), name));
            assert_eq!(load_npz(Source::bytes(&bytes)).unwrap().len(), 1);
        }
    });
}

#[test]
fn an_empty_name_and_one_with_a_zero_byte() {
    scenario(|| {
        for name in ["", "\0", "a.npy\0", "a.npy\0.txt"] {
            name_is_refused(name);
        }
    });
}

#[test]
fn of_two_members_with_one_name_the_later_counts() {
    scenario(|| {
        let sized = |name: &[u8], count| {
            Member::stored("", &npy_of_bytes(count)).both(|header| header.name = name.to_vec())
        };
        let bytes = archive(&[sized(b"a.npy", 1), sized(b"b.npy", 2), sized(b"a.npy", 3)]);
        let counts: Vec<_> =
            load_npz(Source::bytes(&bytes)).unwrap().iter().map(|array| array.shape()[0]).collect();
        assert_eq!(counts, [3, 2]);
        // In UTF-8, and in the code page of old archives.
        let bytes = archive(&[sized("é.npy".as_bytes(), 1), sized(b"\x82.npy", 2)]);
        assert_eq!(load_npz(Source::bytes(&bytes)).unwrap()[0].shape()[0], 2);
        // The earlier one is not looked at, but may not lie in the later.
        let bytes = archive(&[named(b"a.npy").both(|header| header.crc ^= 1), named(b"a.npy")]);
        assert_eq!(load_npz(Source::bytes(&bytes)).unwrap().len(), 1);
        let inside = named(b"a.npy").listed(|header| header.offset = Some(0));
        let bytes = archive(&[named(b"a.npy"), inside]);
        assert_eq!(npz_refusal(&bytes), (Some("a.npy".to_owned()), "compressed size"));
        // `a` is found by its own name, and `a.npy`, too.
        let bytes = archive(&[named(b"a.npy"), named(b"a")]);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        assert_eq!((npz.find("a"), npz.find("a.npy"), npz.find("b")), (Some(1), Some(0), None));
    });
}

#[test]
fn a_name_of_65535_bytes() {
    scenario(|| {
        let long = [b'x'; 65_535];
        let bytes = archive(&[named(&long), named(b"a.npy"), named(&long[..65_534])]);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        assert_eq!(
            (npz.name(0).len(), npz.find("a"), npz.name(2).len()),
            (65_535, Some(1), 65_534)
        );
        assert_eq!(load_npz(Source::bytes(&bytes)).unwrap().len(), 3);
        let broken = named(&long).both(|header| header.crc ^= 1);
        assert_eq!(npz_refusal(&archive(&[broken])).1, "CRC");
    });
}

/// Old archives have names in code page 437, without extra fields behind the last member.
#[test]
fn a_name_that_is_not_utf_8() {
    scenario(|| {
        for flags in [0, 1 << 11] {
            let member = named(b"\x80\xE1\xFF.npy").both(|header| header.flags = flags);
            let bytes = archive(&[member.clone(), named(b"b.npy"), named(b"\xC7\xC8\xC9\xCA")]);
            let npz = Npz::open(Source::bytes(&bytes)).unwrap();
            assert_eq!(npz.name(0), "Çß\u{a0}.npy");
            assert_eq!(load_npz(Source::bytes(&bytes)).unwrap().len(), 3);
        }
    });
}

#[test]
fn as_many_members_as_a_directory_without_64_bits_can_count() {
    scenario(|| {
        let members: Vec<_> = (0..65_534).map(|at| Member::stored(&format!("{at}"), b"")).collect();
        let bytes = archive(&members);
        let npz = Npz::open(Source::bytes(&bytes)).unwrap();
        assert_eq!((npz.len(), npz.find("65533")), (65_534, Some(65_533)));
        let sizes = npz.each(&[1, 65_533], 2, |member| Ok(member.size_bytes())).unwrap();
        assert_eq!(sizes, [0, 0]);
    });
}
