"""Runs the tests of Dask's distributed with `shmarray.dask` registered, and without it.

    python bindings/python/foreign/distributed_suite.py CHECKOUT [PATH …]

CHECKOUT is distributed's source of the version that is installed; its tests are in no package.
PATHs below it choose tests; by default those of serialization, comms, spilling, actors, nannies and
LocalCluster. The tests need `pytest-timeout`.

A test counts if it passes without shmarray. What differs is listed in distributed_suite.toml.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from differences import Differences

HERE = Path(__file__).parent
PATHS = (
    "protocol/tests",
    "comm/tests",
    "deploy/tests/test_local.py",
    "tests/test_actor.py",
    "tests/test_spill.py",
    "tests/test_nanny.py",
    "tests/test_core.py",
    "tests/test_batched.py",
    "tests/test_system_monitor.py",
    "tests/test_worker_memory.py",
    "tests/test_utils_comm.py",
)
# A test that fails runs twice more: some depend on how fast the machine is.
OPTIONS = ("-q", "-p", "no:cacheprovider", "--timeout", "120", "--reruns", "2", "--color=no")


def outcomes(checkout: Path, paths: tuple[str, ...], *plugins: str) -> dict[str, str]:
    """Runs the tests in a process of their own. Returns how each ended."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        chosen = [str(checkout / "distributed" / path) for path in paths]
        subprocess.run(
            [sys.executable, "-m", "pytest", *OPTIONS, *plugins, f"--junitxml={report}", *chosen],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(checkout)])},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        cases = ElementTree.parse(report).iter("testcase")
        return {f"{case.get('classname')}.{case.get('name')}": ended(case) for case in cases}


def ended(case: ElementTree.Element) -> str:
    kinds = {part.tag for part in case}
    if kinds & {"failure", "error"}:
        return "failed"
    skipped = case.find("skipped")
    return "passed" if skipped is None else f"skipped: {(skipped.get('message') or '')[:60]}"


def main(*arguments: str) -> int:
    if not arguments:
        sys.exit("the folder of distributed's source is missing")
    checkout = Path(arguments[0]).resolve()
    paths = arguments[1:] or PATHS
    plain = outcomes(checkout, paths)
    registered = outcomes(checkout, paths, "-p", "dask_registered")
    for name in sorted(plain.keys() - registered.keys()):
        registered[name] = "failed"
    counted = {
        name: how
        if plain.get(name) in (None, "passed")
        else f"skipped: does not pass without shmarray ({plain[name][:7]})"
        for name, how in registered.items()
    }
    for name, how in counted.items():
        print(name, how)
    return Differences(Path(__file__).with_suffix(".toml")).judge(counted.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
