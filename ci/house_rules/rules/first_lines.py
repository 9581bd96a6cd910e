"""A Rust file's first line says what the module is: it begins with `//!` and has three words."""

from tree import Finding

FEWEST_WORDS = 3


def check(tree):
    for path in tree.files(".rs"):
        first = tree.text(path).split("\n", 1)[0]
        is_said = first.startswith("//! ") and len(first.split()) > FEWEST_WORDS
        is_said = is_said and "TODO" not in first
        says = "the file does not begin with a line that says what it is, //! …"
        yield None if is_said else Finding(path, 1, "first line", says)
