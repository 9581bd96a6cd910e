"""`use` declarations and paths of Rust, in every form, as tuples of names.

`use a::{self, b::{c as d, *}};` has the paths ("a",), ("a", "b", "c") named d, and ("a", "b", "*").
"""

from typing import NamedTuple


class Use(NamedTuple):
    path: tuple
    name: str  # what the path is called here; "*" for everything in it
    line: int
    is_public: bool


def parse_use(found, start, is_public):
    """The paths of the `use` at `start`, and the index of its semicolon."""
    uses, index = [], start + 1
    index = _tree(found, index, (), uses)
    return [Use(path, name, line, is_public) for path, name, line in uses], index


def _tree(found, index, prefix, uses):
    """Adds the paths of one tree; returns the index after it."""
    path, line = prefix, found[index].line
    while True:
        text = found[index].text
        if text == "::":
            path = path or ("::",)
            index += 1
        elif text == "{":
            return _branches(found, index, path, uses)
        elif text == "*":
            uses.append(((*path, "*"), "*", line))
            return index + 1
        elif text in ",};":
            uses.append((path, path[-1], line))
            return index
        elif text == "as":
            uses.append((path, found[index + 1].text, line))
            return index + 2
        else:
            path = path if text == "self" and path else (*path, text)
            index += 1


def _branches(found, index, path, uses):
    index += 1
    while found[index].text != "}":
        index = index + 1 if found[index].text == "," else _tree(found, index, path, uses)
    return index + 1


def path_at(found, index):
    """The path that begins at a word, `a::b::c`, and the index after it."""
    path = [found[index].text]
    index += 1
    while index + 1 < len(found) and found[index].text == "::" and found[index + 1].is_word:
        path.append(found[index + 1].text)
        index += 2
    return tuple(path), index
