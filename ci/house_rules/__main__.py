"""Checks the house rules that a program can check.

    ci/tidy                       every rule
    ci/tidy width words           these rules
    ci/tidy --list                what the rules are
    ci/tidy --root FOLDER         another copy of the repository

Each rule is a module in rules/, whose docstring is the rule. exceptions.toml holds the exceptions.
"""

import argparse
import pathlib
import sys

from checking import check, rule_named
from exceptions import FILE, Exceptions
from rules import NAMES
from tree import Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(
        prog="ci/tidy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rules", nargs="*", metavar="RULE", help="its name in rules/")
    parser.add_argument("--root", default=ROOT)
    parser.add_argument("--list", action="store_true")
    chosen = parser.parse_args()
    if unknown := set(chosen.rules) - {*NAMES}:
        parser.error(f"no such rule: {', '.join(sorted(unknown))}; --list names them")
    return chosen


def main():
    chosen = arguments()
    tree = Tree(chosen.root)
    if chosen.list:
        for name in NAMES:
            print(f"{name}\n    {rule_named(name).__doc__.splitlines()[0]}")
    else:
        sys.exit(report(tree, chosen.rules or NAMES))


def report(tree, names):
    """Prints every breach; returns the exit code."""
    exceptions = Exceptions(tree.text(FILE))
    passed = failed = 0
    for name in names:
        outcome = check(name, tree, exceptions)
        for finding in outcome.refused:
            print(f"FAILED {finding.path}:{finding.line}: {finding.says} ({name})")
        counts = f"{outcome.holds} hold, {len(outcome.refused)} fail, {outcome.excepted} excepted"
        print(f"{name:16} {counts}")
        passed += outcome.holds
        failed += len(outcome.refused)
    print(f"house rules: {passed} passed, {failed} failed")
    return int(bool(failed))


if __name__ == "__main__":
    main()
