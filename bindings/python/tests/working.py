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
quiet_forks = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


@pytest.fixture
def no_main(monkeypatch):
    """Workers need not import the program that runs the tests."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


def until(is_so):
    """Looks again and again. A watchdog, and no clock of ours, ends what never comes."""
    while not is_so():
        os.sched_yield()


def state(pid):
    """R, S, T …, Z when nobody has waited for it, and None when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def sweep_after_deaths():
    """Sweeps until the dead hold nothing.

    Of a process that somebody looks at in /proc just then, the memory lives on for that moment, and
    with it the lock. A forked child that died before it could say its pid is listed with its
    parent's.
    """

    def only_the_living_hold():
        shmarray.sweep()
        holders = [segment.holders for segment in shmarray.segments()]
        return all(len(set(pids)) == len(pids) and all(map(state, pids)) for pids in holders)

    until(only_the_living_hold)


def in_child(part):
    """What a forked child writes before it is killed, as bytes."""
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
