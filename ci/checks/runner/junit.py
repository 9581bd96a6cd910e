"""JUnit files: what our own checkers write, and the counts of all that a suite's programs wrote.

    python ci/checks/runner/junit.py NAME FOLDER    ends a script that sources ci/shell/cases.sh

The runner gives each suite a folder for its files, and names it in SHMARRAY_JUNIT. An outcome is
"passed", "failed", "flaky" or "skipped: REASON". A flaky test failed and then passed alone.
"""

import os
import pathlib
import re
import sys
from dataclasses import dataclass, field
from xml.etree.ElementTree import ParseError

from junitparser import Failure, Skipped
from junitparser.xunit2 import FlakyFailure, JUnitXml, TestCase, TestSuite

VARIABLE = "SHMARRAY_JUNIT"
NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# A Rust test that cannot run here prints such a line and passes.
SAYS_SKIPPED = re.compile(r"^skipped:? (.+)$", re.M)


@dataclass
class Count:
    """The outcomes of tests. A flaky test counts neither as passed nor as failed."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    """Why tests were skipped, one for each."""
    flaky: list[str] = field(default_factory=list)

    def __add__(self, other):
        return Count(
            self.passed + other.passed,
            self.failed + other.failed,
            self.reasons + other.reasons,
            self.flaky + other.flaky,
        )

    def __str__(self):
        counts = f"{self.passed} passed, {len(self.failed)} failed, {len(self.reasons)} skipped"
        return f"{counts}, {len(self.flaky)} flaky" if self.flaky else counts

    @property
    def status(self):
        """The exit status: 0 if nothing failed and something ran."""
        return int(bool(self.failed) or not (self.passed or self.flaky))

    def add(self, case):
        failures = [result for result in case.result if not isinstance(result, Skipped)]
        skips = [result.message or "" for result in case.result if isinstance(result, Skipped)]
        said = SAYS_SKIPPED.search(f"{case.system_out or ''}\n{case.system_err or ''}")
        name = f"{case.classname}: {case.name}" if case.classname else case.name
        if failures:
            self.failed.append(name)
        elif case.flaky_failures():
            self.flaky.append(name)
        elif skips or said:
            self.reasons.append(" ".join((skips[0] if skips else said[1]).split()))
        else:
            self.passed += 1


def count(folder):
    """Counts the cases of all files in a folder. A file that ends too early is a failure.

    A line of the file `cases`, which scripts and Ruby's tests write, is an outcome, a tab, and a
    name.
    """
    counted = Count()
    if (folder / "cases").exists():
        lines = (line.split("\t", 1) for line in (folder / "cases").read_text().splitlines())
        write(folder / "cases.xml", [(name, outcome) for outcome, name in lines])
    for path in sorted(folder.rglob("*.xml")):
        try:
            for suite in JUnitXml.fromfile(str(path)):
                for case in suite:
                    counted.add(case)
        except ParseError as error:
            counted.failed.append(f"{path.name}: {error}")
    return counted


def write(path, outcomes):
    """Writes (test, outcome) pairs as a JUnit file."""
    suite = TestSuite(path.stem)
    suite.add_testcases([case_of(name, outcome) for name, outcome in outcomes])
    xml = JUnitXml()
    xml.add_testsuite(suite)
    xml.write(str(path))


def case_of(name, outcome):
    name, outcome = NOT_IN_XML.sub("?", name), NOT_IN_XML.sub("?", outcome)
    case = TestCase(name)
    if outcome == "failed":
        case.result = [Failure(name)]
    elif outcome == "flaky":
        case.append(FlakyFailure(name))
    elif outcome != "passed":
        case.result = [Skipped(outcome.removeprefix("skipped: "))]
    return case


def close(name, outcomes):
    """Ends a checker: writes its outcomes for the runner, prints their counts, and returns the
    exit status.
    """
    outcomes, counted = list(outcomes), Count()
    for outcome in outcomes:
        counted.add(case_of(*outcome))
    if VARIABLE in os.environ:
        slug = re.sub(r"\W+", "-", name)
        write(pathlib.Path(os.environ[VARIABLE]) / f"{slug}-{os.getpid()}.xml", outcomes)
    print(f"{name}: {counted}", flush=True)
    return counted.status


def close_script(name, folder):
    """Ends a script: counts its cases and what its programs wrote, and returns the exit status."""
    counted = count(folder)
    print(*(f"FAILED: {test}" for test in counted.failed), f"{name}: {counted}", sep="\n")
    return counted.status


if __name__ == "__main__":
    sys.exit(close_script(sys.argv[1], pathlib.Path(sys.argv[2])))
