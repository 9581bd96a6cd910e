"""The rule about SAFETY comments refuses those that give no reason."""

import pytest
from checking import rule_named
from planting import assert_has, refused_alone
from tree import Tree


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("checked above", 2),
        ("as above.", 0),
        ("as above, it is so", 0),
        ("same as above, for the same reason as there", 0),
        ("For the same reason as above, this is sound here.", 0),
        ("like above: the block above says why", 0),
        ("see the comment above on why it is sound", 0),
        ("checked checked checked checked checked checked checked", 1),
        ("it is fine, it is really fine here", 5),
        ("TODO: write down why this is sound, please", 0),
    ],
)
def test_a_safety_comment_of_few_words_is_refused(tmp_path, reason, words):
    text = f"//! A file.\n    // SAFETY: {reason}\n    unsafe {{ f() }}\n"
    said = refused_alone("safety", tmp_path, "core/src/a.rs", text)
    assert_has(said, "core/src/a.rs:2", f"gives a reason of {words} words, under 6")


@pytest.mark.parametrize(
    "comment",
    [
        "// Safety: it fits.",
        "/* SAFETY: it fits. */",
        "f(); // SAFETY: it fits.",
        "/* SAFETY:\n * it fits.\n */",
    ],
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


@pytest.mark.parametrize(
    "next_line", ["TODO: give this variable a name that says more", "clippy x"]
)
def test_another_comment_is_no_part_of_the_reason(tmp_path, next_line):
    text = f"// SAFETY: it fits.\n// {next_line}\nunsafe {{ f() }}\n"
    said = refused_alone("safety", tmp_path, "core/src/a.rs", text)
    assert_has(said, "core/src/a.rs:1", '"it fits." gives a reason of 2 words')


def test_code_is_no_part_of_the_reason(tmp_path):
    text = "// SAFETY: it fits.\n*pointer = a.very.long * line + of * code;\n"
    said = refused_alone("safety", tmp_path, "core/src/a.rs", text)
    assert_has(said, "core/src/a.rs:1", '"it fits." gives a reason of 2 words')


def test_a_safety_comment_that_is_documentation_is_refused(tmp_path):
    text = "/// SAFETY: `len` was checked against the size in `Layout::check`.\nunsafe { f() }\n"
    said = refused_alone("safety", tmp_path, "examples/a.rs", text)
    assert_has(said, "examples/a.rs:1", "is no doc comment")


@pytest.mark.parametrize(
    "text", ["See above.", "The caller knows.", "For the same reason as above."]
)
def test_a_safety_section_that_says_nothing_is_refused(tmp_path, text):
    text = f"/// # Safety\n///\n/// {text}\npub unsafe fn f() {{}}\n"
    said = refused_alone("safety", tmp_path, "core/src/a.rs", text)
    assert_has(said, "core/src/a.rs:1", "the section # Safety")


@pytest.mark.parametrize(
    "text", ["As [`copy_elements`].", "Both addresses are readable for `n` bytes."]
)
def test_a_safety_section_with_a_reason_or_a_link_is_allowed(tmp_path, text):
    text = f"/// # Safety\n/// {text}\npub unsafe fn f() {{}}\n"
    assert refused_alone("safety", tmp_path, "core/src/a.rs", text) == []
