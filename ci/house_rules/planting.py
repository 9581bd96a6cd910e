"""What the rules refuse in a copy, for the tests of the rules."""

import pathlib

from checking import check
from exceptions import FILE, Exceptions
from tree import ALL_OF_RUST, Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPE, TABLE = "core/src/shape.rs", "CONTRIBUTING.md"
PACKAGE = "bindings/python/python/shmarray"
COPIED = ("core/src/", "bindings/cli/src/", f"{PACKAGE}/", TABLE, FILE)


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
