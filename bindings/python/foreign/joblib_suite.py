"""Runs joblib's own tests with our backend in the place of loky, which is joblib's default.

    python joblib_suite.py [--all] [--standard] [WORD …]

The tests are those that joblib has installed. They see a copy of joblib whose loky is ours, and so
do the programs and workers that they start. Those are run that have to do with loky; without --all,
those are left out whose backend does nothing, since there is one job, and those that are others
once more. With words, only the tests whose names contain one are run; with --standard, joblib is as
it is.

What differs is listed in joblib_suite.toml.
"""

import argparse
import inspect
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import joblib
from differences import Differences

MODULES = ("parallel", "config", "memmapping", "memory", "store_backends", "func_inspect")
AGAIN = {
    "context": ("parallel_backend",),
    "verbose": (2, 100),
    "n_jobs": (1, -1, -2, 4),
    "return_as_2": ("generator",),
    "inner_max_num_threads": (1, 4),
}
"""Values of parameters that test again what other values test."""
SILENT_SECONDS = 200
"""A test that takes longer hangs."""
IN_PLACE = """

def _put_in_place():
    from shmarray.joblib import ShmarrayBackend

    from . import _parallel_backends, parallel

    class LokyBackend(ShmarrayBackend):
        __doc__ = ShmarrayBackend.__doc__

    parallel.BACKENDS["loky"] = _parallel_backends.LokyBackend = LokyBackend


_put_in_place()
"""


def write_package(folder):
    """Returns joblib with our backend instead of loky."""
    import shmarray

    package = folder / "joblib"
    shutil.copytree(
        Path(joblib.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    with open(package / "__init__.py", "a") as file:
        file.write(IN_PLACE)
    for path in (
        package,
        Path(shmarray.__file__).parent,
    ):  # some programs look for modules only there
        (package / "test" / path.name).symlink_to(path)


def pytest_addoption(parser):
    parser.addoption("--outcomes")
    parser.addoption("--quick", action="store_true")
    parser.addoption("--word", action="append", default=[])


def pytest_configure(config):
    config.pluginmanager.register(Plugin(config))


class Plugin:
    """Chooses the tests in the process that runs them, and writes down the outcome of each."""

    def __init__(self, config):
        self._options = config.option
        self._outcomes = {}

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self._is_wanted(item)]
        for item in items:
            self._note(item.nodeid, "failed")

    def _is_wanted(self, item):
        code = inspect.getsource(item.function)
        name = item.name
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        backends = [value for key, value in parameters.items() if key.endswith("backend")]
        if item.module.__name__ != "joblib.test.test_parallel" and "Parallel(" not in code:
            return False
        if backends and not any(map(is_loky, backends)):
            return False
        if self._options.quick and any(is_again(*parameter) for parameter in parameters.items()):
            return False
        return not self._options.word or any(word in name for word in self._options.word)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self._note(report.nodeid, "failed")
        elif report.skipped:
            reason = getattr(report, "wasxfail", "") or report.longrepr[2].removeprefix("Skipped: ")
            self._note(report.nodeid, f"skipped: {reason}")
        elif report.when == "call":
            self._note(report.nodeid, "passed")

    def _note(self, name, outcome):
        with open(self._options.outcomes, "a") as file:
            print(json.dumps([name.removeprefix("joblib/test/"), outcome]), file=file)


def is_loky(backend):
    """Returns whether a test with this backend runs the one that replaces loky."""
    return (
        backend in (None, "loky", "back_compat_backend") or type(backend).__name__ == "LokyBackend"
    )


def is_again(name, value):
    return getattr(value, "__name__", value) in AGAIN.get(name, ())


class Runner:
    """Runs the tests in another process, and reports what they leave in shared memory."""

    def __init__(self, folder, options):
        self._folder = folder
        self._outcomes = folder / "outcomes"
        self._shared = Path(os.environ.get("SHMARRAY_DIR", folder)) / "foreign-shared"
        self._shared.mkdir()
        self._options = [
            *([] if options.all else ["--quick"]),
            *(f"--word={word}" for word in options.words),
        ]
        path = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        if not options.standard:
            write_package(folder)
            path.insert(0, str(folder))
        path = os.pathsep.join(filter(None, path))
        self._environment = {**os.environ, "PYTHONPATH": path, "SHMARRAY_DIR": str(self._shared)}

    def run(self):
        """Returns the outcomes of the tests."""
        modules = [f"joblib.test.test_{name}" for name in MODULES]
        options = [
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:warnings",
            "-c",
            os.devnull,
            "-p",
            Path(__file__).stem,
        ]
        options += [
            "-o",
            f"faulthandler_timeout={SILENT_SECONDS}",
            "-o",
            "faulthandler_exit_on_timeout=true",
        ]
        options += [f"--outcomes={self._outcomes}", *self._options]
        self._python("-m", "pytest", *options, "--pyargs", *modules)
        lines = self._outcomes.read_text().splitlines() if self._outcomes.exists() else []
        return dict(map(json.loads, lines))

    def left_behind(self):
        """Returns the names in shared memory that a sweep leaves there."""
        self._python("-c", "import shmarray; shmarray.sweep()")
        return [
            name for name in os.listdir(self._shared) if not name.startswith("shmarray-registry-")
        ]

    def _python(self, *arguments):
        subprocess.run(
            [sys.executable, *arguments], cwd=self._folder, env=self._environment, check=False
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--standard", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
        runner = Runner(Path(folder), options)
        outcomes = [*runner.run().items()]
        outcomes += [(f"left in shared memory: {name}", "failed") for name in runner.left_behind()]
    print(f"joblib {joblib.__version__}, tests of {Path(joblib.__file__).parent / 'test'}")
    differences = os.devnull if options.standard else Path(__file__).with_suffix(".toml")
    return Differences(differences).judge(outcomes)


if __name__ == "__main__":
    sys.exit(main())
