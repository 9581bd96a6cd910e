"""CONTRIBUTING's table has every suite, says which forms each has, and names no other."""

import pathlib
import re
import sys

from tree import Finding

SUITES = pathlib.Path(__file__).resolve().parents[2] / "suites"
TABLE = "CONTRIBUTING.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
# Suites that a machine may lack something for.
ABSENT_HERE = {
    "Python 3.x",
    "Python 3.x: CPython's tests of multiprocessing",
    "Python 3.x: CPython's tests of futures",
    "examples: Ruby",
}
# A form that is absent without a Numo.
FORM_ABSENT_HERE = ("Ruby", "release")


def check(tree):
    forms = {form: names_of(suites) for form, suites in listed_forms().items()}
    table = {}
    for number, line in enumerate(tree.lines(TABLE), 1):
        if row := ROW.match(line):
            name, *cells = row.groups()
            if name in table and name != "---":
                yield Finding(TABLE, number, name, f"the table has two rows for {name}")
            table[name] = number, [cell != "–" for cell in cells]
    every = set().union(*forms.values())
    for name in sorted(every):
        yield from about_suite(name, table, forms)
    for name in sorted(table.keys() - every - ABSENT_HERE - {"suite", "---"}):
        says = f"the table names the suite {name}, which ci/suites does not have"
        yield Finding(TABLE, table[name][0], name, says)


def listed_forms():
    """What each form of `ci/test` runs, in the order of the table's columns."""
    if str(SUITES) not in sys.path:
        sys.path.append(str(SUITES))
    import listed

    return listed.FORMS


def names_of(suites):
    return {re.sub(r"^Python 3\.\d+", "Python 3.x", suite[0]) for suite in suites}


def about_suite(name, table, forms):
    if name not in table:
        yield Finding(TABLE, 0, name, f"the table lacks the suite {name}")
        return
    line, cells = table[name]
    for says_so, (form, names) in zip(cells, forms.items(), strict=True):
        says = f"the table says that {name} has {'a' if says_so else 'no'} {form} form"
        is_right = says_so == (name in names) or (says_so and (name, form) == FORM_ABSENT_HERE)
        yield None if is_right else Finding(TABLE, line, name, says)
