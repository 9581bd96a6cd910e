"""A Rust file's first line says what the module is: it begins with `//!`."""

from tree import Finding


def check(tree):
    for path in tree.files(".rs"):
        first = tree.text(path).split("\n", 1)[0]
        says = "the file does not begin with a line that says what it is, //! …"
        yield None if first.startswith("//! ") else Finding(path, 1, "first line", says)
