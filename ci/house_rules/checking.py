"""Applies one rule to a tree."""

import importlib
from typing import NamedTuple

from exceptions import FILE
from tree import Finding


class Outcome(NamedTuple):
    holds: int  # how often the rule was looked at and held
    excepted: int
    refused: list


def rule_named(name):
    """The rule's module: `check(tree)` yields a Finding for each breach, None for what holds."""
    return importlib.import_module(f"rules.{name}")


def check(name, tree, exceptions):
    """What the rule finds, less what is excepted. A rule that looked at nothing has failed."""
    looked = list(rule_named(name).check(tree))
    findings = [one for one in looked if one is not None]
    allowed, refused = exceptions.sort(name, findings)
    refused += exceptions.unneeded(name, findings)
    if not looked:
        refused.append(Finding(FILE, 0, name, f"the rule {name} looked at nothing"))
    return Outcome(len(looked) - len(findings), len(allowed), refused)
