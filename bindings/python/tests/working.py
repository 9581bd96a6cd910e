"""What the tests of pools and executors have in common:

start methods, and looks at processes from outside.
"""

import os
import signal
import sys
import types
from pathlib import Path

import pytest

import shmarray

METHODS = ["fork", "forkserver", "spawn"]


@pytest.fixture
def no_main(monkeypatch):
    """Workers need not import the program that runs the tests."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


def until(is_so):
    """Repeats a check. A watchdog, and no clock here, ends it if it never succeeds."""
    while not is_so():
        os.sched_yield()


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
