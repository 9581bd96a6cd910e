"""Start methods, and looks at processes and shared memory from outside."""

import contextlib
import gc
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import shmarray

SHARED_MEMORY = Path("/dev/shm")
METHODS = ["fork", "forkserver", "spawn"]


def until(is_so):
    """Repeats a check. A watchdog, and no clock here, ends it if it never succeeds.

    In between it leaves the processors to those for whom it waits.
    """
    while not is_so():
        time.sleep(0.001)


def state(pid):
    """Returns R, S, T …, Z if nobody has waited for it, and None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def sweep_after_deaths():
    """Sweeps until the dead hold nothing."""

    def only_the_living_hold():
        shmarray.sweep()
        holders = [segment.holders for segment in shmarray.segments()]
        return all(len(set(pids)) == len(pids) and all(map(state, pids)) for pids in holders)

    until(only_the_living_hold)


def in_child(part):
    """Returns what a forked child writes before it is killed, as bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as file:
            file.write(part())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        data = file.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return data


def files_in(path):
    """Returns the files there, without the registry, which stays."""
    return sorted(name for name in os.listdir(path) if not name.startswith("shmarray-registry-"))


def allocated_bytes(directory):
    """Returns the bytes that the files there take, without the registry."""
    return sum((directory / name).stat().st_blocks for name in files_in(directory)) * 512


def listed_arrays():
    """Returns what shmarray lists, without pools and without what the dead left."""
    return [info for info in shmarray.segments() if info.kind == "array"]


@contextlib.contextmanager
def own_directory(monkeypatch):
    """Makes SHMARRAY_DIR a new directory, which must be empty again at the end."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="shmarray-test-", dir=parent) as path:
        monkeypatch.setenv("SHMARRAY_DIR", path)
        # Each file there is an array; test_warm tests the pool.
        monkeypatch.setenv("SHMARRAY_POOL_BYTES", "0")
        # An earlier test may have set it for its children.
        monkeypatch.delenv("SHMARRAY_FAMILY", raising=False)
        yield Path(path)
        server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
        if server is not None:
            server._stop()  # it has this test's environment
        gc.collect()
        assert files_in(path) == [], "segments or names were left"
