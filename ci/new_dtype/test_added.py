"""A dtype that has its rows works, and nothing else was touched.

The tests build on each other: each adds the rows that were asked for.
"""

import pytest
from copies import TEXT, TOUCHED, WRITTEN, Copy
from test_refusals import refused

WORKS = f"""\
//! A dtype that was added works in core and in the command.
#![allow(missing_docs)]

use shmarray::{{Array, DType, Number, Options}};

#[test]
fn a_new_dtype_has_elements_and_reductions_and_is_shown() {{
    let dtype = DType::parse("{TEXT}").unwrap();
    assert_eq!((dtype.name(), dtype.itemsize()), ("{TEXT}", 1));
    let array = Array::create(dtype, &[2, 2], &Options::default()).unwrap();
    for (k, number) in [1.5, -2.0, 0.25, 3.5].into_iter().enumerate() {{
        array.set_number(&[k as u64 / 2, k as u64 % 2], Number::Float(number)).unwrap();
    }}
    assert_eq!(array.sum().unwrap(), Number::Float(3.25));
    assert_eq!(array.max_along(&[0]).unwrap().get_number(&[0]).unwrap(), Number::Float(1.5));
    let command = env!("CARGO_BIN_EXE_shmarray");
    let shown = std::process::Command::new(command).args(["show", &array.handle()]).output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains("{TEXT}") && shown.contains("values   1.5 -2 0.25 3.5"), "{{shown}}");
}}
"""
WORKS_IN = "bindings/cli/tests/new_dtype.rs"


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    copy = Copy(tmp_path_factory.mktemp("copy"))
    copy.add_row()
    copy.add_constant()
    copy.add_text()
    copy.add_driver_row()
    return copy


def test_the_format_and_the_golden_files_are_asked_for(copy):
    refused(copy.core_tests(), "FORMAT.md lacks")
    copy.add_to_format()
    refused(copy.core_tests(), "no golden segment has elements of ")
    copy.add_golden_segment()
    succeeded, said = copy.core_tests()
    assert succeeded, said


def test_then_it_works_in_core_c_and_the_command(copy):
    (copy.root / WORKS_IN).write_text(WORKS)
    copy.run("cargo", "test", "-q", "-p", "shmarray", "--lib")
    copy.run("cargo", "test", "-q", "-p", "shmarray", "--test", "behaviour", "reductions::")
    copy.run("cargo", "test", "-q", "-p", "shmarray-ffi", "--lib", "--test", "header")
    copy.run("cargo", "test", "-q", "-p", "shmarray-cli", "--test", "new_dtype")
    (copy.root / WORKS_IN).unlink()


def test_nothing_else_was_touched(copy):
    changed = copy.run("git", "status", "--porcelain", "--untracked-files=all").splitlines()
    files = sorted(line[3:] for line in changed)
    segments = [path for path in files if path.startswith("ci/checks/golden/segments/")]
    print("\ntouched: " + ", ".join(TOUCHED) + "\nwritten: " + ", ".join(WRITTEN + segments))
    assert len(segments) == 1
    assert files == sorted(TOUCHED + WRITTEN + segments)
