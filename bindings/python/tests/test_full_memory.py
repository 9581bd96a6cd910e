"""Full shared memory: the warning of copies.

ci/checks/scenarios/test_full_memory.py has the rest.
"""

import warnings

import numpy as np
import pytest

import shmarray
from processes import run_forked

SMALL = 4 << 20


@pytest.fixture
def small(small_tmpfs):
    """A SHMARRAY_DIR of four mebibytes."""
    return small_tmpfs(f"size={SMALL}")


def warn_of_copies():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shmarray.dumps(np.zeros(SMALL))  # eight times what there is
    [warning] = caught
    assert "inode" not in str(warning.message)
    assert warning.filename == __file__


@pytest.mark.usefixtures("small")
def test_the_warning_of_copies_names_a_line_of_the_program():
    run_forked(warn_of_copies)
