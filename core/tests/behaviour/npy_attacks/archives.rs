//! Attacks in the records of an archive.

use std::io::Cursor;

use shmarray::Array;
use shmarray::npy::{Contents, Elements, Npz, NpzOptions, Source, write_npz};

use super::making::{Member, archive, archive_with_end, deflated, npy, npy_of_bytes, zip64};
use super::{field_of_a, load_npy, load_npz, npz_refusal, refusal};
use crate::support::scenario;

fn a_stored() -> Member {
    Member::stored("a.npy", &npy_of_bytes(300))
}

fn a_deflated() -> Member {
    Member::deflated("a.npy", &npy_of_bytes(300))
}

/// Returns an archive as this library and NumPy write it.
fn saved(is_deflated: bool) -> Vec<u8> {
    let arrays = [40, 700].map(|count| load_npy(Source::bytes(&npy_of_bytes(count))).unwrap());
    let contents = |array| Contents::Elements(Elements::of(array).unwrap());
    let members = [("a.npy", contents(&arrays[0])), ("b.npy", contents(&arrays[1]))];
    let mut file = Cursor::new(Vec::new());
    let options = NpzOptions { is_deflated, threads: 1, align: 0 };
    write_npz(&mut file, &members, options).unwrap();
    file.into_inner()
}

fn bytes_of(arrays: &[Array]) -> Vec<Vec<u8>> {
    arrays.iter().map(|array| array.to_bytes().unwrap()).collect()
}

#[test]
fn an_archive_that_is_cut_at_any_byte() {
    scenario(|| {
        for whole in [saved(false), saved(true), archive(&[a_stored(), a_deflated()])] {
            for length in 0..whole.len() {
                npz_refusal(&whole[..length]);
            }
        }
    });
}

/// The CRC protects what is loaded; what a header says is protected by saying it twice.
#[test]
fn an_archive_of_which_any_byte_is_changed() {
    scenario(|| {
        for whole in [saved(false), saved(true)] {
            let expected = bytes_of(&load_npz(Source::bytes(&whole)).unwrap());
            for (at, bits) in (0..whole.len()).flat_map(|at| [1, 4, 0x80, 0xFF].map(|b| (at, b))) {
                let mut bytes = whole.clone();
                bytes[at] ^= bits;
                if let Ok(arrays) = load_npz(Source::bytes(&bytes)) {
                    assert_eq!(bytes_of(&arrays), expected, "byte {at} is changed by {bits:#x}");
                }
            }
        }
    });
}

#[test]
fn a_crc_that_is_wrong() {
    scenario(|| {
        for member in [a_stored(), a_deflated()] {
            let bytes = archive(&[member.clone().both(|header| header.crc ^= 1)]);
            assert_eq!(field_of_a(&bytes), "CRC");
            let npz = Npz::open(Source::bytes(&bytes)).unwrap();
            let member = npz.member(0).unwrap();
            for error in [member.verify().unwrap_err(), member.read().unwrap_err()] {
                assert!(error.to_string().contains(r#"member "a.npy": CRC: "#), "{error}");
            }
        }
    });
}

#[test]
fn data_that_was_changed() {
    scenario(|| {
        let mut stored = a_stored();
        stored.data[200] ^= 1;
        assert_eq!(field_of_a(&archive(&[stored])), "CRC");
        let expected = load_npy(Source::bytes(&npy_of_bytes(300))).unwrap().to_bytes().unwrap();
        for at in 0..a_deflated().data.len() {
            let mut member = a_deflated();
            member.data[at] ^= 0x40;
            // Data may be deflated in many ways, so a change need not be one of what it becomes.
            match load_npz(Source::bytes(&archive(&[member]))) {
                Ok(arrays) => assert_eq!(arrays[0].to_bytes().unwrap(), expected, "byte {at}"),
                Err(error) => assert_eq!(refusal(error).member.as_deref(), Some("a.npy")),
            }
        }
    });
}

#[test]
fn a_member_that_is_encrypted() {
    scenario(|| {
        for flag in [1, 1 << 6, 1 << 13] {
            for member in [a_stored(), a_deflated()] {
                assert_eq!(
                    field_of_a(&archive(&[member.clone().both(|h| h.flags |= flag)])),
                    "flags"
                );
                assert_eq!(
                    field_of_a(&archive(&[member.clone().own(|h| h.flags |= flag)])),
                    "flags"
                );
                assert_eq!(field_of_a(&archive(&[member.listed(|h| h.flags |= flag)])), "flags");
            }
        }
    });
}

#[test]
fn a_method_that_is_not_known() {
    scenario(|| {
        for method in (1..=99).chain([0x100, 0x108, 0xFFFF]).filter(|method| *method != 8) {
            let bytes = archive(&[a_deflated().both(|header| header.method = method)]);
            // Deflated bytes are nothing to bzip2, LZMA and Zstandard.
            let is_known = [12, 14, 93].contains(&method);
            let field = if is_known { "data" } else { "compression method" };
            assert_eq!(field_of_a(&bytes), field, "{method}");
        }
    });
}

#[test]
fn a_member_whose_own_header_differs_from_the_directory() {
    scenario(|| {
        for member in [a_stored(), a_deflated()] {
            let field = |member: Member| field_of_a(&archive(&[member]));
            assert_eq!(field(member.clone().own(|header| header.name = b"b.npy".to_vec())), "name");
            assert_eq!(field(member.clone().own(|header| header.size += 1)), "size");
            assert_eq!(field(member.clone().own(|h| h.compressed -= 1)), "compressed size");
            assert_eq!(field(member.clone().own(|h| h.method ^= 8)), "compression method");
            let mut no_header = member.clone();
            no_header.own.name.clear(); // its data is where a longer name would be
            assert_eq!(field(no_header), "compressed size");
        }
    });
}

#[test]
fn a_size_that_is_smaller_or_larger_than_the_data() {
    scenario(|| {
        let field = |member: Member| field_of_a(&archive(&[member]));
        for less in [1, 100, 360] {
            assert_eq!(field(a_stored().both(|header| header.size -= less)), "size");
            let field = field(a_deflated().both(|header| header.size -= less));
            assert!(["size", "data", "header"].contains(&field), "{field}");
        }
        for more in [1, 10_000, 1 << 30] {
            assert_eq!(field(a_stored().both(|header| header.size += more)), "size");
            assert_eq!(field(a_deflated().both(|header| header.size += more)), "size");
        }
        for compressed in [0, 1, a_deflated().data.len() as u32 - 1] {
            let member = a_deflated().both(|header| header.compressed = compressed);
            assert!(["compressed size", "size"].contains(&field(member)));
        }
    });
}

#[test]
fn deflated_data_that_does_not_end_where_it_should() {
    scenario(|| {
        let with_data = |data: Vec<u8>| {
            let mut member = a_deflated().both(|header| header.compressed = data.len() as u32);
            member.data = data;
            field_of_a(&archive(&[member]))
        };
        let whole = a_deflated().data;
        for length in 0..whole.len() {
            assert_eq!(with_data(whole[..length].to_vec()), "compressed size", "{length} bytes");
        }
        assert_eq!(with_data([&whole[..], b"more"].concat()), "compressed size");
        assert_eq!(with_data([&whole[..], &whole[..]].concat()), "compressed size");
        assert_eq!(with_data(vec![0xFF; 400]), "data");
        assert_eq!(with_data(deflated(&npy_of_bytes(300)[..200])), "size");
    });
}

/// The directory has the sizes, so nothing else is believed.
#[test]
fn a_data_descriptor_that_lies() {
    scenario(|| {
        for member in [a_stored(), a_deflated()] {
            for descriptor in
                [&b"PK\x07\x08"[..], &[0xFF; 12], b"PK\x07\x08\0\0\0\0\0\0\0\0\0\0\0\0"]
            {
                let mut streamed = member.clone().both(|header| header.flags |= 8);
                streamed.own.crc = 0;
                streamed.own.size = 0;
                streamed.own.compressed = 0;
                streamed.behind = descriptor.to_vec();
                let arrays = load_npz(Source::bytes(&archive(&[
                    streamed,
                    member.clone().both(|h| {
                        h.name = b"b.npy".to_vec();
                    }),
                ])));
                assert_eq!(arrays.unwrap().len(), 2);
            }
            // Without the flag the member's own header must be right.
            let member = member.own(|header| (header.size, header.compressed) = (0, 0));
            assert_eq!(field_of_a(&archive(&[member])), "size");
        }
    });
}

#[test]
fn members_that_overlap() {
    scenario(|| {
        let b = Member::stored("b.npy", &npy_of_bytes(100));
        for member in [a_stored(), a_deflated()] {
            // The second lies where the first does.
            let other = b.clone().listed(|header| header.offset = Some(0));
            let (named, field) = npz_refusal(&archive(&[member.clone(), other]));
            assert!(["a.npy", "b.npy"].contains(&named.as_deref().unwrap()));
            assert_eq!(field, "compressed size");
            // The second lies inside the first.
            let other = b.clone().listed(|header| header.offset = Some(60));
            assert_eq!(field_of_a(&archive(&[member.clone(), other])), "compressed size");
            // The first reaches into the second.
            let longer =
                member.clone().both(|h| (h.compressed, h.size) = (h.compressed + 9, h.size + 9));
            assert_eq!(field_of_a(&archive(&[longer, b.clone()])), "compressed size");
            // The extra fields of its own header move it into the second.
            let moved = member.clone().own(|header| header.extra = vec![0; 40]);
            let mut bytes = archive(&[moved.clone(), b.clone()]);
            let extra = 30 + 5;
            bytes.splice(extra..extra + 40, []);
            let bytes = shifted_directory(bytes, 40);
            assert_eq!(npz_refusal(&bytes).1, "compressed size");
        }
    });
}

/// Lowers all offsets of a directory of two members by that many bytes.
fn shifted_directory(mut bytes: Vec<u8>, by: u32) -> Vec<u8> {
    let end = bytes.len() - 22;
    let lower = |bytes: &mut [u8], at: usize| {
        let number = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) - by;
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    };
    lower(&mut bytes, end + 16);
    lower(&mut bytes, end - 51 + 42); // an entry with a name of five bytes has 51
    bytes
}

#[test]
fn a_member_behind_or_in_the_directory_or_outside_of_the_archive() {
    scenario(|| {
        let start = archive(&[a_stored()]).len() as u32 - 22 - 51;
        for offset in [start - 1, start, start + 10, start + 73, 1 << 30, u32::MAX - 1] {
            let member = a_stored().listed(|header| header.offset = Some(offset));
            assert_eq!(
                field_of_a(&archive(std::slice::from_ref(&member))),
                "compressed size",
                "{offset}"
            );
            let two = archive(&[member, Member::stored("b.npy", b"")]);
            assert_eq!(field_of_a(&two), "compressed size", "{offset}");
        }
        for offset in [1, 30, start - 200] {
            let member = a_stored().listed(|header| header.offset = Some(offset));
            npz_refusal(&archive(&[member]));
        }
    });
}

#[test]
fn a_directory_that_is_elsewhere_or_of_another_size() {
    scenario(|| {
        let members = [a_stored(), Member::stored("b.npy", &npy_of_bytes(1))];
        for (size, offset) in [(0, 1 << 30), (1 << 30, 0), (0, 3), (102, 1), (0, u32::MAX)] {
            npz_refusal(&archive_with_end(&members, |mut end| {
                (end.size, end.offset) = (size, offset);
                end
            }));
        }
    });
}

#[test]
fn a_directory_that_tells_of_more_or_fewer_members() {
    scenario(|| {
        for count in [0, 1, 3, 0x7FFF, 0xFFFF] {
            let members = [a_stored(), Member::stored("b.npy", b"b")];
            let bytes = archive_with_end(&members, |mut end| {
                end.count = count;
                end
            });
            assert_eq!(npz_refusal(&bytes), (None, "directory"), "{count}");
        }
    });
}

#[test]
fn numbers_of_64_bits_that_lie() {
    scenario(|| {
        let size = npy_of_bytes(300).len() as u64;
        let lies = [0, size + 1, 1 << 40, i64::MAX as u64, u64::MAX];
        for (sizes, with_offset) in lies.map(|lie| [lie, size]).into_iter().flat_map(|sizes| {
            [(sizes, None), ([sizes[1], sizes[0]], None), ([size, size], Some(sizes[0]))]
        }) {
            let member = a_stored().both(|header| {
                (header.size, header.compressed) = (u32::MAX, u32::MAX);
                header.extra = zip64(&[sizes[0], sizes[1]]);
            });
            let member = member.listed(|header| {
                if let Some(offset) = with_offset {
                    header.offset = Some(u32::MAX);
                    header.extra = zip64(&[size, size, offset]);
                }
            });
            let is_true = with_offset == Some(0);
            match load_npz(Source::bytes(&archive(&[member]))) {
                Ok(arrays) => assert!(is_true && arrays.len() == 1, "{sizes:?} {with_offset:?}"),
                Err(error) => assert!(!is_true, "{error}"),
            }
        }
    });
}

#[test]
fn numbers_of_64_bits_that_are_missing() {
    scenario(|| {
        for extra in [vec![], zip64(&[]), zip64(&[1]), vec![1, 0, 200, 0], vec![1, 0]] {
            let member = a_stored().both(|header| {
                (header.size, header.compressed) = (u32::MAX, u32::MAX);
                header.extra.clone_from(&extra);
            });
            assert_eq!(field_of_a(&archive(&[member])), "compressed size", "{extra:?}");
        }
    });
}

/// Returns an archive with the end that 64-bit archives have, and its locator.
fn with_zip64_end(count: u64, size: u64, offset: u64, locator: u64) -> Vec<u8> {
    let whole = archive(&[a_stored()]);
    let (front, end) = whole.split_at(whole.len() - 22);
    let numbers = [count, count, size, offset].map(u64::to_le_bytes).concat();
    let record = [b"PK\x06\x06", &44u64.to_le_bytes()[..], &[45, 0, 45, 0], &[0; 8], &numbers];
    let locator = [b"PK\x06\x07\0\0\0\0", &locator.to_le_bytes()[..], &1u32.to_le_bytes()];
    let mut end = end.to_vec();
    end[8..20].fill(0xFF);
    [front, &record.concat(), &locator.concat(), &end].concat()
}

#[test]
fn an_end_of_64_bits_that_lies() {
    scenario(|| {
        let whole = archive(&[a_stored()]).len() as u64;
        let size = 51;
        let end = whole - 22;
        let offset = end - size;
        assert_eq!(
            load_npz(Source::bytes(&with_zip64_end(1, size, offset, end))).unwrap().len(),
            1
        );
        for lie in [0, 2, 1 << 40, u64::MAX] {
            npz_refusal(&with_zip64_end(lie, size, offset, end));
            npz_refusal(&with_zip64_end(1, size, lie, end));
            npz_refusal(&with_zip64_end(1, size, offset, lie));
        }
        for lie in [end - 1, end + 1, end + 56, end + 76, i64::MAX as u64, i64::MAX as u64 + 1] {
            npz_refusal(&with_zip64_end(1, size, offset, lie));
            npz_refusal(&with_zip64_end(1, size, lie, end));
        }
    });
}

#[test]
fn a_program_in_front_and_a_comment_behind() {
    scenario(|| {
        let whole = archive(&[a_stored(), Member::deflated("b.npy", &npy_of_bytes(9))]);
        let expected = bytes_of(&load_npz(Source::bytes(&whole)).unwrap());
        let in_front = [&b"#!/bin/sh\nexit 1\n"[..], &whole].concat();
        let mut with_comment = [&in_front[..], &[b'x'; 65_535]].concat();
        let length = in_front.len() - 2;
        with_comment[length..length + 2].copy_from_slice(&[0xFF; 2]);
        for bytes in [in_front, with_comment] {
            assert_eq!(bytes_of(&load_npz(Source::bytes(&bytes)).unwrap()), expected);
        }
        let behind = [&whole[..], &vec![b'x'; 2 << 20]].concat();
        assert_eq!(npz_refusal(&behind), (None, "archive"));
    });
}

#[test]
fn extra_fields_as_long_as_can_be() {
    scenario(|| {
        let member = a_stored().both(|header| header.extra = vec![0; 65_535]);
        assert_eq!(load_npz(Source::bytes(&archive(&[member]))).unwrap().len(), 1);
        let member = a_stored().own(|header| header.extra = vec![0; 65_535]);
        assert_eq!(
            load_npz(Source::bytes(&archive(std::slice::from_ref(&member)))).unwrap().len(),
            1
        );
        let cut = member.listed(|header| header.offset = Some(65_535));
        npz_refusal(&archive(&[cut]));
    });
}

#[test]
fn an_array_that_is_larger_than_its_member() {
    scenario(|| {
        for file in [npy("'<f8'", "(9,)", &[0; 71]), npy("'|u1'", "(1099511627776,)", &[0; 99])] {
            for member in [Member::stored("a.npy", &file), Member::deflated("a.npy", &file)] {
                assert_eq!(field_of_a(&archive(&[member])), "data");
            }
        }
    });
}

#[test]
fn an_archive_without_members_and_members_without_bytes() {
    scenario(|| {
        assert!(load_npz(Source::bytes(&archive(&[]))).unwrap().is_empty());
        let empty =
            [Member::stored("a", b""), Member::deflated("b", b""), Member::stored("c/", b"")];
        let arrays = load_npz(Source::bytes(&archive(&empty))).unwrap();
        assert_eq!(arrays.iter().map(|array| array.shape()[0]).collect::<Vec<_>>(), [0, 0, 0]);
        drop(arrays);
        assert_eq!(npz_refusal(b""), (None, "archive"));
        assert_eq!(npz_refusal(b"PK\x05\x06"), (None, "archive"));
        assert_eq!(npz_refusal(&npy_of_bytes(3)), (None, "archive"));
    });
}
