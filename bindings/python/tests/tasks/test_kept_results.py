"""As many results as there is memory for can be kept: mappings do not run short."""

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("kept_program.py")
FOR_RELEASE = os.environ.get("SHMARRAY_TESTS") == "release"
COUNT = 100_000 if FOR_RELEASE else 40_000
"""A process may have 65,530 mappings. Each of these results took two, and the standard library
keeps all results.
"""


@pytest.mark.parametrize("way", ["queue", "executor", "pool", "loads"])
def test_forty_thousand_results_can_be_kept(way, monkeypatch):
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")  # the pool's default limits
    done = subprocess.run(
        [sys.executable, PROGRAM, way, str(COUNT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
