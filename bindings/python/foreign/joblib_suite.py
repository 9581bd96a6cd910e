"""Runs joblib's own tests with our backend in the place of loky, which is joblib's default.

    python joblib_suite.py [--all] [--standard] [WORD …]

The tests are those that joblib has installed. They see a copy of joblib whose loky is ours, and so
do the programs and workers that they start. Those are run that have to do with loky; without --all,
those are left out whose backend does nothing, since there is one job, and those that are others
once more. With words, only the tests whose names contain one are run; with --standard, joblib is as
it is.

What differs is listed in joblib_suite.toml.
"""

import inspect
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import joblib
from by_pytest import OtherProcess, add_option, options_of_suite, recorder
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
LIMIT = re.compile(r"Timer\((2 \* )?timeout,")
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
    # joblib ends a program after 10 s, which a busy machine exceeds.
    testing = package / "testing.py"
    text, limits = LIMIT.subn(f"Timer({SILENT_SECONDS},", testing.read_text())
    assert limits == 2
    testing.write_text(text)
    for path in (
        package,
        Path(shmarray.__file__).parent,
    ):  # some programs look for modules only there
        (package / "test" / path.name).symlink_to(path)


def pytest_addoption(parser):
    add_option(parser)
    parser.addoption("--quick", action="store_true")
    parser.addoption("--word", action="append", default=[])


def pytest_configure(config):
    config.pluginmanager.register(Choice(config.option))
    config.pluginmanager.register(recorder(config))


class Choice:
    """Chooses the tests in the process that runs them."""

    def __init__(self, options):
        self._options = options

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self._is_wanted(item)]

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


def is_loky(backend):
    """Returns whether a test with this backend runs the one that replaces loky."""
    return (
        backend in (None, "loky", "back_compat_backend") or type(backend).__name__ == "LokyBackend"
    )


def is_again(name, value):
    return getattr(value, "__name__", value) in AGAIN.get(name, ())


def run(folder, options):
    path = []
    if not options.standard:
        write_package(folder)
        path.append(folder)
    chosen = [] if options.all else ["--quick"]
    chosen += [f"--word={word}" for word in options.words]
    modules = [f"joblib.test.test_{name}" for name in MODULES]
    process = OtherProcess(folder, __file__, path, SILENT_SECONDS)
    for name, outcome in process.run(*chosen, "--pyargs", *modules, cwd=folder):
        yield name.removeprefix("joblib/test/"), outcome


def main():
    options = options_of_suite("--standard")
    with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
        outcomes = [*run(Path(folder), options)]
    print(f"joblib {joblib.__version__}, tests of {Path(joblib.__file__).parent / 'test'}")
    differences = os.devnull if options.standard else Path(__file__).with_suffix(".toml")
    return Differences(differences).judge(outcomes)


if __name__ == "__main__":
    sys.exit(main())
