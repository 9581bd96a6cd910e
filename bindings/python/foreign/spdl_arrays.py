"""SPDL's tests of load_npy and load_npz, run with shmarray's in their place.

    python bindings/python/foreign/spdl_arrays.py TESTS

TESTS is the path of SPDL's tests/io/array_test.py, which no package has. Those tests need
`parameterized`. SPDL itself is not needed: both functions are `shmarray.load_npy` and `load_npz`
with shared=False, which view bytes instead of copying, as SPDL's do.

What differs is listed in spdl_arrays.toml.
"""

import functools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from differences import Differences

import shmarray


class Recorder:
    """A plugin of pytest: writes down the outcomes."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"
        elif report.skipped:
            self.outcomes[report.nodeid] = f"skipped: {report.longrepr[2]}"
        elif report.when == "call":
            self.outcomes.setdefault(report.nodeid, "passed")


def install() -> None:
    """Makes `import spdl.io` find our functions."""
    package = ModuleType("spdl")
    module = ModuleType("spdl.io")
    for name in ("load_npy", "load_npz"):
        setattr(module, name, functools.partial(getattr(shmarray, name), shared=False))
    package.__dict__["io"] = module
    sys.modules.update({"spdl": package, "spdl.io": module})


def main(*arguments: str) -> int:
    if not arguments:
        sys.exit("the path of SPDL's tests is missing")
    path = Path(arguments[0]).resolve()
    install()
    recorder = Recorder()
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:warnings", "-c", os.devnull]
    pytest.main([*options, "--rootdir", str(path.parent), str(path)], plugins=[recorder])
    return Differences(Path(__file__).with_suffix(".toml")).judge(recorder.outcomes.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
