"""The house rules refuse what they say they refuse. `pytest ci/house_rules`

Each breach is planted in a copy of what the rule reads, or in a folder of its own. The rule runs
there, and must name the file, the line and what is wrong. That nothing else is refused is tested,
too; the suite "house rules" shows that the repository itself keeps every rule.
"""

import subprocess
import sys

import pytest
from checking import check
from exceptions import FILE, Exceptions
from planting import ROOT, SHAPE, TABLE, assert_has, printed, refused, refused_alone
from rules import NAMES
from tree import Tree

NEED_MORE = {"features", "suites_table"}  # a workspace for cargo, the table of suites


def test_a_file_that_does_not_say_what_it_is_is_refused(tmp_path):
    said = refused_alone("first_lines", tmp_path, "core/tests/a.rs", "fn f() {}\n")
    assert_has(said, "core/tests/a.rs:1", "does not begin with")


@pytest.mark.parametrize("text", ["//! x", "//!", "//! TODO: say what this is", "//!   "])
def test_a_first_line_that_says_nothing_is_refused(tmp_path, text):
    said = refused_alone("first_lines", tmp_path, "core/tests/a.rs", f"{text}\nfn f() {{}}\n")
    assert_has(said, "core/tests/a.rs:1", "does not begin with")


# Joined here, so that this file names none.
HOSTS = ["pypi" + ".org", "files.pythonhosted" + ".org", "static.crates" + ".io"]


@pytest.mark.parametrize(
    "path", ["README.md", "ci/demo", "a.gemspec", "Dockerfile", "a.yml", "a.in"]
)
@pytest.mark.parametrize("host", HOSTS)
def test_a_registrys_host_is_refused(tmp_path, path, host):
    said = refused_alone("hosts", tmp_path, path, f"get https://{host}/simple x\n")
    assert_has(said, f"{path}:1", f"names https://{host}")


@pytest.mark.parametrize(
    "text",
    [
        f"HTTPS://USER@{HOSTS[0].upper()}",
        f"{HOSTS[0]}/simple",
        "http://security.debian" + ".org/",
        "https://github.com/rust-lang/crates" + ".io-index",
    ],
)
def test_a_registrys_host_is_refused_in_every_form(tmp_path, text):
    assert refused_alone("hosts", tmp_path, "README.md", f"{text}\n")


def test_a_suite_with_two_rows_is_refused(copy, plant):
    line = plant(TABLE, "| house rules | twice | – | – |")
    assert_has(refused("suites_table", copy), f"{TABLE}:{line}", "two rows for house rules")


def test_a_suite_that_is_not_there_is_refused(copy, plant):
    line = plant(TABLE, "| a suite of nobody's | all | – | – |")
    assert_has(refused("suites_table", copy), f"{TABLE}:{line}", "ci/suites does not have")


def test_a_suite_in_another_form_than_the_table_says_is_refused(copy):
    place, said = with_row(copy, "| loom | – |", "| loom | all |")
    assert_has(said, place, "the table says that loom has a short form")
    place, said = with_row(copy, "| house rules | all |", "| house rules | – |")
    assert_has(said, place, "the table says that house rules has no short form")


def with_row(copy, old, new):
    """Returns the place of a row whose beginning is replaced, and what the rule then says."""
    path = copy / TABLE
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    said = refused("suites_table", copy)
    path.write_text(text)
    line = text[: text.index(old)].count("\n") + 1
    return f"{TABLE}:{line}", said


# Exceptions

EXCEPTION = """[[exception]]
rule = "words"
path = "a.md"
what = "arena"
reason = "the name that malloc has"
"""


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


def test_an_exception_allows_one_breach_or_as_many_as_it_says(tmp_path):
    (tmp_path / "a.md").write_text("an arena of malloc's\nand an arena\n")
    (said,) = printed(check("words", Tree(tmp_path), Exceptions(EXCEPTION)))
    assert said.startswith("a.md:2: ")
    twice = EXCEPTION.replace("reason", "times = 2\nreason")
    assert printed(check("words", Tree(tmp_path), Exceptions(twice))) == []
    thrice = EXCEPTION.replace("reason", "times = 3\nreason")
    (said,) = printed(check("words", Tree(tmp_path), Exceptions(thrice)))
    assert said.endswith("is needed 2 times")


def test_an_exception_hides_no_other_breach_of_its_line(tmp_path):
    (tmp_path / "a.md").write_text("an arena and a shared memory block\n")
    (said,) = printed(check("words", Tree(tmp_path), Exceptions(EXCEPTION)))
    assert '"shared memory block"' in said


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reason", "because"),
        ("[[exception]]", "[[temporary]]"),
        ('"words"', '"wrods"'),
        ("the name that malloc has", "theirs"),
    ],
)
def test_an_exception_without_a_reason_a_rule_or_in_another_table_is_none(old, new):
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
