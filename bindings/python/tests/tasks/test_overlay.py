"""SHMARRAY_DIR on an overlay, as every directory of a container's root is: what promises shared
memory says why there can be none, and the drop-ins work without it.
"""

import pathlib
import subprocess
import sys

import pytest

PROGRAM = pathlib.Path(__file__).with_name("small_memory_program.py")
SCRIPT = """
mount -t tmpfs none "$1" && cd "$1" && mkdir below above work merged &&
mount -t overlay -o lowerdir=below,upperdir=above,workdir=work none merged || exit 77
shift; export SHMARRAY_DIR=$PWD/merged
"$@" && ls -A above
"""
REFUSED = """
import shmarray
import numpy as np
for make in (lambda: shmarray.zeros(3), lambda: shmarray.share(np.ones(3)),
             lambda: shmarray.zeros(3, name="camera"), shmarray.sweep,
             lambda: shmarray.attach("camera")):
    try:
        make()
    except OSError as error:
        assert "cannot hold arrays" in str(error) and "SHMARRAY_DIR" in str(error), error
    else:
        raise AssertionError("it was made")
print("each is refused")
"""


def on_an_overlay(place, *arguments):
    """Runs a program of Python in a mount namespace of its own. Returns what it prints, and then
    the names of the files that it left.
    """
    command = ["unshare", "--mount", "bash", "-c", SCRIPT, "bash", place, sys.executable]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip(f"an overlay cannot be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_that_return_shared_memory_say_that_there_can_be_none(tmp_path):
    assert on_an_overlay(tmp_path, "-c", REFUSED) == "each is refused\n"


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_programs_of_the_standard_library_work(tmp_path, method):
    warning = "every holder of an array looks dead"
    printed = on_an_overlay(tmp_path, PROGRAM, method, warning, "50_000")
    assert printed == "all is well\n"
