"""Beyond ulimit -f: an error that does not blame the memory, and nothing else stops."""

import subprocess
import sys

import pytest

PRELUDE = """
import resource
import numpy as np
import shmarray

LIMIT = 1 << 20
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, resource.RLIM_INFINITY))
large = np.ones(4 * LIMIT, "u1")

def refused(call):
    try:
        call()
    except Exception as error:
        assert "memory is full" not in str(error), error
    else:
        raise AssertionError("it goes beyond the limit")
"""

BEYOND = {
    "zeros": "refused(lambda: shmarray.zeros(4 * LIMIT, 'u1'))",
    "a named array": "refused(lambda: shmarray.zeros(4 * LIMIT, 'u1', name='large'))",
    "share": "refused(lambda: shmarray.share(large))",
}


@pytest.mark.parametrize("code", BEYOND.values(), ids=BEYOND)
def test_an_array_beyond_the_limit_is_an_error_that_does_not_blame_the_memory(code, files):
    program = (
        PRELUDE + code + "\nassert shmarray.full(LIMIT // 2, 7, 'u1').sum() == 7 * LIMIT // 2\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert files() == []
