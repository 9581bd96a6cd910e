"""A container's 64 MB of shared memory: nothing fails there that the standard library does; only what promises
shared memory says that it is full.
"""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import shmarray
from conftest import files_in

PROGRAM = pathlib.Path(__file__).with_name("small_memory_program.py")
MIB = 1 << 20


@pytest.fixture
def docker(small_tmpfs, monkeypatch):
    """Shared memory as Docker gives it, and what each process keeps as for a user who sets nothing."""
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    return small_tmpfs("size=64m")


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_what_works_with_the_standard_library_works(docker, method):
    done = subprocess.run([sys.executable, PROGRAM, method], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    shmarray.sweep()
    assert files_in(docker) == []


@pytest.mark.usefixtures("docker")
def test_what_promises_shared_memory_says_that_it_is_full():
    large = np.ones(100 * MIB, np.uint8)
    for make in (lambda: shmarray.zeros(large.shape, "u1"), lambda: shmarray.share(large)):
        with pytest.raises(MemoryError, match="shared memory is full"):
            make()
    with pytest.raises(MemoryError, match="shared memory is full"):
        shmarray.share({"a": large})


@pytest.mark.usefixtures("docker")
def test_results_that_are_kept_leave_shared_memory_to_others():
    kept = []
    for number in range(60):
        kept.append(shmarray.loads(shmarray.dumps(np.full(4 * MIB, number, np.uint8))))
    assert all((array == number).all() and array.flags.writeable for number, array in enumerate(kept))
    assert shmarray.zeros(24 * MIB, "u1").nbytes == 24 * MIB


@pytest.mark.usefixtures("docker")
def test_a_copy_is_this_process_s_own():
    source = np.arange(10 * MIB, dtype=np.int32).reshape(2, -1).T
    data = shmarray.dumps({"a": source, "b": source[::2]})
    got = shmarray.loads(data)
    assert np.array_equal(got["a"], source)
    assert np.array_equal(got["b"], source[::2])
    got["a"][0, 0] = 99
    assert got["b"][0, 0] == 99
    assert source[0, 0] == 0
