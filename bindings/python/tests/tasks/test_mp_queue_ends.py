"""Queues are closed, dropped, inherited and interrupted, and processes end that used them."""

import os
import threading

import numpy as np
import pytest

import shmarray.multiprocessing as mp
from process_work import drain, put_all, put_and_end_at_once
from processes import interrupted
from working import sweep_after_deaths


def test_a_closed_queue_is_refused():
    for kind in ("Queue", "JoinableQueue"):
        q = getattr(mp, kind)(3)
        q.put(1)
        q.close()
        q.close()
        q.join_thread()
        uses = (
            q.get,
            lambda: q.put(2),  # noqa: B023
            lambda: q.get(False),  # noqa: B023
            lambda: q.put_nowait(2),  # noqa: B023
        )
        for use in uses:
            with pytest.raises(ValueError, match="is closed"):
                use()
    q = mp.SimpleQueue()
    q.close()
    for use in (q.get, lambda: q.put(2), q.empty):
        with pytest.raises(OSError, match="is closed"):
            use()
    with pytest.raises(AssertionError, match="not closed"):
        mp.Queue().join_thread()


def test_objects_put_before_closing_are_sent():
    q = mp.Queue()
    copy = mp.Queue()
    copy.put(q)
    copy = copy.get()
    for number in range(1000):
        q.put(number)
    q.close()
    assert [copy.get() for _ in range(1000)] == list(range(1000))
    q.join_thread()
    assert copy.empty()


def test_closing_does_not_wait_for_what_nobody_can_receive(files):
    q = mp.Queue()
    for number in range(1000):
        q.put((number, np.zeros(50_000)) if number % 100 == 0 else number)
    q.close()
    q.join_thread()
    sweep_after_deaths()
    assert files() == []


def test_a_queue_that_was_dropped_does_not_wait_for_what_nobody_can_receive():
    q = mp.Queue()
    put_all(q, range(1000))
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "QueueFeederThread")
    del q
    thread.join()


def test_objects_of_an_ended_process_arrive(context):
    q = context.Queue()
    process = context.Process(target=put_all, args=(q, range(1000)))
    process.start()
    assert [q.get() for _ in range(1000)] == list(range(1000))
    process.join()
    assert process.exitcode == 0


def test_a_process_may_end_without_what_it_put(context):
    q = context.Queue()
    process = context.Process(target=put_and_end_at_once, args=(q, 1000))
    process.start()
    process.join()
    assert process.exitcode == 0
    got = drain(q)
    assert got == list(range(len(got)))


UNREAD = """
import shmarray.multiprocessing as mp
q = mp.Queue()
for number in range(1000):
    q.put(number)
print("ends")
"""


def test_a_program_ends_though_nobody_received_what_it_put(run_python):
    assert run_python(UNREAD) == "ends\n"


USED_TO_THE_END = """
import threading
import shmarray.multiprocessing as mp
q, much_is_put = mp.Queue(), threading.Event()

def put():
    for number in range(10**9):
        q.put(number)
        if number == 1000:
            much_is_put.set()

def get():
    while True:
        q.get()

threading.Thread(target=put, daemon=True).start()
much_is_put.wait()
threading.Thread(target=get, daemon=True).start()
print("ends")
"""


def test_a_program_ends_quietly_though_its_threads_use_a_queue(run_python):
    assert run_python(USED_TO_THE_END) == "ends\n"


def test_a_forked_child_does_not_send_what_waits_in_its_parent():
    q = mp.Queue()
    put_all(q, range(1000))
    child = mp.get_context("fork").Process(target=put_all, args=(q, ["the child's"]))
    child.start()
    got = [q.get() for _ in range(1001)]
    child.join()
    assert (child.exitcode, q.empty()) == (0, True)
    assert [item for item in got if item != "the child's"] == list(range(1000))


def test_children_forked_meanwhile_keep_no_slot_and_no_task():
    q = mp.JoinableQueue(400)
    stop = threading.Event()
    children = []

    def put_and_get():
        while not stop.is_set():
            for number in range(400):
                q.put(number)
            for _ in range(400):
                q.get()
            for _ in range(400):
                q.task_done()

    thread = threading.Thread(target=put_and_get)
    thread.start()
    release, their_end = os.pipe()
    for _ in range(50):
        children.append(os.fork())
        if children[-1] == 0:
            os.close(their_end)
            os.read(release, 1)  # until the test lets it go
            os._exit(0)
    stop.set()
    thread.join()
    q.join()
    assert q.qsize() == 0
    put_all(q, range(400))
    assert q.full()
    os.close(their_end)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    os.close(release)


INTERRUPTED = """
import sys
import shmarray.multiprocessing as mp
q = mp.JoinableQueue(1)
if sys.argv[1] != "get":
    q.put(0)
wait = {"get": q.get, "put": lambda: q.put(1), "join": q.join}[sys.argv[1]]
try:
    print("waiting", flush=True)
    wait()
except KeyboardInterrupt:
    if not q.empty():
        assert q.get() == 0
        q.task_done()
    q.put_nowait("again")
    print(q.get(), q.full())
    q.task_done()
    q.join()
"""


@pytest.mark.parametrize("wait", ["get", "put", "join"])
def test_ctrl_c_ends_a_wait_and_the_queue_goes_on(wait):
    assert interrupted(INTERRUPTED, wait) == ("again False\n", 0)


DROPPED_WHILE_ANOTHER_FORKS = """
import os, threading, warnings
forks, dropped = threading.Event(), threading.Event()

def wait_for_the_other():
    forks.set()
    dropped.wait()

os.register_at_fork(before=wait_for_the_other)  # registered first, run last
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
import shmarray.multiprocessing as mp

before = os.listdir("/proc/self/fd")
q = mp.JoinableQueue()
q.put(1)
q.get()

def drop():
    global q
    forks.wait()
    del q
    dropped.set()

thread = threading.Thread(target=drop)
thread.start()
child = os.fork()
if child == 0:
    os._exit(os.listdir("/proc/self/fd") != before)
thread.join()
print(os.waitpid(child, 0)[1], os.listdir("/proc/self/fd") == before)
"""


def test_a_queue_may_be_dropped_in_what_another_thread_waits_for_to_fork(start_python):
    program = start_python(DROPPED_WHILE_ANOTHER_FORKS)
    assert (program.process.stdout.read(), program.status()) == (b"0 True\n", 0)
