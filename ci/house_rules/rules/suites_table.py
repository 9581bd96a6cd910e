"""CONTRIBUTING's table has every suite, says whether it has a long form, and names no other."""

import pathlib
import re
import sys

from tree import Finding

SUITES = pathlib.Path(__file__).resolve().parents[2] / "suites"
TABLE = "CONTRIBUTING.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
# Suites that a machine may lack something for.
ABSENT_HERE = {"Python 3.x", "examples: Ruby"}


def check(tree):
    short, long = (names_of(form) for form in forms())
    table = {}
    for number, line in enumerate(tree.lines(TABLE), 1):
        if row := ROW.match(line):
            if row[1] in table and row[1] != "---":
                yield Finding(TABLE, number, row[1], f"the table has two rows for {row[1]}")
            table[row[1]] = number, row[3] != "–"
    for name in sorted(short | long):
        yield about_suite(name, table, short, long)
    for name in sorted(table.keys() - short - ABSENT_HERE - {"suite", "---"}):
        says = f"the table names the suite {name}, which ci/suites does not have"
        yield Finding(TABLE, table[name][0], name, says)


def forms():
    """What `ci/test` and `ci/test --long` run."""
    if str(SUITES) not in sys.path:
        sys.path.append(str(SUITES))
    import listed

    return listed.SHORT, listed.LONG


def names_of(suites):
    return {re.sub(r"^Python 3\.\d+$", "Python 3.x", suite[0]) for suite in suites}


def about_suite(name, table, short, long):
    if name not in short:
        return Finding(TABLE, 0, name, f"the suite {name} has no form in ci/test")
    if name not in table:
        return Finding(TABLE, 0, name, f"the table lacks the suite {name}")
    line, has_long = table[name]
    if has_long == (name in long):
        return None
    says = f"the table says that {name} has {'a' if has_long else 'no'} long form"
    return Finding(TABLE, line, name, says)
