"""As many results as there is memory for can be kept: mappings do not run short."""

import os
import pathlib

import pytest

PROGRAM = pathlib.Path(__file__).with_name("kept_program.py")
FOR_RELEASE = os.environ.get("SHMARRAY_TESTS") == "release"


def test_forty_thousand_results_can_be_kept_though_each_is_mapped(monkeypatch, run_python):
    """A process may have 65,530 mappings. Each of these results took two, and the standard library
    keeps all results.
    """
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")  # the pool's default limits
    run_python(PROGRAM, "loads", 100_000 if FOR_RELEASE else 40_000)


@pytest.mark.parametrize("way", ["queue", "executor", "pool"])
def test_results_of_tasks_can_be_kept_and_take_no_mappings(way, monkeypatch, run_python):
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    count = 100_000 if FOR_RELEASE else 4000
    assert int(run_python(PROGRAM, way, count)) < 1000
