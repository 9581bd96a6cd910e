"""Runs a package's own tests in a process in which NumPy's arrays are born shared.

    python bindings/python/foreign/allocator.py numpy [FOLDER …]

The tests are those that the package has installed, or those in some of its folders. Every array of
64 bytes and more is born shared from the start on, in this process and in those that it forks. A
test that fails runs again without: if it fails then, too, it counts as skipped.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from by_pytest import OtherProcess, Recorder, add_option, recorder
from differences import Differences

import shmarray

LEAST_BYTES = 64
SWITCH = "SHMARRAY_FOREIGN_ALLOCATOR"
SILENT_SECONDS = 600
SHARED = "/dev/shm"
ARE_BORN_SHARED = "arrays are born shared"


# What pytest calls in the process of the tests, where this file is a plugin.
pytest_addoption = add_option


def pytest_configure(config: Any) -> None:
    outcomes = recorder(config)
    config.pluginmanager.register(outcomes)
    if os.environ.get(SWITCH):
        shmarray.use_allocator(LEAST_BYTES)
        config.add_cleanup(lambda: note_allocations(outcomes))


def note_allocations(outcomes: Recorder) -> None:
    stats = shmarray.allocator_stats()
    print(f"\n{stats['allocations']} arrays were born shared, {stats['fell_back']} fell back")
    outcomes.note(ARE_BORN_SHARED, "passed" if stats["allocations"] else "failed")


def run(root: Path, tests: list[str], *, is_on: bool) -> list[tuple[str, str]]:
    """Returns the outcomes of tests, which are named from the root on."""
    os.environ[SWITCH] = "1" if is_on else ""
    before = os.environ.get("SHMARRAY_DIR")
    with tempfile.TemporaryDirectory(prefix="shmarray-foreign-", dir=before or SHARED) as folder:
        os.environ["SHMARRAY_DIR"] = folder  # on a file system of memory, where a pool has room
        try:
            process = OtherProcess(Path(folder), __file__, [], SILENT_SECONDS)
            return process.run("--rootdir", str(root), *tests, cwd=root)
        finally:
            os.environ["SHMARRAY_DIR"] = before or ""


def main(package: str, *folders: str) -> int:
    spec = __import__(package).__file__
    root = Path(str(spec)).parent.parent
    tests = [f"{package}/{folder}" for folder in folders] or [package]
    outcomes = dict(run(root, tests, is_on=True))
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    again = [name for name in failed if name.startswith(package)]
    if again:
        for name, outcome in run(root, again, is_on=False):
            if name in failed and outcome == "failed":
                outcomes[name] = "skipped: it fails without the allocator, too"
    return Differences(None).judge(outcomes.items())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
