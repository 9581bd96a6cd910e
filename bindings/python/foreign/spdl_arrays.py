"""SPDL's tests of load_npy and load_npz, run with shmarray's in their place.

    python bindings/python/foreign/spdl_arrays.py TESTS

TESTS is the path of SPDL's tests/io/array_test.py, which no package has. Those tests need
`parameterized`. SPDL itself is not needed: both functions are `shmarray.load_npy` and `load_npz`
with shared=False, which view bytes instead of copying, as SPDL's do.

What differs is listed in spdl_arrays.toml.
"""

import functools
import sys
from pathlib import Path
from types import ModuleType

import pytest
from by_pytest import OPTIONS, Outcomes, Recorder
from differences import Differences

import shmarray


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
    outcomes = Outcomes()
    chosen = ["--rootdir", str(path.parent), str(path)]
    pytest.main([*OPTIONS, *chosen], plugins=[Recorder(outcomes.note)])
    return Differences(Path(__file__).with_suffix(".toml")).judge(outcomes.ended())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
