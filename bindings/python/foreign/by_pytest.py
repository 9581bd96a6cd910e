"""Runs other people's tests by pytest, and notes what comes of each and what it leaves in shared
memory.
"""

import argparse
import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import shmarray

QUIET = ("-q", "--tb=short", *("-p", "no:cacheprovider"), *("-p", "no:warnings"))
OPTIONS = (*QUIET, "-c", os.devnull)
"""Options of pytest for every suite: none of this repository's."""
WAY = "way of shmarray"
"""The name of the parameter with the way by which a test runs."""
BEGUN = "begun"


class Recorder:
    """A plugin of pytest: notes the outcomes. A test that has not ended is noted as begun."""

    def __init__(self, note: Callable[[str, str], object]) -> None:
        self.note = note

    def pytest_collection_finish(self, session: Any) -> None:
        for item in session.items:
            self.note(item.nodeid, BEGUN)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.note(report.nodeid, "failed")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.note(report.nodeid, "failed")
        elif report.skipped:
            reason = getattr(report, "wasxfail", "") or report.longrepr[2].removeprefix("Skipped: ")
            self.note(report.nodeid, f"skipped: {reason}")
        elif report.when == "call":
            self.note(report.nodeid, "passed")


class Outcomes(dict[str, str]):
    """The outcome of each test. A failure stays one: it may be at the test's end."""

    def note(self, name: str, outcome: str) -> None:
        if self.get(name) != "failed":
            self[name] = outcome

    def ended(self) -> Iterator[tuple[str, str]]:
        for name, outcome in self.items():
            yield name, "failed" if outcome == BEGUN else outcome


class OtherProcess:
    """Runs pytest in another process, which may die of a test."""

    def __init__(
        self, folder: Path, program: str, path: Sequence[Path | str], silent_seconds: int
    ) -> None:
        """The program, whose file this is, is a plugin there: it adds the option of `add_option`,
        and registers what `recorder` returns. Modules are also found in `path`. A test that takes
        longer than those seconds hangs.
        """
        self._plugin = Path(program)
        self._timeout = f"faulthandler_timeout={silent_seconds}"
        self._file = folder / "outcomes"
        self._file.touch()
        self._shared = Path(os.environ.get("SHMARRAY_DIR", folder)) / "foreign-shared"
        self._shared.mkdir()
        paths = map(str, [*path, self._plugin.parent, os.environ.get("PYTHONPATH", "")])
        self._environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SHMARRAY_DIR": str(self._shared),
        }

    def run(self, *arguments: str, cwd: Path) -> list[tuple[str, str]]:
        """Returns the outcomes of the tests, and what they left in shared memory."""
        options = ["-o", self._timeout, "-o", "faulthandler_exit_on_timeout=true"]
        options += ["-p", self._plugin.stem, f"--outcomes={self._file}"]
        self._python("-m", "pytest", *OPTIONS, *options, *arguments, cwd=cwd)
        self._python("-c", "import shmarray; shmarray.sweep()", cwd=cwd)
        outcomes = Outcomes()
        for line in self._file.read_text().splitlines():
            outcomes.note(*json.loads(line))
        return [*outcomes.ended(), *left_in(self._shared)]

    def _python(self, *arguments: str, cwd: Path) -> None:
        command = [sys.executable, *arguments]
        subprocess.run(command, cwd=cwd, env=self._environment, check=False)


def add_option(parser: Any) -> None:
    parser.addoption("--outcomes")


def recorder(config: Any) -> Recorder:
    """Returns what writes the outcomes down in the process that runs the tests."""

    def note(name: str, outcome: str) -> None:
        with open(config.option.outcomes, "a") as file:
            print(json.dumps([name, outcome]), file=file)

    return Recorder(note)


def way_of(item: Any) -> str:
    """Returns the way by which a test runs: none if it was not chosen."""
    way: str = item.callspec.params.get(WAY, "") if hasattr(item, "callspec") else ""
    return way


@contextlib.contextmanager
def own_directory() -> Iterator[Path]:
    """Shared memory of this process's own."""
    within = os.environ.get("SHMARRAY_DIR")
    with tempfile.TemporaryDirectory(prefix="shmarray-foreign-", dir=within) as directory:
        os.environ["SHMARRAY_DIR"] = directory
        yield Path(directory)


def release() -> None:
    """Gives back what this process keeps."""
    gc.collect()
    shmarray.sweep()


def left_in(directory: Path) -> list[tuple[str, str]]:
    """Returns a failure for each file that is left there."""
    names = [name for name in os.listdir(directory) if "registry" not in name]
    return [(f"{name} is left in shared memory", "failed") for name in names]


def options_of_suite(*others: str) -> argparse.Namespace:
    """Reads `[--all] [WORD …]`, and other switches."""
    parser = argparse.ArgumentParser()
    for name in ("--all", *others):
        parser.add_argument(name, action="store_true")
    parser.add_argument("words", nargs="*")
    return parser.parse_args()
