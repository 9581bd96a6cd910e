"""A container's 64 MB of shared memory: nothing fails there that the standard library does; only
what promises shared memory says that it is full.
"""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

import shmarray
from working import files_in

PROGRAM = pathlib.Path(__file__).with_name("small_memory_program.py")
MIB = 1 << 20


@pytest.fixture
def docker(small_tmpfs, monkeypatch):
    """Shared memory as in Docker, and the pool's default limits."""
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    return small_tmpfs("size=64m")


@pytest.mark.parametrize(
    ("method", "born"), [("fork", []), ("forkserver", []), ("spawn", []), ("fork", ["born"])]
)
def test_programs_of_the_standard_library_work(docker, method, born):
    command = [sys.executable, PROGRAM, method, "shared memory is full", "1_000_000", *born]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
    shmarray.sweep()
    assert files_in(docker) == []


@pytest.mark.usefixtures("docker")
def test_functions_that_return_shared_memory_say_that_it_is_full():
    large = np.ones(100 * MIB, np.uint8)
    for make in (lambda: shmarray.zeros(large.shape, "u1"), lambda: shmarray.share(large)):
        with pytest.raises(MemoryError, match="shared memory is full"):
            make()
    with pytest.raises(MemoryError, match="shared memory is full"):
        shmarray.share({"a": large})


@pytest.mark.usefixtures("docker")
def test_results_that_are_kept_leave_shared_memory_to_others():
    results = []
    for number in range(60):
        results.append(shmarray.loads(shmarray.dumps(np.full(4 * MIB, number, np.uint8))))
    assert all(
        (array == number).all() and array.flags.writeable for number, array in enumerate(results)
    )
    assert shmarray.zeros(24 * MIB, "u1").nbytes == 24 * MIB


@pytest.mark.usefixtures("docker")
def test_a_copy_is_this_process_s_own():
    source = np.arange(10 * MIB, dtype=np.int32).reshape(2, -1).T
    data = shmarray.dumps({"a": source, "b": source[::2]})
    got = shmarray.loads(data)
    assert np.array_equal(got["a"], source)
    assert np.array_equal(got["b"], source[::2])
    got["a"][0, 0] = 99
    assert got["b"][0, 0] == 0
    assert source[0, 0] == 0


JOBLIB = """
import os, pathlib, sys, warnings
import joblib, numpy
import shmarray, shmarray.joblib

FOLDER = sys.argv[1]
BIG = numpy.arange(25_000_000, dtype=numpy.int32)


def read(array):
    files = [*pathlib.Path(FOLDER).rglob("*.pkl")]
    return int(array.sum()), array.flags.writeable, len(files), array[5:100_000]


shmarray.joblib.register()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for mode, writeable in (("r", False), ("r+", True), ("w+", True)):
        with joblib.Parallel(2, backend="shmarray", temp_folder=FOLDER, mmap_mode=mode) as parallel:
            for call in range(2):
                looks = parallel(joblib.delayed(read)(BIG) for _ in range(4))
                expected = [(int(BIG.sum()), writeable, 1)] * 4
                assert [one[:3] for one in looks] == expected, (mode, looks)
                assert all(type(one[3]) is numpy.ndarray for one in looks)
                assert all(one[3].flags.writeable for one in looks)
                assert all((one[3] == BIG[5:100_000]).all() for one in looks)
                assert os.listdir(FOLDER) == []
caught = [one for one in caught if one.category is RuntimeWarning]
assert len(caught) == 1 and FOLDER in str(caught[0].message), caught
print("all is well")
"""


@pytest.mark.usefixtures("docker")
def test_a_large_argument_of_joblib_is_in_one_file_in_temp_folder_until_the_call_ends(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", JOBLIB, tmp_path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "all is well\n", "")


def test_joblib_without_a_semaphore_operates_in_serial_mode_and_says_so():
    code = """
import _multiprocessing, errno
def refuse(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")
_multiprocessing.SemLock = type("SemLock", (), {"SEM_VALUE_MAX": 1, "__new__": refuse})
import joblib, os
import shmarray.joblib
shmarray.joblib.register()
with joblib.parallel_config(backend="shmarray", n_jobs=2):
    print(set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(4))) == {os.getpid()})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "serial mode" in done.stderr
