"""Runs CPython's tests of concurrent.futures with our ProcessPoolExecutor in the place of the
original.

    python cpython_futures.py [--all] [--tests DIRECTORY] [WORD …]

The tests are those of the running Python: in its own library, or where Debian's
libpython3.X-testsuite puts them, or in DIRECTORY. With words, only the tests whose names contain
one are run; without --all, those are left out that sleep for most of their time. What has nothing
to do with our executor (threads, futures by themselves) is never run.

What differs is listed in cpython_futures.toml.
"""

import argparse
import gc
import importlib
import os
import sys
import sysconfig
import tempfile
import unittest
from pathlib import Path

import record
from by_pytest import Outcomes
from differences import Differences

PACKAGE = "test_concurrent_futures"
SLOW = ("WaitTest", "AsCompletedTest", "test_map_timeout")
PRELUDE = """
import sys
sys.path[:0] = {path!r}
import concurrent.futures, concurrent.futures.process
from shmarray.concurrent import ProcessPoolExecutor
concurrent.futures.ProcessPoolExecutor = ProcessPoolExecutor
concurrent.futures.process.ProcessPoolExecutor = ProcessPoolExecutor
"""


class Tests:
    """Returns the tests, as a part of the package ``test`` for this process and its children."""

    def __init__(self, directory):
        found = [
            place / name for place in self._places(directory) for name in (PACKAGE, f"{PACKAGE}.py")
        ]
        self.path = next((path for path in found if path.exists()), None)

    @staticmethod
    def _places(directory):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        own = [sysconfig.get_path("stdlib") + "/test", f"/usr/lib/{version}/test"]
        return [Path(directory)] if directory else [Path(path) for path in own]

    def make_importable(self):
        """``test`` is a package of ours: these tests, and the running Python's own package."""
        self._place = tempfile.TemporaryDirectory(
            prefix="foreign-"
        )  # until the end, also in forked children
        package = Path(self._place.name) / "test"
        package.mkdir()
        own = os.path.join(sysconfig.get_path("stdlib"), "test")
        (package / "__init__.py").write_text(f"__path__.append({own!r})\n")
        (package / self.path.name).symlink_to(self.path)
        sys.path.insert(0, self._place.name)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)

    def modules(self):
        if self.path.suffix == ".py":
            return [f"test.{PACKAGE}"]
        return sorted(f"test.{PACKAGE}.{path.stem}" for path in self.path.glob("test_*.py"))


def put_in_place():
    """Our executor is found where the tests look for the original, and in the programs that they
    start.
    """
    exec(PRELUDE.format(path=[]), {})
    from shmarray.concurrent import ProcessPoolExecutor

    ProcessPoolExecutor._call_queue = (
        _NoQueue()
    )  # two tests wait for a thread that ours does not have
    helper = importlib.import_module("test.support.script_helper")
    helper.assert_python_ok = _with_prelude(helper.assert_python_ok)


class _NoQueue:
    def join_thread(self):
        pass


def _with_prelude(run):
    def run_with_prelude(*arguments, **environment):
        first, code, *rest = arguments
        assert first == "-c"
        return run(first, PRELUDE.format(path=sys.path) + code, *rest, **environment)

    return run_with_prelude


class Recorder(record.Recorder):
    def startTest(self, test):  # noqa: N802
        # The executor of a failed test is in a cycle, and its workers hold what later tests need.
        gc.collect()
        super().startTest(test)


def is_wanted(test, options):
    name = test.id()
    if "ProcessPool" not in name and "FailingInitializerResources" not in name:
        return "_FailedTest" in name
    if not options.all and any(word in name for word in SLOW):
        return False
    return not options.words or any(word in name for word in options.words)


def looks_only_at_its_own(test):
    """False for tests that look at what the whole process has, and so come first:

    other modules have none of it.
    """
    return "FailingInitializerResources" not in test.id()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--tests")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    tests = Tests(options.tests)
    differences = Differences(Path(__file__).with_suffix(".toml"))
    if tests.path is None:
        print(
            f"No test.{PACKAGE} of Python {sys.version.split()[0]}: it is in Debian's "
            f"libpython3.X-testsuite."
        )
        return differences.judge([])
    tests.make_importable()
    put_in_place()
    found = unittest.defaultTestLoader.loadTestsFromNames(tests.modules())
    wanted = [
        test
        for test in record.flat(found)
        if is_wanted(test, options) and not differences.hangs(record.name_of(test))
    ]
    outcomes = Outcomes()

    def note(name, what, text):
        print(name, what, text, flush=True)
        outcomes.note(name, f"skipped: {text}" if what == "skipped" else what)

    unittest.TestSuite(sorted(wanted, key=looks_only_at_its_own)).run(Recorder(note))
    print(f"Python {sys.version.split()[0]}, tests of {tests.path}")
    return differences.judge(outcomes.ended())


if __name__ == "__main__":
    sys.exit(main())
