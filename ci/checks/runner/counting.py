"""Counts a suite's tests in its log: passed, failed, skipped and why, flaky.

Each function takes the log and whether the command succeeded, and returns a Count.
"""

import re
from dataclasses import dataclass, field

PEER = "it is another process of the tests"


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list = field(default_factory=list)
    flaky: list = field(default_factory=list)
    """Tests that failed and then passed alone. They count neither as passed nor as failed."""


def one_check(log, succeeded):
    """Counts the command as one check."""
    return Count(passed=int(succeeded), failed=int(not succeeded))


def rust_tests(log, _):
    """Counts cargo's result lines.

    A test that cannot run here prints a line that begins with `skipped` and passes. It counts as
    skipped. A function that other tests start as their peer is no test: it is ignored, and counts
    as nothing.
    """
    found = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", log, re.M)
    passed, failed, ignored = (sum(int(row[column]) for row in found) for column in range(3))
    reasons = re.findall(r"^skipped (.+)$", log, re.M)
    peers = len(re.findall(rf"^test .+ \.\.\. ignored, {PEER}$", log, re.M))
    return Count(passed - len(reasons), failed, ignored - peers + len(reasons), reasons)


def counted_line(log, _):
    """Takes the last `N passed, N failed[, N skipped]`, and the lines `skipped …` and `flaky …`."""
    found = re.findall(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", log)
    passed, failed, skipped = found[-1] if found else (0, 0, 0)
    reasons, flaky = (re.findall(rf"^{word} (.+)$", log, re.M) for word in ("skipped", "flaky"))
    return Count(int(passed), int(failed), int(skipped or 0), reasons, flaky)


def pytest_line(log, _):
    closing = (re.findall(r"^.* in [\d.]+s\b.*$", log, re.M) or [""])[-1]
    number = lambda word: sum(int(n) for n in re.findall(rf"(\d+) {word}", closing))
    reasons = re.findall(r"^SKIPPED \[\d+\] \S+ (.+)$", log, re.M)
    return Count(number("passed"), number("failed") + number("error"), number("skipped"), reasons)


def minitest_line(log, _):
    found = re.findall(
        r"(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips", log
    )
    runs, failures, errors, skips = (
        (sum(map(int, column)) for column in zip(*found, strict=True)) if found else (0, 0, 0, 0)
    )
    reasons = re.findall(r"Skipped:\n.*\n(.+)$", log, re.M)
    return Count(runs - failures - errors - skips, failures + errors, skips, reasons)


def doctest_like(words):
    """A counter for a checker whose closing line says how many things it checked."""

    def count(log, succeeded):
        looked = sum(int(n) for n in re.findall(words, log, re.M))
        return Count(passed=looked if succeeded else 0, failed=int(not succeeded))

    return count
