"""Under ulimit -v: what works with the standard module works, and what is short is MemoryError."""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("limited_program.py")
ROUNDS = 12  # receive more than the limit


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("way", ["pool", "maxtasksperchild", "executor", "queue"])
def test_arrays_of_one_process_after_the_other_fit_as_with_the_standard_module(way, files):
    standard = run(PROGRAM, "multiprocessing", way, ROUNDS)
    assert run(PROGRAM, "shmarray", way, ROUNDS) == standard == ["0", "True"]
    assert files() == []


TOO_LARGE = """
import resource
import numpy as np
import shmarray
shmarray.zeros(9)
with open("/proc/self/statm") as facts:
    most = int(facts.read().split()[0]) * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
try:
    shmarray.zeros(200 << 20, "u1")
except MemoryError as error:
    assert "ulimit -v" in str(error), error
    assert error.args == (str(error),), error.args
else:
    raise AssertionError("it has more than the limit")
assert np.ones(16 << 20, "u1").sum() == 16 << 20
assert shmarray.ones(1 << 20, "u1").sum() == 1 << 20
"""


def test_an_array_beyond_the_limit_is_a_memory_error_that_names_it(files):
    run("-c", TOO_LARGE)
    assert files() == []
