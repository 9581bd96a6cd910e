"""Runs CPython's own tests of multiprocessing over shmarray.multiprocessing.

    python foreign/cpython_multiprocessing.py                 what ci runs: --quick, --ci
    python foreign/cpython_multiprocessing.py --whole         all of them
    python foreign/cpython_multiprocessing.py --only PATTERN  matching ones, as "spawn.*TestQueue*"
    python foreign/cpython_multiprocessing.py --standard      the standard module, for comparison

ci runs 698 of the 1179 tests of CPython 3.11 (of 3.13, 737 of 1224): those that are not in LONG.

The tests are those that the running Python has installed, with the name of the module changed. What
may differ stands, with the reason, in cpython_multiprocessing.toml beside this file. A difference
that is not there fails the run, and so does one that is there and did not happen, and what is left
in shared memory. A test that fails and then passes alone is flaky, and does not count as passed.
"""

import argparse
import contextlib
import fnmatch
import importlib.util
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from differences import Differences

HERE = Path(__file__).parent
SUITES = ("fork", "spawn", "forkserver", "test_multiprocessing_main_handling")
SOURCES = (
    "_test_multiprocessing",
    "mp_fork_bomb",
    "mp_preload",
    "mp_preload_flush",
    "mp_preload_large_sysargv",
    "mp_preload_main",
    "mp_preload_sysargv",
    "test_multiprocessing_main_handling",
)
"""The modules of the package `test` that are used; not every Python has all of them."""
LONG = (
    *(
        f"{method}.*Test{one}.*"
        for method in ("spawn", "forkserver")
        for one in ("Barrier", "Condition")
    ),
    "test_multiprocessing_main_handling.*",
    "*.WithThreads*",
    "spawn.*.test_pool_worker_lifetime*",
    "spawn.TestSyncManagerTypes.*",
    "spawn.TestWait.*",
    "*.TestWait.test_wait_[it]*",
    "*TestPoll*.test_[bp]*",
    "*.TestResourceTracker.*",
    "*.TestForkAwareThreadLock.*",
    "*.test_thread_safety",
    "*.test_map_no_failfast",
    "*.test_rapid_restart",
)
"""The tests that ci leaves out: tests that take long, and tests of the standard module's own
code.
"""
LATER = tuple(
    f"{method}.{one}.*"
    for method in ("spawn", "forkserver")
    for one in ("WithManager*", "TestSyncManagerTypes", "WithProcessesTestSharedMemory")
)
"""The tests of --ci. --quick has the same under fork: how a manager or the standard module's shared
memory is used does not depend on how a process was started, and starts of processes and managers
under these methods have tests of their own.
"""
SILENT_SECONDS = 400
"""A test that takes longer hangs. One of the standard ThreadPool may wait for 300."""
NAMES = re.compile(
    r"""(?<![\w.])from\ multiprocessing(?=[. ])
    | (?<![\w.])import\ multiprocessing(?P<part>\.\w+)?(?P<others>,\ \w+)?(?!\w)
    | (?<=['"])multiprocessing\.""",
    re.VERBOSE,
)
Outcomes = dict[str, tuple[str, str]]
"""The outcome of each test, and its explanation."""


def ours(name: re.Match[str]) -> str:
    """The text that replaces the module's name."""
    if name[0].startswith("from"):
        return "from shmarray.multiprocessing"
    if not name[0].startswith("import"):
        return "shmarray.multiprocessing."
    part = f"import shmarray.multiprocessing{name['part']}; " if name["part"] else ""
    others = f"import {name['others'][2:]}; " if name["others"] else ""
    return f"{part}{others}from shmarray import multiprocessing"


def write_package(folder: Path, over_standard: bool) -> None:
    """Writes the tests as modules of a package `foreign`."""
    package = folder / "foreign"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in SOURCES:
        spec = importlib.util.find_spec(f"test.{name}")
        if spec is None or spec.origin is None:
            continue
        text = re.sub(
            rf"\btest\.({'|'.join(SOURCES)})\b", r"foreign.\1", Path(spec.origin).read_text()
        )
        text = text.replace(
            "test.test_multiprocessing_forkserver", "foreign.forkserver"
        )  # what its server preloads
        (package / f"{name}.py").write_text(text if over_standard else NAMES.sub(ours, text))
    for method in ("fork", "spawn", "forkserver"):
        lines = (
            "from foreign import _test_multiprocessing",
            "_test_multiprocessing.install_tests_in_module_dict",
        )
        (package / f"{method}.py").write_text("\n".join(lines) + f"(globals(), {method!r})\n")


class Runner:
    """Runs tests of the package in other processes."""

    def __init__(self, folder: Path, shared_memory: str) -> None:
        self._folder = folder
        path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        self._environment = {**os.environ, "PYTHONPATH": path, "SHMARRAY_DIR": shared_memory}

    def _command(self, suite: str, outcomes: Path, names: list[str]) -> Any:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            str(HERE / "record.py"),
            f"foreign.{suite}",
            str(outcomes),
            *names,
        ]
        return {
            "args": command,
            "cwd": self._folder,
            "env": self._environment,
            "start_new_session": True,
        }

    def names(self, suite: str) -> list[str]:
        """Yields all tests of a suite."""
        said = subprocess.check_output(**self._command(suite, Path(os.devnull), []), text=True)
        return [f"{suite}.{name}" for name in said.split()]

    def run(self, names: list[str]) -> Outcomes:
        """Returns the outcomes of these tests."""
        mine = [[name for name in names if name.startswith(f"{suite}.")] for suite in SUITES]
        with ThreadPoolExecutor(len(SUITES)) as runners:
            parts = runners.map(self._run_suite, SUITES, mine)
            return {name: outcome for part in parts for name, outcome in part.items()}

    def _run_suite(self, suite: str, names: list[str]) -> Outcomes:
        outcomes: Outcomes = {}
        while left := [name for name in names if name not in outcomes]:
            outcomes |= self._run_until_one_hangs(suite, left)
        return outcomes

    def _run_until_one_hangs(self, suite: str, names: list[str]) -> Outcomes:
        outcomes = Outcomes()
        begun = names[0]
        path = self._folder / f"outcomes-{suite}.jsonl"
        path.write_text("")
        with open(self._folder / f"said-{suite}.txt", "w+") as said:
            stem = [name.removeprefix(f"{suite}.") for name in names]
            ended = self._watch(
                subprocess.Popen(**self._command(suite, path, stem), stdout=said, stderr=said), path
            )
            said.seek(0)
            why = said.read()[-3000:]
        for name, what, text in map(json.loads, path.read_text().splitlines()):
            if what == "begun":
                begun = f"{suite}.{name}"
            elif outcomes.get(f"{suite}.{name}", ("", ""))[0] != "failed":
                outcomes[f"{suite}.{name}"] = (what, text)
        if ended:
            return dict.fromkeys(names, ("failed", "it did not run: " + why)) | outcomes
        return outcomes | {begun: ("failed", "it hangs: " + why)}

    def left_behind(self) -> list[str]:
        """Returns the names in shared memory that a sweep leaves there."""
        subprocess.run(
            [sys.executable, "-c", "import shmarray; shmarray.sweep()"],
            env=self._environment,
            check=True,
        )
        names = os.listdir(self._environment["SHMARRAY_DIR"])
        return [name for name in names if not name.startswith("shmarray-registry-")]

    def _watch(self, process: subprocess.Popen[Any], outcomes: Path) -> bool:
        """Returns whether the process ended by itself. Its remaining children are ended, too."""
        size = -1
        try:
            while size != (size := outcomes.stat().st_size):
                try:
                    process.wait(SILENT_SECONDS)
                except subprocess.TimeoutExpired:
                    continue
                return True
            return False
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGABRT)
            process.wait()


def again_if_new(runner: Runner, outcomes: Outcomes, differences: Differences) -> Outcomes:
    """What came of tests that failed but need not, when each has run again alone:

    those that passed are flaky.
    """
    new = [
        name
        for name, (what, _) in outcomes.items()
        if what == "failed" and differences.reason(name) is None
    ]
    alone = Outcomes()
    for name in new:
        alone |= runner.run([name])
        what, _ = alone[name]
        _, text = outcomes[name] if what == "passed" else alone[name]
        if what == "passed":
            alone[name] = ("flaky", text)
        print(f"{name} failed, and {what} alone:\n{text}\n")
    return alone


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def is_chosen(name: str, options: argparse.Namespace) -> bool:
    if options.only:
        return matches(name, options.only)
    if not options.whole and matches(name, LONG):
        return False
    if options.quick or options.ci:
        return matches(name, LATER) == options.ci
    return True


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("--whole", "--quick", "--ci", "--standard"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN")
    options = parser.parse_args()
    differences = Differences(None if options.standard else HERE / "cpython_multiprocessing.toml")
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir="/dev/shm") as shared_memory,
    ):
        write_package(Path(folder), options.standard)
        runner = Runner(Path(folder), shared_memory)
        names = [name for suite in SUITES for name in runner.names(suite)]
        names = [name for name in names if is_chosen(name, options)]
        outcomes = runner.run(names)
        outcomes |= again_if_new(runner, outcomes, differences)
        verdicts = [
            (name, f"{what}: {text}" if what == "skipped" else what)
            for name, (what, text) in outcomes.items()
        ]
        if not options.standard:
            verdicts += [
                (f"{name} is left in shared memory", "failed") for name in runner.left_behind()
            ]
    print(f"{len(outcomes)} tests of CPython {platform.python_version()}")
    return differences.judge(verdicts)


if __name__ == "__main__":
    sys.exit(main())
