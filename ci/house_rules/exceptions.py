"""Reads exceptions.toml, and finds the entries that are no longer needed."""

import tomllib
from collections import Counter

from tree import Finding

FILE = "ci/house_rules/exceptions.toml"
MARK = "# Temporary"


class Exceptions:
    """The exceptions of a tree, those for good and the temporary ones."""

    def __init__(self, text):
        stated = tomllib.loads(text)
        self.lasting = stated.get("exception", [])
        for entry in self.lasting:
            assert entry.keys() == {"rule", "path", "what", "reason"}, entry
        self.temporary = stated.get("temporary", {})

    def sort(self, rule, findings):
        """Splits a rule's findings into those that are allowed and those that are not."""
        allowed, refused, counts = [], [], Counter()
        for finding in findings:
            counts[finding.path] += 1
            excepted = self.is_lasting(rule, finding) or self.is_temporary(rule, finding, counts)
            (allowed if excepted else refused).append(finding)
        return allowed, refused

    def is_lasting(self, rule, finding):
        return any(covers(entry, rule, finding) for entry in self.lasting)

    def is_temporary(self, rule, finding, counts):
        known = self.temporary.get(rule, {}).get(finding.path, 0)
        return counts[finding.path] <= known if isinstance(known, int) else finding.what in known

    def unneeded(self, rule, findings):
        """A finding for each exception to the rule that no breach of it needs."""
        for entry in self.lasting:
            if entry["rule"] == rule and not any(covers(entry, rule, one) for one in findings):
                says = f"the exception for {entry['path']}, {entry['what']}, is no longer needed"
                yield Finding(FILE, 0, entry["what"], says)
        for path, known in self.temporary.get(rule, {}).items():
            here = {finding.what for finding in findings if finding.path == path}
            for what in ({"it"} - here if not here else ()) if isinstance(known, int) else known:
                if what not in here:
                    says = f"the temporary exception for {path}, {what}, is no longer needed"
                    yield Finding(FILE, 0, what, says)


def covers(entry, rule, finding):
    return (entry["rule"], entry["path"]) == (rule, finding.path) and entry["what"] in (
        finding.what,
        "*",
    )


def temporary_part(known):
    """The text for the end of exceptions.toml: {rule: (findings, whether to count by file)}."""
    lines = []
    for rule, (findings, by_file) in known.items():
        if findings:
            lines += ["", f"[temporary.{rule}]", *entries(findings, by_file)]
    return "\n".join(lines) + "\n"


def entries(findings, by_file):
    for path in sorted({finding.path for finding in findings}):
        whats = sorted({finding.what for finding in findings if finding.path == path})
        if by_file:
            yield f'"{path}" = {sum(finding.path == path for finding in findings)}'
        else:
            yield f'"{path}" = ['
            yield from (f"    {quoted(what)}," for what in whats)
            yield "]"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
