"""Tasks for Dask's workers in the tests."""

import os
import signal

import numpy as np

import shmarray
import shmarray.dask


def ones(size):
    return np.ones(size)


def shared_ones(size):
    return shmarray.ones(size)


def held_by_worker(size):
    """Returns an array that the worker keeps and goes on to store into."""
    _KEPT.append(shmarray.ones(size))
    return _KEPT[-1]


def private_held_by_worker(size):
    """The same, of an array that is not shared."""
    _KEPT.append(np.ones(size))
    return _KEPT[-1]


def private_with_a_view(size):
    _KEPT.append(np.ones(size))
    return _KEPT.pop()[:]


def store_into_kept():
    _KEPT[-1][0] = 7
    return _KEPT[-1].flags.writeable


_KEPT = []


def moved_here():
    """How many of this process's arrays were handed over with their memory."""
    return shmarray.allocator_stats()["moved"]


def facts(array):
    """Returns the sum, whether it is in shared memory, and whether it may be written."""
    return float(array.sum()), shmarray.is_shared(array), array.flags.writeable


def store(array):
    array[0] = 7


def counters(_=None):
    return shmarray.dask.counters()


def die_once(one, other, path):
    """Kills the first worker that runs this."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return sums(one, other)
    os.kill(os.getpid(), 9)
    return None


def sums(*arrays):
    return sum(float(array.sum()) for array in arrays)


def namespace():
    """Returns which network this worker is in."""
    return os.stat("/proc/self/ns/net").st_ino


def sum_in_a_killed_child(array):
    """Forks in the worker's thread. Returns what the child has found before it is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, repr(float(array.sum())).encode())
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    found = float(os.read(reading, 100))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reading)
    return found


def fill(number, size):
    """Returns an array for a task of a chain."""
    return np.full(size, float(number))


def add(one, other):
    return one + other


def family():
    """Returns the number of this process's family."""
    number, fd = shmarray._core.family()
    os.close(fd)
    return number


class Actor:
    """Keeps what it was given."""

    def __init__(self):
        self.held = None

    def keep(self, array):
        self.held = array
        return facts(array)

    def give(self):
        return self.held
