"""What is kept for reuse: the memory of arrays that are gone, and mappings."""

import gc
import os

import numpy as np
import pytest

import shmarray
from working import allocated_bytes


@pytest.fixture(autouse=True)
def pool(directory, monkeypatch):
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", str(1 << 28))
    yield directory
    shmarray.sweep()


def segment(array):
    return shmarray.handle(array).segment


@pytest.mark.parametrize("count", [10, 5_000, 200_000, 2_000_000])
def test_the_next_array_has_the_memory_of_the_last(count):
    first = shmarray.full(count, 7, "u1")
    text = str(shmarray.handle(first))
    place = segment(first)
    del first
    gc.collect()
    second = shmarray.zeros(count, "u1")
    assert segment(second) == place
    assert not second.any()
    with pytest.raises(shmarray.StaleHandleError):
        shmarray.attach(text)


def test_empty_is_not_cleared_and_zeros_are():
    shmarray.full(100_000, 5, "u1")  # gone at once
    assert shmarray.empty(100_000, "u1").sum() in (0, 500_000)
    assert not shmarray.zeros(100_000, "u1").any()
    assert not shmarray.zeros_like(np.ones(100_000, "u1")).any()


def test_share_and_array_hold_what_they_were_given_in_used_memory():
    for value in range(1, 9):
        source = np.full((300, 700), value, "f4")
        assert np.array_equal(shmarray.share(source), source)
        assert np.array_equal(shmarray.array(source.T), source.T)
        assert np.array_equal(shmarray.share(source[::-2, ::3]), source[::-2, ::3])


def test_reused_memory_is_private_and_has_the_right_values():
    for value in range(1, 9):
        loaded = shmarray.loads(shmarray.dumps(np.full(50_000, value, "i8")))
        assert (loaded == value).all()
        loaded[:] = -1
        assert (loaded == -1).all()


def test_a_sweep_gives_the_memory_back(directory):
    shmarray.full(1_000_000, 1, "u1")  # gone at once
    gc.collect()
    assert allocated_bytes(directory) >= 1_000_000
    assert shmarray.sweep().bytes >= 1_000_000
    assert allocated_bytes(directory) == 0


def test_a_process_leaves_nothing_at_its_end(directory, run_python):
    run_python("import shmarray; a = shmarray.ones(100_000); del a; b = shmarray.ones(9)")
    assert [name for name in os.listdir(directory) if "registry" not in name] == []


def test_nonsense_is_refused(monkeypatch):
    shmarray.sweep()
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", "some")
    with pytest.raises(ValueError, match=r"SHMARRAY_POOL_BYTES.*some"):
        shmarray.zeros(3)
