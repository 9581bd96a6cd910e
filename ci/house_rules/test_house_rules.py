"""The house rules refuse what they say they refuse. `pytest ci/house_rules`

Each breach is planted in a copy of what the rule reads. The rule runs on the copy, and must name
the file, the line and what is wrong there. That nothing else is refused is tested, too; the suite
"house rules" shows that the repository itself keeps every rule.
"""

import pathlib
import shutil
import subprocess
import sys

import pytest
from checking import NAMES, check, rule_named
from exceptions import FILE, Exceptions
from parsing.functions import functions
from parsing.tokens import tokens
from parsing.use_trees import parse_use
from tree import ALL_OF_RUST, Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE, TABLE = "core/src/shape.rs", "CONTRIBUTING.md"
PACKAGE = "bindings/python/python/shmarray"
COPIED = ("core/src/", "bindings/cli/src/", f"{PACKAGE}/", TABLE, FILE)
NEED_MORE = {"features", "suites_table"}  # a workspace for cargo, the table of suites
LONG_LINE = "x" * 120


@pytest.fixture(scope="session")
def copy(tmp_path_factory):
    """A copy of core, the command line, the Python package, and the table of suites."""
    root = tmp_path_factory.mktemp("copy")
    for path in Tree(ROOT).paths:
        if path.startswith(COPIED):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, root / path)
    return root


@pytest.fixture
def plant(copy):
    """Puts lines into a file of the copy, or a file into it, until the test ends."""
    before = {}

    def into(path, text, at=None):
        """Before line `at`, or at the end. Returns the number of the first planted line."""
        file = copy / path
        file.parent.mkdir(parents=True, exist_ok=True)
        there = file.read_text() if file.exists() else None
        before.setdefault(file, there)
        lines = (there or "").splitlines()
        at = len(lines) + 1 if at is None else at
        lines[at - 1 : at - 1] = text.splitlines()
        file.write_text("\n".join(lines) + "\n")
        return at

    yield into
    for file, text in before.items():
        file.unlink() if text is None else file.write_text(text)


def refused(rule, root):
    """What the rule refuses in the copy, as it would be printed."""
    tree = Tree(root)
    return printed(check(rule, tree, Exceptions(tree.text(FILE))))


def refused_alone(rule, folder, path, text):
    """What the rule refuses in a folder with this file alone, medians aside."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)
    said = printed(check(rule, Tree(folder), Exceptions("")))
    return [line for line in said if not line.startswith(ALL_OF_RUST)]


def printed(outcome):
    return [f"{one.path}:{one.line}: {one.says}" for one in outcome.refused]


def assert_has(said, place, words):
    assert [line for line in said if line.startswith(f"{place}: ") and words in line], said


# The modules of core

USES = [
    "use crate::{array};",
    "use crate::{error::Error, array::{Array, Options as O}};",
    "use crate::array as later;",
    "use super::array::Array;",
    "use self::super::array::*;",
    "use crate::Array;",  # which lib.rs re-exports
    "use crate::{self as root}; fn f() { root::array::f(); }",
    "use crate as root; use root::array::f;",
    "fn f() { crate::array::Array::create() }",
    "fn f(a: &crate::array::Array) {}",
    "fn f() -> Vec<super::array::Array> { todo!() }",
    "pub(crate) use crate::array::Array;",
]


@pytest.mark.parametrize("text", USES)
def test_a_module_that_uses_a_later_one_is_refused(copy, plant, text):
    line = plant(SHAPE, text, at=30)
    says = "crate::shape uses crate::array, which core/src/lib.rs lists after shape"
    assert_has(refused("rust_modules", copy), f"{SHAPE}:{line}", says)


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::{array};",
        "/* use crate::array; /* nested */ use crate::array; */",
        'const TEXT: &str = "use crate::array;";',
        'const TEXT: &str = r#"crate::array::"x""#;',
        "#[cfg(test)]\nmod more_tests { use crate::array::Array; }",
        "#[cfg(test)]\nuse crate::array::Array;",
        "use crate::error::Error as Earlier;",
        "use std::array::from_fn;",
    ],
)
def test_names_that_only_look_like_a_later_module_are_allowed(copy, plant, text):
    plant(SHAPE, text, at=30)
    assert refused("rust_modules", copy) == []


FOLDERS = {
    "use super::later::thing;": "uses crate::planted::later, which",
    "use super::passed_on;": "uses crate::planted::later, which",
    "use crate::planted::{self as p}; fn f() { p::later::thing() }": "uses crate::planted::later",
    "use super::own;": "uses crate::planted, which uses it in turn: a circle",
}


@pytest.mark.parametrize("text", FOLDERS)
def test_a_circle_in_a_folder_of_core_is_refused(copy, plant, text):
    plant("core/src/lib.rs", "mod planted;")
    lines = ("mod earlier;", "mod later;", "pub use later::thing as passed_on;")
    plant("core/src/planted/mod.rs", "\n".join((*lines, "pub fn own() { earlier::f(); }")))
    plant("core/src/planted/later.rs", "pub fn thing() {}")
    plant("core/src/planted/earlier.rs", text)
    says = f"crate::planted::earlier {FOLDERS[text]}"
    assert_has(refused("rust_modules", copy), "core/src/planted/earlier.rs:1", says)


def test_a_circle_in_another_crate_is_refused(copy, plant):
    line = plant("bindings/cli/src/process.rs", "use crate::list::print;", at=3)
    says = "crate::process uses crate::list, which bindings/cli/src/lib.rs lists after process"
    assert_has(refused("rust_modules", copy), f"bindings/cli/src/process.rs:{line}", says)


def test_a_folder_in_order_is_allowed(copy, plant):
    plant("core/src/lib.rs", "mod planted;")
    plant("core/src/planted/mod.rs", "mod earlier;\nmod later;\npub use later::thing;\nfn own() {}")
    plant("core/src/planted/earlier.rs", "pub fn thing() { super::own() }")
    plant("core/src/planted/later.rs", "pub use super::earlier::thing;\nuse crate::array::Array;")
    assert refused("rust_modules", copy) == []


def test_a_module_whose_file_is_not_found_is_refused(copy, plant):
    line = plant(SHAPE, '#[path = "elsewhere.rs"]\nmod moved;', at=30) + 1
    said = refused("rust_modules", copy)
    assert_has(said, f"{SHAPE}:{line}", "crate::shape::moved has no file")


def test_use_trees_are_read_in_every_form():
    text = "use a::{self, b::{c as d, *}, e}; use ::f::g as _;"
    found, uses = tokens(text), []
    for index, token in enumerate(found):
        if token.text == "use":
            uses += [(use.path, use.name) for use in parse_use(found, index, False)[0]]
    assert uses == [
        (("a",), "a"),
        (("a", "b", "c"), "d"),
        (("a", "b", "*"), "*"),
        (("a", "e"), "e"),
        (("::", "f", "g"), "_"),
    ]


# The modules of the Python package


@pytest.mark.parametrize(
    "texts",
    [
        ("from shmarray import _planted_two", "from shmarray import _planted_one"),
        ("from . import _planted_two", "def f():\n    import shmarray._planted_one"),
        ("from ._planted_two import name", "from shmarray._planted_one import name"),
    ],
)
def test_a_circle_of_python_modules_is_refused(copy, plant, texts):
    for name, text in zip(("one", "two"), texts, strict=True):
        plant(f"{PACKAGE}/_planted_{name}.py", text)
    said = refused("python_modules", copy)
    assert_has(said, f"{PACKAGE}/_planted_one.py:1", "leads back to it: a circle")


def test_an_import_only_for_types_is_no_circle(copy, plant):
    plant(f"{PACKAGE}/_planted_one.py", "from . import _planted_two")
    only = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import _planted_one"
    plant(f"{PACKAGE}/_planted_two.py", only)
    assert refused("python_modules", copy) == []


def test_a_lower_folder_of_python_imports_no_upper_one(copy, plant):
    plant(f"{PACKAGE}/_codec/planted.py", "from shmarray.joblib import register")
    said = refused("python_modules", copy)
    assert_has(said, f"{PACKAGE}/_codec/planted.py:1", "and joblib stands above _codec")


# Lengths

FUNCTIONS = {
    "a.py": ("def long():", "    x = 1", ""),
    "b.py": ("class C:\n    async def long(self):", "        x = 1", ""),
    "a.rs": ("pub(crate) const unsafe fn long() {", "    f(0);", "}"),
    "a.rb": ("  def long(a)", "    a + 1", "  end"),
    "a.c": ("static int long(int a) {", "    a += '{';", "}"),
    "a.hpp": ("class C {\n  auto long(int a) const -> int {", '    f("}");', "  }\n};"),
    "a.sh": ("# shellcheck shell=bash\nlong() {", "    echo 1", "}"),
}


@pytest.mark.parametrize("file", FUNCTIONS)
def test_a_function_of_200_lines_is_refused(tmp_path, file):
    first, line, last = FUNCTIONS[file]
    said = refused_alone("lengths", tmp_path, file, "\n".join([first, *[line] * 199, last]))
    assert_has(said, f"{file}:{1 + first.count(chr(10))}", "the function long has 20")


def test_functions_of_cpp_are_found_in_namespaces_and_classes():
    body = "  void g() {\n    if (a) { b(); }\n  }\n"
    text = f"namespace a {{\nclass C : public B<int> {{\n{body}}};\n}}\nint f() {{ return 1; }}\n"
    assert [*functions("x.hpp", text)] == [("g", 3, 3), ("f", 8, 1)]


def test_a_file_of_501_lines_is_refused(tmp_path):
    said = refused_alone("lengths", tmp_path, "a.rb", "p 1\n" * 501)
    assert_has(said, "a.rb:501", "has 501 lines")


# Width


@pytest.mark.parametrize("path", ["a.rs", "ci/env", "README.md", "a.toml", "a.rbs", ".ci/run"])
def test_a_line_of_120_columns_is_refused(tmp_path, path):
    said = refused_alone("width", tmp_path, path, f"short\n{LONG_LINE}\n")
    assert_has(said, f"{path}:2", "has 120 columns")


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("README.md", f"| {LONG_LINE} | a cell |"),
        ("README.md", f"[a link](https://example.org/{LONG_LINE}) and [another]({LONG_LINE})"),
        ("a.rs", f"//! | {LONG_LINE} |"),
        ("include/shmarray.h", LONG_LINE),
        ("Cargo.lock", LONG_LINE),
        ("ci/measurements/results.svg", LONG_LINE),
    ],
)
def test_tables_addresses_and_generated_files_may_be_wide(tmp_path, path, line):
    (tmp_path / "a.py").write_text("x = 1\n")
    assert refused_alone("width", tmp_path, path, f"{line}\n") == []


# Words


@pytest.mark.parametrize(
    "line",
    [
        "// the shared memory block",
        "# a block of shared memory holds it",
        "a chunk of memory",
        "The Memory Region",
        "a SharedMemory block",
        "each mapped region",
        "an arena of arrays",
        "let block_bytes = 0;",
        "region_id = 1",
        "class SegmentBlock;",
        "shm_block = None",
        "SHM_CHUNK_NAME = 1",
    ],
)
def test_another_word_for_a_segment_is_refused(tmp_path, line):
    said = refused_alone("words", tmp_path, "README.md", f"\n{line}\n")
    assert_has(said, "README.md:2", "say segment")


@pytest.mark.parametrize(
    "line",
    [
        "the block of code that a call is given",
        "def map(source, &block)",
        "queue.put(1, block=False)",
        "A chunk of the stream; pickle reads it in chunks.",
        "for piece in bytes.chunks_exact(8) {",
        "a call that blocks until memory is free",
        "Pool.map(f, items, chunksize=1)",
        "BlockingIOError",
    ],
)
def test_other_blocks_and_chunks_are_allowed(tmp_path, line):
    assert refused_alone("words", tmp_path, "README.md", line) == []


# SAFETY comments


@pytest.mark.parametrize(
    ("reason", "words"), [("checked above", 2), ("as above.", 0), ("as above, it is so", 3)]
)
def test_a_safety_comment_of_few_words_is_refused(tmp_path, reason, words):
    text = f"//! A file.\n    // SAFETY: {reason}\n    unsafe {{ f() }}\n"
    said = refused_alone("safety", tmp_path, "core/src/a.rs", text)
    assert_has(said, "core/src/a.rs:2", f"gives a reason of {words} words, under 6")


@pytest.mark.parametrize(
    "comment", ["// Safety: it fits.", "/* SAFETY: it fits. */", "f(); // SAFETY: it fits."]
)
def test_a_safety_comment_is_found_in_every_form(tmp_path, comment):
    said = refused_alone("safety", tmp_path, "bindings/a.rs", f"{comment}\nunsafe {{ f() }}\n")
    assert_has(said, "bindings/a.rs:1", '"it fits." gives a reason of 2 words')


def test_a_safety_comment_of_several_lines_counts_whole(tmp_path):
    text = "// SAFETY: `len` was checked\n// against the size in `Layout::check`.\nunsafe { f() }"
    assert refused_alone("safety", tmp_path, "ffi/src/a.rs", text) == []


def test_the_median_safety_comment_has_twelve_words(tmp_path):
    (tmp_path / "core").mkdir()
    (tmp_path / "core/a.rs").write_text("// SAFETY: one two three four five six seven\n" * 3)
    findings = [one for one in rule_named("safety").check(Tree(tmp_path)) if one]
    assert [one.says for one in findings] == ["the median SAFETY comment has 7 words, under 12"]


# Tests that are none


@pytest.mark.parametrize(
    "body",
    [
        'if std::env::var("PEER").is_err() { return; }',
        'let Ok(text) = std::env::var("PEER") else { return };',
        'let name = "peer"; if !is_peer(name) { return; }',
    ],
)
def test_a_test_that_returns_at_once_is_refused(tmp_path, body):
    text = f"//! Tests.\n#[test]\nfn helper() {{\n    {body}\n    work();\n}}\n"
    said = refused_alone("returning_tests", tmp_path, "core/tests/a.rs", text)
    assert_has(said, "core/tests/a.rs:3", "the test helper returns at once")


@pytest.mark.parametrize(
    ("attribute", "body"),
    [
        ("", "if !is_root_or_skips() { return; }"),
        ("", "work(); if done() { return; }"),
        ("", "for x in y { return; }"),
        ('#[ignore = "another test starts it"]', "if !is_peer() { return; }"),
    ],
)
def test_a_test_that_says_that_it_skips_or_returns_later_is_one(tmp_path, attribute, body):
    text = f"#[test]\n{attribute}\nfn works() {{ {body} more(); }}\n"
    assert refused_alone("returning_tests", tmp_path, "core/tests/a.rs", text) == []


# Other rules


def test_a_file_that_does_not_say_what_it_is_is_refused(tmp_path):
    said = refused_alone("first_lines", tmp_path, "core/tests/a.rs", "fn f() {}\n")
    assert_has(said, "core/tests/a.rs:1", "does not begin with")


def test_a_registrys_host_is_refused(tmp_path):
    host = "https://" + "pypi.org"
    said = refused_alone("hosts", tmp_path, "README.md", f"{host}/simple\n")
    assert_has(said, "README.md:1", f"names {host}")


def test_a_suite_that_is_not_there_is_refused(copy, plant):
    line = plant(TABLE, "| a suite of nobody's | all | – |")
    assert_has(refused("suites_table", copy), f"{TABLE}:{line}", "ci/suites does not have")


# Exceptions

EXCEPTION = '[[exception]]\nrule = "words"\npath = "a.md"\nwhat = "arena"\nreason = "theirs"\n'


def test_an_exception_allows_what_it_names_and_nothing_else(tmp_path):
    (tmp_path / "a.md").write_text("an arena of malloc's\n")
    (tmp_path / "b.md").write_text("an arena\na region\n")
    said = printed(check("words", Tree(tmp_path), Exceptions(EXCEPTION)))
    assert [line.split()[0] for line in said] == ["b.md:1:", "b.md:2:"]


def test_an_exception_that_is_not_needed_is_refused(tmp_path):
    (tmp_path / "a.md").write_text("a segment\n")
    (said,) = printed(check("words", Tree(tmp_path), Exceptions(EXCEPTION)))
    assert said.startswith(f"{FILE}:0: ")
    assert "is no longer needed" in said


@pytest.mark.parametrize(
    ("old", "new"), [("reason", "because"), ("[[exception]]", "[[temporary]]")]
)
def test_an_exception_without_a_reason_or_in_another_table_is_none(old, new):
    with pytest.raises(AssertionError):
        Exceptions(EXCEPTION.replace(old, new))


@pytest.mark.parametrize("rule", sorted({*NAMES} - NEED_MORE))
def test_a_rule_that_looked_at_nothing_has_failed(tmp_path, rule):
    if rule == "rust_modules":
        (tmp_path / "core/src").mkdir(parents=True)
        (tmp_path / "core/src/lib.rs").touch()
    (said,) = printed(check(rule, Tree(tmp_path), Exceptions("")))
    assert f"the rule {rule} looked at nothing" in said


def test_the_command_fails_and_names_file_and_line(copy, plant):
    line = plant(SHAPE, "use crate::{array};", at=30)
    command = [sys.executable, ROOT / "ci/house_rules", "--root", copy, "rust_modules"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"FAILED {SHAPE}:{line}: crate::shape uses crate::array" in done.stdout
    assert done.stdout.endswith(" passed, 1 failed\n")
