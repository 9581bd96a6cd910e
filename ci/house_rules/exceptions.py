"""Reads exceptions.toml, and finds the entries that are no longer needed."""

import tomllib

from tree import Finding

FILE = "ci/house_rules/exceptions.toml"


class Exceptions:
    """The exceptions of a tree."""

    def __init__(self, text):
        stated = tomllib.loads(text)
        assert stated.keys() <= {"exception"}, stated.keys()
        self.entries = stated.get("exception", [])
        for entry in self.entries:
            assert entry.keys() == {"rule", "path", "what", "reason"}, entry

    def sort(self, rule, findings):
        """Splits a rule's findings into those that are allowed and those that are not."""
        allowed, refused = [], []
        for finding in findings:
            excepted = any(covers(entry, rule, finding) for entry in self.entries)
            (allowed if excepted else refused).append(finding)
        return allowed, refused

    def unneeded(self, rule, findings):
        """A finding for each exception to the rule that no breach of it needs."""
        for entry in self.entries:
            if entry["rule"] == rule and not any(covers(entry, rule, one) for one in findings):
                says = f"the exception for {entry['path']}, {entry['what']}, is no longer needed"
                yield Finding(FILE, 0, entry["what"], says)


def covers(entry, rule, finding):
    return (entry["rule"], entry["path"]) == (rule, finding.path) and entry["what"] in (
        finding.what,
        "*",
    )
