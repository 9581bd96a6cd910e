"""Reads exceptions.toml, and finds the entries that are no longer needed."""

import tomllib

from rules import NAMES
from tree import Finding

FILE = "ci/house_rules/exceptions.toml"
FEWEST_WORDS_OF_A_REASON = 3


class Exceptions:
    """The exceptions of a tree."""

    def __init__(self, text):
        stated = tomllib.loads(text)
        assert stated.keys() <= {"exception"}, stated.keys()
        self.entries = stated.get("exception", [])
        for entry in self.entries:
            assert entry.keys() - {"times"} == {"rule", "path", "what", "reason"}, entry
            assert entry["rule"] in NAMES, f"no such rule: {entry}"
            assert len(entry["reason"].split()) >= FEWEST_WORDS_OF_A_REASON, f"no reason: {entry}"

    def sort(self, rule, findings):
        """Splits a rule's findings into those that are allowed and those that are not."""
        left = [entry.get("times", 1) for entry in self.entries]
        allowed, refused = [], []
        for finding in findings:
            entry = self.entry_of(rule, finding, left)
            if entry is None:
                refused.append(finding)
            else:
                left[entry] -= 1
                allowed.append(finding)
        return allowed, refused

    def entry_of(self, rule, finding, left):
        """The index of an entry that allows the finding, and is not used up."""
        for index, entry in enumerate(self.entries):
            if left[index] and covers(entry, rule, finding):
                return index
        return None

    def unneeded(self, rule, findings):
        """A finding for each exception to the rule that fewer breaches need than it allows."""
        for entry in self.entries:
            needed = sum(covers(entry, rule, one) for one in findings)
            if entry["rule"] == rule and needed < entry.get("times", 1):
                is_needed = f"is needed {needed} times" if needed else "is no longer needed"
                says = f"the exception for {entry['path']}, {entry['what']}, {is_needed}"
                yield Finding(FILE, 0, entry["what"], says)


def covers(entry, rule, finding):
    stated = (entry["rule"], entry["path"], entry["what"])
    return stated == (rule, finding.path, finding.what)
