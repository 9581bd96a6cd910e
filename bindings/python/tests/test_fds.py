"""Every fd closed behind the library's back:

what is held stays held, and all goes on working.
"""

import subprocess
import sys

import numpy as np
import pytest

import shmarray
from conftest import Life

# Creates arrays of every kind, with the text of each handle.
HELD = """
import json, os, signal, sys
import numpy as np
import shmarray
whole = shmarray.array(np.arange(12).reshape(3, 4))
named = shmarray.full(5, 5, name="named")
view = shmarray.array(np.arange(9))[::3]
readonly = shmarray.attach("named", readonly=True)[:2]
inside = memoryview(shmarray.full(4, 7, dtype="i8"))
held = [whole, named, view, readonly, np.asarray(inside)]
texts = [str(shmarray.handle(array)) for array in held]
"""
VALUES = [np.arange(12).reshape(3, 4).tolist(), [5] * 5, [0, 3, 6], [5] * 2, [7] * 4]

# A program that uses all of the library.
EVERYTHING = """
assert [shmarray.attach(text).tolist() for text in texts] == [array.tolist() for array in held]
assert shmarray.attach("named").tolist() == named.tolist()
made = [shmarray.full(100, number) for number in range(20)]
again = [shmarray.attach(str(shmarray.handle(array))) for array in made]
assert [int(array.sum()) for array in again] == [100 * i for i in range(20)]
other = shmarray.share(np.arange(1000)[::-1])
assert other[0] == 999
second = shmarray.zeros(3, name="second")
shmarray.unlink("second")
shmarray.sweep()
assert {info.name for info in shmarray.segments()} >= {"named"}
whole[1, 2] = inside[3] = 40
assert shmarray.attach(texts[0])[1, 2] == shmarray.attach(texts[4])[3] == 40
whole[1, 2], inside[3] = 6, 7
del made, other, second
"""


def test_arrays_work_and_more_are_made_with_every_fd_closed(peer, files):
    peer.run(HELD)
    before = files()
    peer.run("os.closerange(3, 1000)")
    peer.run(EVERYTHING)
    assert set(files()) >= set(before)
    peer.leave()
    assert files() == []


def test_others_cannot_take_what_a_process_without_fds_holds(peer, files):
    texts = peer.run(HELD + "answer = texts")
    before = files()
    peer.run("os.closerange(3, 1000)")
    for _ in range(3):
        attached = [shmarray.attach(text) for text in texts]
        assert [array.tolist() for array in attached] == VALUES
        attached[0][1, 2] += 1
        del attached  # the last holder is asked for at each release
        assert shmarray.sweep().segments == 0
        assert files() == before
        assert peer.run("answer = int(whole[1, 2])") == 6 + 1
        peer.run("whole[1, 2] -= 1")
    peer.leave()
    assert files() == []


def test_memory_of_a_killed_process_without_fds_is_given_back(peer, files):
    peer.run(HELD)
    shmarray.sweep()
    peer.run("os.closerange(3, 1000)")
    peer.run("extra = shmarray.full(3, 1)")
    assert shmarray.sweep().segments == 0
    peer.kill()
    assert shmarray.sweep().segments > 0
    assert files() == []


def test_fds_closed_again_and_again_cost_nothing(run_python, files):
    code = """
for turn in range(50):
    os.closerange(3, 1000)
    array = shmarray.full(10, turn)
    os.closerange(3, 1000)
    again = shmarray.attach(str(shmarray.handle(array)))
    os.closerange(3, 1000)
    assert again.tolist() == [turn] * 10
    shmarray.sweep()
print([array.tolist() for array in held] == VALUES)
"""
    assert run_python(HELD + f"VALUES = {VALUES}\n" + code) == "True\n"
    assert files() == []


FORKS = """
os.closerange(3, 1000)
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
for ending in (lambda: sys.exit(0), lambda: os._exit(0), kill):
    child = os.fork()
    if child == 0:
        os.closerange(3, 1000)
        own = shmarray.full(3, 8)
        theirs = [shmarray.attach(text).tolist() for text in texts]
        good = theirs == [array.tolist() for array in held]
        good = good and shmarray.attach(str(shmarray.handle(own))).tolist() == [8] * 3
        whole[0, 0] += 1 if good else 0
        ending()
    os.waitpid(child, 0)
    shmarray.sweep()
print(int(whole[0, 0]))
"""


def test_forks_of_a_process_without_fds_hold_and_give_back(run_python, files):
    assert run_python(HELD + FORKS) == "3\n"
    assert files() == []


PARENT_FIRST = """
child = os.fork()
if child:
    os._exit(0)
os.closerange(3, 1000)
print(os.getpid(), flush=True)
os.read(0, 1)
exec(sys.argv[1])
os.write(1, b"true\\n")
"""


def test_a_child_without_fds_outlives_its_parent(start_python, files):
    family = start_python(HELD + PARENT_FIRST, EVERYTHING)
    child = Life(family.hear())
    assert family.status() == 0
    before = files()
    assert (shmarray.sweep().segments, files()) == (0, before)
    family.go()
    assert family.hear() is True
    assert family.said_on_stderr() == ""
    child.wait()
    assert files() == []


WITHOUT_ANY = """
os.closerange(0, 1000)
try:
    exec(sys.argv[1])
except BaseException:
    os._exit(3)
"""


def test_even_the_standard_fds_may_be_closed(files):
    command = [sys.executable, "-W", "error", "-c", HELD + WITHOUT_ANY, EVERYTHING]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0
    assert files() == []


@pytest.mark.parametrize(
    "first", ["shmarray.zeros(3)", "shmarray.attach(sys.argv[1])", "shmarray.sweep()"]
)
def test_the_first_use_may_come_after_every_fd_was_closed(first, run_python, files):
    a = shmarray.zeros(3)
    before = files()
    code = f"import os, sys, shmarray\nos.closerange(3, 1000)\na = {first}\nprint(type(a).__name__)"
    assert run_python(code, shmarray.handle(a)) in ("ndarray\n", "Swept\n")
    assert (files(), a.tolist()) == (before, [0, 0, 0])
