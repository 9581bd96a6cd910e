"""Forks beside threads, in handlers and on terminals: ci/checks/scenarios/test_forks.py has the
others.
"""

from working import sweep_after_deaths

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
