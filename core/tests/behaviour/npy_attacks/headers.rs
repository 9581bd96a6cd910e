//! Attacks in the header of an NPY file.

use shmarray::npy::{Npy, NpyHeader, Source};
use shmarray::{Error, Options};

use super::making::{npy, npy_of_bytes, npy_with_long_text, npy_with_text, text_of};
use super::{load_npy, npy_field, refusal};
use crate::support::scenario;

#[test]
fn a_file_that_is_cut_at_any_byte() {
    scenario(|| {
        let text = text_of("[('a', '<i4'), ('b', '>f8', (2,))]", "(3, 2)");
        let data = [7; 6 * 20];
        for whole in [
            npy_with_text(&text, &data),
            npy_with_long_text(2, &text, &data),
            npy_with_long_text(3, &text, &data),
        ] {
            load_npy(Source::bytes(&whole)).unwrap();
            for length in 0..whole.len() {
                let field = npy_field(&whole[..length]);
                let expected = match length {
                    0..6 => "magic",
                    6..8 => "version",
                    _ if length < if whole[6] == 1 { 10 } else { 12 } => "header length",
                    _ if length < whole.len() - data.len() => "header",
                    _ => "data",
                };
                assert_eq!(field, expected, "cut at byte {length}");
            }
        }
    });
}

#[test]
fn a_wrong_magic_or_version() {
    scenario(|| {
        let whole = npy_of_bytes(100);
        for at in 0..8 {
            for other in (0..=255).filter(|other| *other != whole[at]) {
                let mut bytes = whole.clone();
                bytes[at] = other;
                let field = if at < 6 { "magic" } else { "version" };
                // The length of version 2.0 and 3.0 is four bytes long, of which two are text here.
                let field =
                    if at == 6 && (2..4).contains(&other) { "header length" } else { field };
                let found =
                    Npy::open(Source::bytes(&bytes)).err().map(|error| refusal(error).field);
                assert_eq!(found, Some(field), "byte {at} is {other}");
            }
        }
    });
}

#[test]
fn a_header_that_lies_about_the_size_of_the_data() {
    scenario(|| {
        for shape in ["(101,)", "(100, 2)", "(1099511627776,)", "(9223372036854775807,)"] {
            assert_eq!(npy_field(&npy("'|u1'", shape, &[0; 100])), "data", "{shape}");
        }
        assert_eq!(npy_field(&npy("'|S101'", "(1,)", &[0; 100])), "data");
        assert_eq!(npy_field(&npy("[('a', '<f8', (13,))]", "()", &[0; 100])), "data");
    });
}

#[test]
fn a_shape_whose_product_overflows() {
    scenario(|| {
        for (descr, shape) in [
            ("'|u1'", "(9223372036854775807, 2)"),
            ("'|u1'", "(9223372036854775807, 2, 0)"), // NumPy's own arrays may not be so large
            ("'<f8'", "(1152921504606846976,)"),
            ("'<f8'", "(2305843009213693953,)"), // 8 bytes modulo 2^64
            ("'|u1'", "(4294967296, 4294967296)"),
            ("'|u1'", "(4294967296, 4294967297)"),
            ("'|V2147483647'", "(4294967299,)"),
            ("'|V0'", "(4294967296, 4294967296)"),
        ] {
            assert_eq!(npy_field(&npy(descr, shape, &[0; 64])), "shape", "{descr} {shape}");
        }
    });
}

#[test]
fn an_item_whose_size_overflows() {
    scenario(|| {
        for descr in [
            "'|V2147483648'",
            "'|V18446744073709551616'",
            "'<U536870912'",
            "[('a', '<f8', (9223372036854775807,))]",
            "[('a', '<f8', (2305843009213693953,))]",
            "[('a', '|V2147483647'), ('b', '|V2147483647')]",
            "[('a', ('<f8', (4294967296,)), (4294967296,))]",
            "('<f8', (2305843009213693953,))",
        ] {
            assert_eq!(npy_field(&npy(descr, "(1,)", &[0; 64])), "descr", "{descr}");
        }
    });
}

#[test]
fn a_huge_header_length() {
    scenario(|| {
        let with_length = |version: u8, length: &[u8]| {
            [&b"\x93NUMPY"[..], &[version, 0], length, b"{'descr': '<f8'}", &[b' '; 100]].concat()
        };
        assert_eq!(npy_field(&with_length(1, &[255; 2])), "header");
        for version in [2, 3] {
            assert_eq!(npy_field(&with_length(version, &[255; 4])), "header length");
            let limit = (1u32 << 20).to_le_bytes();
            assert_eq!(npy_field(&with_length(version, &limit)), "header");
            let over = ((1u32 << 20) + 1).to_le_bytes();
            assert_eq!(npy_field(&with_length(version, &over)), "header length");
        }
    });
}

#[test]
fn a_python_expression_in_a_header() {
    scenario(|| {
        for text in [
            "__import__('os').abort()",
            "{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f8', 'fortran_order': not True, 'shape': (1,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1 << 40,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (*[9] * 9**9,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (10**100**100,)}",
            "{'descr': '<' 'f8', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': f'{abort()}', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': b'<f8', 'fortran_order': False, 'shape': (1,)}",
            "{**{}, 'descr': '<f8', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}.copy()",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} or abort()",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}\0",
            "lambda: 0",
        ] {
            assert_eq!(npy_field(&npy_with_text(text, &[0; 8])), "header", "{text}");
        }
    });
}

#[test]
fn nesting_as_deep_as_a_header_is_long() {
    scenario(|| {
        let repeated = |opening: &str| opening.repeat((1 << 20) / opening.len());
        for text in [
            repeated("("),
            repeated("["),
            repeated("{'descr':"),
            repeated("[('a',"),
            format!("{{'descr': {}", repeated("[").split_at(1000).0),
        ] {
            assert_eq!(npy_field(&npy_with_long_text(2, &text, &[])), "header");
        }
    });
}

#[test]
fn fields_as_many_as_a_header_has_room_for() {
    scenario(|| {
        let fields: String = (0..50_000).map(|at| format!("('{at:x}','u1'),")).collect();
        let text = text_of(&format!("[{fields}]"), "(1,)");
        // A handle of such an array would be longer than a handle may be; private memory has none.
        private_alone(&npy_with_long_text(2, &text, &[7; 50_000]), 50_000);
        let counts = "1,".repeat(500_000);
        let text = text_of("'|u1'", &format!("({counts})"));
        assert_eq!(npy_field(&npy_with_long_text(2, &text, &[0; 50_000])), "shape");
        let counts = "1,".repeat(400_000);
        let text = text_of(&format!("[('a', 'u1', ({counts}))]"), "()");
        private_alone(&npy_with_long_text(2, &text, &[7; 1]), 1);
    });
}

#[test]
fn nesting_that_pythons_parser_takes() {
    scenario(|| {
        for (depth, is_shared) in [(17, true), (60, true), (61, false), (99, false)] {
            let records = format!("{}'<i4'{}", "[('a',".repeat(depth), ")]".repeat(depth));
            let file = npy(&records, "(2,)", &[7; 8]);
            if is_shared {
                assert_eq!(load_npy(Source::bytes(&file)).unwrap().dtype().itemsize(), 4)
            } else {
                private_alone(&file, 8)
            }
        }
    });
}

/// Expects an array whose dtype is no handle's: it is read into private memory, and never shared.
fn private_alone(file: &[u8], bytes: usize) {
    let opened = Npy::open(Source::bytes(file)).unwrap();
    let mut elements = vec![0; bytes];
    opened.read_into(&mut elements).unwrap();
    assert!(elements.iter().all(|byte| *byte == 7));
    let error = opened.load(&Options::new()).unwrap_err();
    assert!(matches!(error, Error::InvalidDType { .. }), "{error}");
    assert!(error.to_string().contains("load it into private memory"), "{error}");
}

#[test]
fn a_text_of_a_megabyte_is_not_repeated_by_the_error() {
    scenario(|| {
        let long = "x".repeat(1 << 19);
        for text in [
            format!("{{'{long}': 1}}"),
            long.clone(),
            text_of(&format!("'{long}'"), "(1,)"),
            text_of(&format!("[('{long}', '<f8'), ('{long}', '<f8')]"), "(1,)"),
            text_of(&format!("[('a', '{long}')]"), "(1,)"),
            text_of(&format!("[('{long}', '<i3')]"), "(1,)"),
        ] {
            let error =
                load_npy(Source::bytes(&npy_with_long_text(2, &text, &[0; 8]))).unwrap_err();
            assert!(error.to_string().len() < 1000, "an error of {}", error.to_string().len());
        }
    });
}

#[test]
fn keys_that_are_missing_doubled_or_unknown() {
    scenario(|| {
        for (text, field) in [
            ("{}", "descr"),
            ("{'descr': '<f8', 'shape': (1,)}", "fortran_order"),
            ("{'descr': '<f8', 'fortran_order': False}", "shape"),
            ("{'descr': '<f8', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "descr"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'shape': (2,)}", "shape"),
            ("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), '': 0}", "header"),
            ("{'descr': '<f8', 'fortran_order': 'False', 'shape': (1,)}", "fortran_order"),
        ] {
            assert_eq!(npy_field(&npy_with_text(text, &[0; 8])), field, "{text}");
        }
    });
}

/// A pickle may run any program.
#[test]
fn a_pickle_in_place_of_the_elements_is_not_read() {
    scenario(|| {
        let pickle = b"cos\nabort\n(tR.";
        for descr in ["'|O'", "[('a', '<i4'), ('b', '|O')]"] {
            let file = npy(descr, "(1,)", pickle);
            let npy = Npy::open(Source::bytes(&file)).unwrap();
            assert!(npy.header().has_objects());
            let error = npy.load(&Options::new()).unwrap_err();
            assert!(matches!(error, Error::InvalidDType { .. }), "{error}");
            assert!(error.to_string().contains("in memory"), "{error}");
        }
    });
}

#[test]
fn a_header_parsed_alone_says_that_it_was_in_memory() {
    let refusal = refusal(NpyHeader::parse(b"\x93NUMPX").unwrap_err());
    assert_eq!((&*refusal.file, refusal.member, refusal.field), ("in memory", None, "magic"));
}
