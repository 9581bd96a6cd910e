"""Lines have at most 100 columns, in code and in text.

A row of a Markdown table may be longer, also in a doc comment of Rust. Addresses and the targets
of links do not count. Generated files are not looked at.
"""

import re

from tree import Finding

MOST_COLUMNS = 100
ADDRESS = re.compile(r"https?://[^\s)>\"']+|(?<=\])\([^)\s]*\)")
TABLE = {".md": re.compile(r"\s*\|"), ".rs": re.compile(r"\s*//[/!] \|.*\|$")}
NO_TABLE = re.compile(r"(?!)")
LICENCES = ("LICENSE", "LICENSE-MIT", "LICENSE-APACHE")


def check(tree):
    for path in tree.written():
        name = path.rpartition("/")[2]
        if name in LICENCES:
            continue
        table = TABLE.get(name[name.rfind(".") :], NO_TABLE)
        yield from wide_lines(path, tree.lines(path), table) or [None]


def wide_lines(path, lines, table):
    """A finding for each line that is too wide."""
    found = []
    for number, line in enumerate(lines, 1):
        columns = 0 if table.match(line) else columns_of(line)
        if columns > MOST_COLUMNS:
            says = f"the line has {columns} columns, more than {MOST_COLUMNS}"
            found.append(Finding(path, number, "width", says))
    return found


def columns_of(line):
    return len(line) if len(line) <= MOST_COLUMNS else len(ADDRESS.sub("", line))
