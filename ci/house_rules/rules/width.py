"""Lines have at most 100 columns, in code and in text.

A row of a Markdown table may be longer, also in a doc comment of Rust. Addresses do not count, and
neither do the targets of links in Markdown and in doc comments. A tab goes to the next eighth
column, and a wide character is two columns. Generated files are not looked at.
"""

import re
import unicodedata

from tree import Finding

MOST_COLUMNS = 100
ADDRESS = re.compile(r"https?://[^\s)>\"';]+")
TARGET = re.compile(r"(?<=\])\([^)\s]*\)")
TABLE = re.compile(r"\s*\|.*\|\s*")
RUST_DOC = re.compile(r"\s*//[/!] ?")
FENCE = re.compile(r"\s*```")
LICENCES = ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE")


def check(tree):
    for path in tree.written():
        if path.rpartition("/")[2] not in LICENCES:
            yield from wide_lines(path, tree.lines(path)) or [None]


def wide_lines(path, lines):
    """A finding for each line that is too wide."""
    found, in_fence = [], False
    for number, line in enumerate(lines, 1):
        text = markdown(path, line)
        in_fence ^= text is not None and bool(FENCE.match(text))
        is_table = text is not None and not in_fence and TABLE.fullmatch(text)
        columns = 0 if is_table else columns_of(line, text is not None)
        if columns > MOST_COLUMNS:
            says = f"the line has {columns} columns, more than {MOST_COLUMNS}"
            found.append(Finding(path, number, "width", says))
    return found


def markdown(path, line):
    """The line's Markdown, or None where it is code."""
    if path.endswith(".md"):
        return line
    doc = RUST_DOC.match(line) if path.endswith(".rs") else None
    return line[doc.end() :] if doc else None


def columns_of(line, is_markdown):
    line = ADDRESS.sub("", line)
    if is_markdown:
        line = TARGET.sub("", line)
    return sum(map(columns_of_one, line.expandtabs(8)))


def columns_of_one(character):
    if unicodedata.combining(character):
        return 0
    return 1 + (unicodedata.east_asian_width(character) in "WF")
