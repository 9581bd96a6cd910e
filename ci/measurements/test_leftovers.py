"""Tests of what ci/bench counts as left behind. `pytest ci/measurements/test_leftovers.py`"""

import mmap
import subprocess
import sys
import tempfile

import leftovers
import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="test-leftovers-", dir=leftovers.SHARED) as name:
        monkeypatch.setenv("SHMARRAY_DIR", name)
        yield tmp_path.__class__(name)


KEEPS = "import shmarray; shmarray.zeros(1000000); print(flush=True); input()"


def test_the_pool_of_a_living_process_is_not_left_behind(folder):
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        other.stdout.readline()
        assert leftovers.files(folder), "it keeps nothing"
        assert leftovers.since(set(), folder) == []
        other.communicate("\n")
    assert leftovers.files(folder) == set()


def test_memory_of_a_killed_process_is_given_back_before_it_is_counted(folder):
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        other.stdout.readline()
        other.kill()
    assert leftovers.files(folder), "it kept nothing"
    assert leftovers.since(set(), folder) == []


def test_a_file_counts_when_nobody_has_it_mapped_or_open_and_it_was_not_there_before(folder):
    for name in ("psm_before", "psm_left", "psm_open", "psm_mapped", "unrelated"):
        (folder / name).write_bytes(b"1")
    (folder / "shmarray-registry-0").touch()
    with open(folder / "psm_open"), open(folder / "psm_mapped", "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 1)
        file.close()
        assert leftovers.since({"psm_before"}, folder) == ["psm_left"]
        mapped.close()
    assert leftovers.since({"psm_before"}, folder) == ["psm_left", "psm_mapped", "psm_open"]
