"""After Ctrl-C, by which Python ends itself without what runs at an ordinary end, every byte that
stays is told.

A version without the process list left half a gigabyte that neither `ls` nor `doctor` showed.
"""

import json
import shutil
import signal
import subprocess

import pytest

import shmarray
from processes import end_of, interrupt
from test_dead_workers import start, surroundings  # noqa: F401 (a fixture)
from working import METHODS, allocated_bytes, sweep_after_deaths

MIB = 1 << 20
PROGRAM = """
import numpy as np
held = [shmarray.zeros(MIB, "u1") for _ in range(3)]
shmarray.share([np.zeros(MIB), np.zeros(2 * MIB)])  # goes to the pool
unread = shmarray.dumps([np.ones(MIB), held[0]])
named = shmarray.ones(MIB, name="results")
with context.Pool(2) as pool:
    results = pool.map(dead_work.work_and_return, range(8))
    print("waiting", flush=True)
    signal.pause()
""".replace("MIB", str(MIB))


def interrupted(method):
    """Ends a program that holds, keeps and has sent something, and its workers, by Ctrl-C."""
    program = start(PROGRAM, method)
    assert program.stdout.readline() == "waiting\n", program.stderr.read()
    interrupt(program)
    status, _, _ = end_of(program, "the end of all processes after Ctrl-C")  # they have its pipes
    assert status == -signal.SIGINT


@pytest.mark.parametrize("method", METHODS)
def test_all_that_stays_is_told_as_remains_and_the_next_use_gives_it_back(
    method, directory, run_python, files
):
    interrupted(method)
    listed = shmarray.segments()
    assert sum(info.segment_bytes for info in listed) == allocated_bytes(directory) > 8 * MIB
    assert {info.kind for info in listed} == {"remains"}
    run_python("import shmarray; shmarray.zeros(1)")
    assert files() == []


@pytest.mark.skipif(shutil.which("shmarray") is None, reason="the command is not on PATH: . ci/env")
def test_the_command_tells_it_too(directory):
    interrupted("fork")
    listed = json.loads(said_by("ls", "--json"))["segments"]
    assert sum(part["segment_bytes"] for part in listed) == allocated_bytes(directory) > 8 * MIB
    assert "dead processes left" in said_by("doctor")
    assert "arrays 0, channels 0, pools 0, remains" in said_by("ls")
    sweep_after_deaths()
    assert json.loads(said_by("ls", "--json"))["segments"] == []


def said_by(*arguments):
    return subprocess.run(
        ["shmarray", *arguments], capture_output=True, text=True, check=False
    ).stdout
