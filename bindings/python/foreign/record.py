"""python record.py MODULE OUTCOMES [TEST …]: runs a module's tests, and writes what comes of each
into a file, at once.

Without TEST it runs none of them and says their names.
"""

import json
import signal
import sys
import unittest
from collections.abc import Callable, Iterator
from typing import Any


def name_of(test: Any) -> str:
    """Returns the class and method of a test."""
    return ".".join(test.id().split(".")[-2:])


class Recorder(unittest.TestResult):
    """Notes tests: the name, the outcome, and the explanation."""

    def __init__(self, note: Callable[[str, str, str], object]) -> None:
        super().__init__()
        self._note = note

    def _write(self, test: Any, what: str, text: str = "") -> None:
        self._note(name_of(test), what, text)

    def startTest(self, test: Any) -> None:  # noqa: N802 (unittest's names)
        super().startTest(test)
        self._write(test, "begun")

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        self._write(test, "passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        self._write(test, "skipped", reason)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802, ARG002
        self._write(test, "passed")

    def addFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        text = self._exc_info_to_string(err, test)  # type: ignore[attr-defined]
        self._write(test, "failed", text)

    addError = addFailure  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802, ARG002
        if err is not None:
            self.addFailure(test, err)


def flat(suite: Any) -> Iterator[Any]:
    """Yields the tests of a suite of suites."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main(module: str, path: str, *names: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the starter may have ignored it
    from test.support import script_helper  # type: ignore[import-not-found]

    # For the programs that the tests start.
    script_helper.interpreter_requires_environment = lambda: True
    tests = list(flat(unittest.defaultTestLoader.loadTestsFromName(module)))
    if not names:
        print("\n".join(map(name_of, tests)))
        return
    with open(path, "a") as file:

        def note(*outcome: str) -> None:
            print(json.dumps(outcome), file=file, flush=True)

        unittest.TestSuite(test for test in tests if name_of(test) in names).run(Recorder(note))


if __name__ == "__main__":
    main(*sys.argv[1:])
