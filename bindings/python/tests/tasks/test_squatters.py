"""Another user has taken the place of this user's registry, before its first use:

everything works. Needs root.
"""

import os

import pytest

from processes import run_to_the_end

NOBODY = 65534


def a_file(path):
    path.touch(0o644)


def a_directory(path):
    path.mkdir()


def a_fifo(path):
    os.mkfifo(path)


def a_link(path):
    path.symlink_to(path.with_name("nothing"))


SQUATS = [a_file, a_directory, a_fifo, a_link]

PRELUDE = """
import os, sys, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
import numpy as np
import shmarray, shmarray.concurrent
import shmarray.multiprocessing as mp

context = mp.get_context("fork")
array = np.arange(50_000)
"""

DEEDS = {
    "dumps and loads": "assert (shmarray.loads(shmarray.dumps(array)) == array).all()",
    "dumps that nobody loads": "shmarray.dumps(array); os._exit(0)",
    "a pipe": """
here, there = mp.Pipe()
here.send(array)
assert (there.recv() == array).all()
""",
    "a queue": """
queue = mp.Queue()
queue.put(array)
assert (queue.get() == array).all()
""",
    "a process": """
here, there = mp.Pipe()
worker = context.Process(target=there.send, args=(array,))
worker.start()
worker.join()
assert worker.exitcode == 0
assert (here.recv() == array).all()
""",
    "a pool": """
with context.Pool(2) as pool:
    assert all((found == -array).all() for found in pool.map(np.negative, [array] * 3))
    pool.close()
    pool.join()
""",
    "an executor": """
with shmarray.concurrent.ProcessPoolExecutor(2, context) as executor:
    assert (executor.submit(np.negative, array).result() == -array).all()
""",
}


# What a process does beside a squatter does not depend on the squatter's kind, and the registry is
# opened in one place for all deeds.
CASES = [
    *((deed, a_file) for deed in DEEDS),
    *((deed, squat) for deed in ("dumps and loads", "a pool") for squat in SQUATS[1:]),
]


@pytest.mark.parametrize(("deed", "squat"), CASES)
def test_everything_works_and_nothing_is_left_beside_a_squatter(
    deed, squat, directory, peer, files
):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    directory.chmod(0o1777)
    place = directory / f"shmarray-registry-{os.geteuid()}"
    squat(place)
    os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    run_to_the_end(PRELUDE + DEEDS[deed])
    peer.run("shmarray.sweep()")
    peer.leave()
    assert files() == []
