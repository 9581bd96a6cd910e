"""Forks: whichever process of a family dies first, the others keep what they hold, and no more."""

import itertools
import os

import numpy as np
import pytest

import shmarray
from conftest import Life, run_forked
from working import sweep_after_deaths

ENDINGS = {
    "exit": "sys.exit(0)",
    "os._exit": "os._exit(0)",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
}
STATUSES = {"exit": 0, "os._exit": 0, "killed": -9}

# Five views of one element, and a way to see it by all of them and by the handle.
HELD = """
import json, os, signal, sys, threading, warnings
import numpy as np
import shmarray
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

a = shmarray.array(np.arange(12, dtype="i8").reshape(3, 4))
text = str(shmarray.handle(a))
view = a[1:, ::2].T
readonly = shmarray.attach(text, readonly=True)
inside = memoryview(a[1])
turned = shmarray.attach(str(shmarray.handle(a.T)))

def seen():
    by_views = [a[1, 2], view[1, 0], readonly[1, 2], inside[2], turned[2, 1]]
    by_all = [*by_views, shmarray.attach(text)[1, 2]]
    return [int(value) for value in by_all]

def say(**facts):
    os.write(1, json.dumps(facts).encode() + b"\\n")
"""


def leftovers(files, ending):
    """Asserts that an ordinary end leaves nothing, and that a sweep reclaims the rest after any
    other.
    """
    if ending != "exit":
        sweep_after_deaths()
    return files()


PARENT_FIRST = """
if os.fork() == 0:
    say(child=os.getpid(), text=text)
    os.read(0, 1)
    a[1, 2] = 77
    say(seen=seen())
ENDING
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_child_keeps_its_views_when_its_parent_ends_first(ending, start_python, files):
    family = start_python(HELD + PARENT_FIRST.replace("ENDING", ENDINGS[ending]))
    facts = family.hear()
    child = Life(facts["child"])
    assert family.status() == STATUSES[ending]
    assert shmarray.sweep().segments == 0
    assert shmarray.attach(facts["text"])[2].tolist() == [8, 9, 10, 11]
    family.go()
    assert family.hear() == {"seen": [77] * 6}
    child.wait()
    assert leftovers(files, ending) == []
    assert family.said_on_stderr() == ""


CHILD_FIRST = """
child = os.fork()
if child == 0:
    a[1, 2] = 77
    say(seen=seen())
    ENDING
say(status=os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
os.read(0, 1)
say(seen=seen(), whole=a.tolist())
ENDING
"""


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_parent_keeps_its_views_when_its_child_ends_first(ending, start_python, files):
    family = start_python(HELD + CHILD_FIRST.replace("ENDING", ENDINGS[ending]))
    assert family.hear() == {"seen": [77] * 6}
    assert family.hear() == {"status": STATUSES[ending]}
    assert shmarray.sweep().segments == 0
    family.go()
    assert family.hear() == {
        "seen": [77] * 6,
        "whole": [[0, 1, 2, 3], [4, 5, 77, 7], [8, 9, 10, 11]],
    }
    assert family.status() == STATUSES[ending]
    assert leftovers(files, ending) == []
    assert family.said_on_stderr() == ""


THREE = """
number = 0
while number < 2 and os.fork() == 0:
    number += 1
own = shmarray.full(3, number)
say(number=number, pid=os.getpid(), own=str(shmarray.handle(own)))
os.read(int(sys.argv[1 + number]), 1)
a[1, 2] = 70 + number
say(number=number, seen=seen(), own=own.tolist())
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
[lambda: sys.exit(0), lambda: os._exit(0), kill][int(sys.argv[4])]()
"""


@pytest.fixture
def pipes():
    """Three pipes."""
    made = [os.pipe() for _ in range(3)]
    yield made
    for end in itertools.chain(*made):
        os.close(end)


@pytest.mark.parametrize(
    "order",
    list(itertools.permutations(range(3))),
    ids=lambda order: "".join("PCG"[i] for i in order),
)
@pytest.mark.parametrize("ending", ENDINGS)
def test_parent_child_and_grandchild_end_in_any_order(order, ending, start_python, pipes, files):
    waits = [read for read, _ in pipes]
    family = start_python(HELD + THREE, *waits, list(ENDINGS).index(ending), pass_fds=waits)
    facts = sorted((family.hear() for _ in range(3)), key=lambda fact: fact["number"])
    lives = [Life(fact["pid"]) for fact in facts]
    owns = [shmarray.attach(fact["own"]) for fact in facts]
    before = files()
    for number in order:
        assert (shmarray.sweep().segments, files()) == (0, before)
        os.write(pipes[number][1], b".")
        assert family.hear() == {"number": number, "seen": [70 + number] * 6, "own": [number] * 3}
        lives[number].wait()
    assert [own.tolist() for own in owns] == [[number] * 3 for number in range(3)]
    del owns
    assert leftovers(files, ending) == []
    assert family.said_on_stderr() == ""


BESIDE_THREADS = """
stop = threading.Event()
rounds = [0] * 3

def work(number):
    large = np.arange(1 << 15)
    while not stop.is_set():
        own = shmarray.share(large)
        again = shmarray.attach(shmarray.handle(own[::-1]), readonly=True)
        row = shmarray.attach(text)[2]
        assert (again[0], row.tolist()) == ((1 << 15) - 1, [8, 9, 10, 11])
        rounds[number] += 1

def be_child(turn):
    a[1, 2] = turn
    own = shmarray.full(3, turn)
    assert shmarray.attach(str(shmarray.handle(own))).tolist() == [turn] * 3
    assert seen() == [turn] * 6
    kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
    [lambda: sys.exit(0), lambda: os._exit(0), kill][turn % 3]()

threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
turn = 0
while turn < 60 or min(rounds) < 10:
    child = os.fork()
    if child == 0:
        be_child(turn)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == [0, 0, -9][turn % 3]
    assert seen() == [turn] * 6
    turn += 1
stop.set()
for thread in threads:
    thread.join()
print(min(rounds) >= 10)
"""


def test_forks_beside_threads_that_make_and_drop_leave_both_sides_working(run_python, files):
    assert run_python(HELD + BESIDE_THREADS) == "True\n"
    sweep_after_deaths()
    assert files() == []


FORKED_BY_A_THREAD = """
def fork():
    own = shmarray.full(3, 5)
    child = os.fork()
    if child == 0:
        a[1, 2] = int(own.sum())
        sys.exit(0 if seen() == [15] * 6 else 1)
    results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

results = []
thread = threading.Thread(target=fork)
thread.start()
thread.join()
print(results, seen() == [15] * 6)
"""


def test_a_child_of_a_thread_holds_what_that_thread_held(run_python, files):
    assert run_python(HELD + FORKED_BY_A_THREAD) == "[0] True\n"
    assert files() == []


HANDLERS = """
def use():
    own = shmarray.full(3, 4)
    assert shmarray.attach(str(shmarray.handle(own))).tolist() == [4] * 3
    assert len(seen()) == 6
    shmarray.sweep()
    kept.append(own)

kept = []
os.register_at_fork(before=use, after_in_parent=use, after_in_child=use)
child = os.fork()
if child == 0:
    sys.exit(len(kept))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(kept))
"""


def test_fork_handlers_may_use_the_library(run_python, files):
    assert run_python(HELD + HANDLERS) == "2 2\n"
    assert files() == []


TERMINAL = """
child, terminal = os.forkpty()
if child == 0:
    a[1, 2] = 78
    sys.exit(0 if seen() == [78] * 6 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), seen() == [78] * 6)
"""


def test_a_child_on_a_terminal_of_its_own_holds_what_its_parent_held(run_python, files):
    assert run_python(HELD + TERMINAL) == "0 True\n"
    assert files() == []


GENERATIONS = """
for generation in range(40):
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status) if generation % 2 else sys.exit(status)
    a[1, 2] = generation
sys.exit(0 if seen() == [39] * 6 else 1)
"""


def test_forty_generations_hold_at_once_and_leave_nothing(run_python, files):
    run_python(HELD + GENERATIONS)
    sweep_after_deaths()
    assert files() == []


def test_a_child_that_drops_everything_takes_nothing_from_its_parent(files):
    held = [shmarray.array(np.arange(5))]
    held.append(held[0][::2])
    before = files()

    def drop_everything():
        held.clear()
        assert (shmarray.sweep().segments, files()) == (0, before)

    run_forked(drop_everything)
    assert (files(), held[1].tolist()) == (before, [0, 2, 4])
    held.clear()
    assert files() == []
