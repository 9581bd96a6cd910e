"""Each rule refuses its breach: one is planted in a copy of the files that the rule looks at."""

import shutil
import subprocess
import sys

import pytest
import rules

COPIED = (
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "core/fuzz",
    "core/src/lib.rs",
    "core/src/value",
)
ROW = "| house rules | all | – | – |\n"
BREACHES = {
    "region": ("words", "core/src/value/json.rs", "fn shared_region() {}"),
    "arena": ("words", "core/src/value/json.rs", "// the arena of this array"),
    "block": ("words", "core/src/value/json.rs", "// a shared memory block"),
    "chunk": ("words", "core/src/value/json.rs", "struct MappedChunk;"),
    "file descriptor": ("words", "core/src/value/json.rs", "// its file descriptor"),
    "keeper": ("words", "core/src/value/json.rs", "// who is the keeper?"),
    "a homonym": ("homonyms", "core/src/value/json.rs", "pub(crate) struct ErrorKind;"),
    "a host": ("hosts", "core/src/value/json.rs", "// see https://index.crates" + ".io/x"),
    "an unknown suite": ("suites", "CONTRIBUTING.md", "| no such suite | all | – | – |"),
    "a suite's second row": ("suites", "CONTRIBUTING.md", ROW),
    "an order": ("modules", "core/src/value/json.rs", "use crate::value::shape::Layout;"),
    "an order in a group": (
        "modules",
        "core/src/value/json.rs",
        "use super::{error::Error, shape};",
    ),
    "an order behind an export": ("modules", "core/src/value/json.rs", "use crate::Layout;"),
    "an order of floors": ("modules", "core/src/value/json.rs", "type A = crate::array::Array;"),
    "an unlisted module": ("modules", "core/src/lib.rs", "pub(crate) mod unlisted;"),
    "a wide line": ("width", "core/src/value/json.rs", "// " + "x" * 98),
    "a row apart": ("tables", "core/fuzz/README.md", "\n| a | b |"),
    "a row of other cells": ("tables", "core/fuzz/README.md", "| a |"),
    "an unlisted folder": ("folders", "ci/unlisted/run", ""),
    "an unlisted target": ("fuzz_targets", "core/fuzz/fuzz_targets/unlisted.rs", ""),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    for name in COPIED:
        source = rules.ROOT / name
        there = root / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, there)
        else:
            shutil.copy(source, there)
    (root / "ci/checks").mkdir(parents=True)
    (root / "ci/checks/run").touch()
    return root


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "copy")


def findings(rule, root):
    return [finding.says for finding in rules.check(rule, rules.Tree(root))[0]]


@pytest.mark.parametrize(("rule", "path", "text"), BREACHES.values(), ids=BREACHES)
def test_a_breach_is_refused(rule, path, text, copy):
    before = findings(rule, copy)
    file = copy / path
    file.parent.mkdir(exist_ok=True)
    old = file.read_text() if file.exists() else ""
    # Unit tests are at the end of a Rust file.
    file.write_text(f"{text}\n{old}" if path.endswith(".rs") else f"{old}{text}\n")
    # An unlisted folder is missing in two pages.
    assert len(findings(rule, copy)) - len(before) == (2 if rule == "folders" else 1)


def test_every_rule_has_a_breach():
    assert {rule for rule, *_ in BREACHES.values()} | {"features"} == rules.RULES.keys()


def test_a_suite_without_a_row_is_refused(copy):
    page = copy / "CONTRIBUTING.md"
    page.write_text(page.read_text().replace(ROW, ""))
    assert "the table lacks the suite house rules" in findings("suites", copy)


def test_other_features_are_refused(monkeypatch, copy):
    built = lambda _, first, *others: (
        {"libc v1 [extra]"} if first != rules.ALONE[0] else {"libc v1 []"}
    )
    monkeypatch.setattr(rules, "built_from", built)
    assert len(findings("features", copy)) == 1


def test_a_rule_that_looked_at_nothing_fails(tmp_path):
    assert findings("words", tmp_path) == ["this rule looked at nothing"]


def test_the_last_line_counts_what_holds_and_what_fails(copy):
    (copy / "core/src/value/json.rs").write_text("// an arena\n")
    command = [sys.executable, rules.__file__, "words", "--root", copy]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout.splitlines()[-1].startswith("house rules: ")
    assert ran.stdout.splitlines()[-1].endswith(" 1 failed")
