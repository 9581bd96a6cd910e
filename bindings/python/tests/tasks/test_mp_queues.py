"""Queues carry objects with arrays in order, keep their size, and go on when a process ends in
them.
"""

import itertools
import os
import pickle
import queue
import signal
import threading

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from process_work import (
    do_tasks,
    drain,
    get_all,
    get_and_wait,
    join_and_say,
    put_all,
    put_and_wait,
)
from processes import run_forked
from shmarray._tasks._ipc import _message
from shmarray.multiprocessing.queues import Empty, Full

KINDS = ["Queue", "JoinableQueue", "SimpleQueue"]


@pytest.fixture(params=KINDS)
def make(request):
    """Makes a queue of one kind."""
    return getattr(mp, request.param)


def test_objects_come_out_in_order_with_their_arrays(make, files):
    q = make()
    shared = shmarray.zeros(50_000)
    q.put(("first", shared[::2], np.arange(50_000)))
    q.put("second")
    text, view, private = q.get()
    view[1] = 7
    assert (text, shared[2], int(private[-1]), q.get(), q.empty()) == (
        "first",
        7,
        49_999,
        "second",
        True,
    )
    del shared, view, private
    assert files() == []


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
@pytest.mark.parametrize("maxsize", [0, 20_000])
def test_one_process_may_put_a_lot_before_anybody_gets(kind, maxsize):
    q = getattr(mp, kind)(maxsize)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(10_000):
        q.put(number)
    assert q.qsize() == 10_000
    assert len(os.listdir("/proc/self/fd")) <= before + 5
    assert [q.get() for _ in range(10_000)] == list(range(10_000))
    assert (q.qsize(), q.empty(), q.full()) == (0, True, False)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_what_waits_for_room_keeps_its_order_whatever_it_is(kind):
    q = getattr(mp, kind)()
    for number in range(2000):
        q.put(number if number % 3 else [np.full(3, number)])
    for number in range(2000):
        got = q.get()
        assert (got if number % 3 else int(got[0][0])) == number
        q.put(number)
    assert [q.get() for _ in range(2000)] == list(range(2000))


class Bare:
    pass


class InterruptError(Exception):
    """A signal's handler raises it."""


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_a_put_that_a_signal_ends_repeats_and_loses_no_other_message(kind, monkeypatch):
    """What waits is sent by whoever puts next, and a handler may raise when it has been sent."""

    def interrupt(_number, _frame):
        raise InterruptError

    def send_and_be_interrupted(*arguments):
        send(*arguments)
        if threading.current_thread() is threading.main_thread() and next(sends) % 3 == 0:
            signal.raise_signal(signal.SIGALRM)

    sends = itertools.count()
    q = getattr(mp, kind)()
    for number in range(100):  # most of them wait
        q.put((number, bytes(10_000)))
    before = signal.signal(signal.SIGALRM, interrupt)
    send = _message.send
    monkeypatch.setattr(_message, "send", send_and_be_interrupted)
    put, got = [*range(100)], []
    for number in range(100, 200):
        got += [q.get()[0] for _ in range(min(12, number - len(got) - 30))]
        try:
            q.put((number, bytes(10_000)))
            put.append(number)
        except InterruptError:
            pass
    monkeypatch.undo()
    signal.signal(signal.SIGALRM, before)
    q.put((None, b""))
    while (number := q.get()[0]) is not None:
        got.append(number)
    assert got == sorted(set(got))
    assert set(put) <= set(got)
    assert 100 < len(put) < 200
    if kind == "JoinableQueue":
        for _ in range(len(got) + 1):
            q.task_done()
        q.join()


def test_an_object_goes_by_the_reducer_of_its_class(make, monkeypatch):
    q = make()
    q.put(Bare())
    assert type(q.get()) is Bare
    monkeypatch.setitem(mp.reducer.ForkingPickler._extra_reducers, Bare, lambda _: (int, ("7",)))
    for _ in range(2):
        q.put([Bare()])
        assert q.get() == [7]


def test_messages_of_every_size_arrive(make):
    q = make()
    for size in (0, 10, 32_000, 33_000, 10_000_000):
        q.put(b"x" * size)
        assert len(q.get()) == size


def test_a_later_change_of_an_object_is_not_sent():
    q = mp.Queue()
    value = [1]
    array = np.zeros(50_000)
    q.put((value, array))
    value.append(2)
    array[:] = 9
    got, copy = q.get()
    assert (got, copy.max()) == ([1], 0)


def test_an_unpicklable_object_raises_and_leaves_no_trace(make):
    q = make() if make.__name__ == "SimpleQueue" else make(1)
    for _ in range(3):
        with pytest.raises((AttributeError, pickle.PicklingError)):
            q.put(lambda: None)
    q.put("fits")
    assert q.get() == "fits"
    if make.__name__ == "JoinableQueue":
        q.task_done()
        q.join()


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
@pytest.mark.parametrize("maxsize", [1, 2, 7, 1000])
def test_a_queue_holds_no_more_than_its_size(kind, maxsize):
    q = getattr(mp, kind)(maxsize)
    for number in range(maxsize):
        assert not q.full()
        q.put(number, block=False)
    for count in (1, maxsize, 1):
        assert (q.full(), q.qsize()) == (True, maxsize)
        with pytest.raises(Full):
            q.put_nowait("too much")
        with pytest.raises(Full):
            q.put("too much", timeout=0.001)
        for _ in range(count):
            q.get()
        assert (q.full(), q.qsize()) == (False, maxsize - count)
        for number in range(count):
            q.put_nowait(number)


def test_an_empty_queue_says_so():
    q = mp.Queue()
    assert q.empty()
    for wait in (
        {"block": False},
        {"timeout": 0.001},
        {"timeout": -5},
        {"block": False, "timeout": 5},
    ):
        with pytest.raises(queue.Empty):
            q.get(**wait)
    with pytest.raises(Empty):
        q.get_nowait()


@pytest.mark.parametrize("maxsize", [0, 3])
def test_many_processes_put_and_get_at_once(context, maxsize):
    q = context.Queue(maxsize)
    answers = context.Queue()
    getters = [context.Process(target=get_all, args=(q, answers)) for _ in range(3)]
    putters = [
        context.Process(
            target=put_all, args=(q, [np.full(10, number) for number in range(start, 300, 3)])
        )
        for start in range(3)
    ]
    for process in getters + putters:
        process.start()
    got = [answers.get() for _ in range(300)]
    q.put(None)
    for process in getters + putters:
        process.join()
        assert process.exitcode == 0
    assert sorted(int(array[0]) for _, array in got) == list(range(300))
    assert q.get() is None
    assert q.qsize() == 0


def test_a_waiting_putter_goes_on_when_a_slot_is_free(context):
    q = context.Queue(1)
    putter = context.Process(target=put_all, args=(q, range(100)))
    putter.start()
    assert [q.get() for _ in range(100)] == list(range(100))
    putter.join()
    assert (putter.exitcode, q.qsize()) == (0, 0)


def start_with_pipe(context, target, *args):
    """Returns a process, and our end of a pipe whose other end is its last argument."""
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(*args, theirs))
    process.start()
    theirs.close()
    return process, ours


def test_queue_slots_of_what_waits_in_a_process_are_free_when_it_is_killed(context):
    q = context.Queue(1000)
    process, pipe = start_with_pipe(context, put_and_wait, q, 1000)
    assert pipe.recv() == "put"
    assert (q.full(), q.qsize()) == (True, 1000)
    with pytest.raises(Full):
        q.put_nowait("too much")
    putter = threading.Thread(target=q.put, args=("waited",))
    putter.start()
    process.kill()
    process.join()
    putter.join()
    got = list(iter(q.get, "waited"))
    assert len(got) < 1000
    assert got == list(range(len(got)))
    for number in range(1000):
        q.put_nowait(number)
    assert q.full()
    assert [q.get() for _ in range(1000)] == list(range(1000))


def test_tasks_of_a_killed_process_count_as_done(context):
    q = context.JoinableQueue()
    put_all(q, range(5))
    process, pipe = start_with_pipe(context, get_and_wait, q, 3)
    assert pipe.recv() == [0, 1, 2]
    waiter = threading.Thread(target=q.join)
    waiter.start()
    assert [q.get(), q.get()] == [3, 4]
    q.task_done()
    q.task_done()
    assert waiter.is_alive()
    process.kill()
    process.join()
    waiter.join()
    with pytest.raises(ValueError, match="too many times"):
        q.task_done()


def test_join_does_not_wait_for_what_waited_in_a_killed_process(context):
    q = context.JoinableQueue()
    process, pipe = start_with_pipe(context, put_and_wait, q, 1000)
    assert pipe.recv() == "put"
    process.kill()
    process.join()
    for number in drain(q):
        assert number < 999
        q.task_done()
    q.join()


def test_join_waits_for_the_tasks_of_all_processes(context):
    q = context.JoinableQueue()
    answers = context.Queue()
    workers = [context.Process(target=do_tasks, args=(q, answers)) for _ in range(3)]
    for worker in workers:
        worker.start()
    put_all(q, range(100))
    q.join()
    assert sorted(drain(answers)) == list(range(100))
    put_all(q, [None] * 3)
    q.join()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def test_join_does_not_overlook_what_is_handed_on():
    q = mp.JoinableQueue()
    put_all(q, range(1000))
    waiter = threading.Thread(target=q.join)
    waiter.start()
    for number in range(1000):
        assert q.get() == number
        assert waiter.is_alive()
        q.task_done()
    waiter.join()


def test_join_may_follow_close():
    q = mp.JoinableQueue()
    q.put("a task")
    q.get()
    q.task_done()
    q.close()
    q.join()


def test_join_in_another_process_waits_until_the_last_task_is_done(context):
    q = context.JoinableQueue()
    q.put("a task")
    process, pipe = start_with_pipe(context, join_and_say, q)
    q.get()
    assert not pipe.poll(0.3)
    q.task_done()
    assert pipe.recv() == "joined"
    process.join()


FEW_FDS = """
import os, resource
import numpy as np
import shmarray.multiprocessing as mp
from shmarray.multiprocessing import queues
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for q in (mp.Queue(1000), mp.JoinableQueue()):
    for number in range(500):
        q.put(number if number % 10 else np.full(10_000, number))
    for number in range(500):
        assert np.max(q.get()) == number
print("done")
"""


def test_a_user_with_few_fds_under_way_waits(directory, run_python):
    directory.chmod(0o777)
    assert run_python(FEW_FDS) == "done\n"


def test_many_tasks_may_be_got_before_they_are_done():
    q = mp.JoinableQueue()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(5000):
        q.put(number)
        q.get()
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    for _ in range(5000):
        q.task_done()
    q.join()


def test_a_queue_goes_through_a_queue():
    outer = mp.Queue()
    inner = mp.JoinableQueue(2)
    inner.put("before")
    outer.put({"queue": inner, "simple": mp.SimpleQueue()})
    received = outer.get()
    again = received["queue"]
    simple = received["simple"]
    again.put("after")
    with pytest.raises(Full):
        inner.put_nowait("too much")
    assert [inner.get(), again.get()] == ["before", "after"]
    with pytest.raises(ValueError, match="too many times"):
        [again.task_done() for _ in range(2)]
    inner.task_done()
    inner.join()
    simple.put(1)
    assert simple.get() == 1


def test_a_queue_of_a_queue_that_was_dropped_lives_as_long_as_its_message():
    outer = mp.Queue()
    inner = mp.Queue()
    inner.put(np.arange(50_000))
    outer.put(inner)
    inner.close()
    del inner
    assert outer.get().get()[-1] == 49_999


def test_connections_go_through_a_queue(make):
    q = make()
    here, there = mp.Pipe()
    q.put((there, np.arange(3)))
    there.close()
    end, array = q.get()
    end.send(array)
    assert here.recv().tolist() == [0, 1, 2]


def test_connections_may_wait_in_the_process_that_sent_them():
    q = mp.Queue()
    pairs = [mp.Pipe() for _ in range(600)]
    for _, there in pairs:
        q.put(there)
        there.close()
    for number, (here, _) in enumerate(pairs):
        q.get().send(number)
        assert here.recv() == number


def test_a_queue_is_shared_by_inheritance_or_in_a_message_of_ours(make):
    for dumps in (pickle.dumps, mp.reducer.ForkingPickler.dumps):
        with pytest.raises(RuntimeError, match="through inheritance"):
            dumps(make())


def test_threads_share_a_queue():
    q = mp.JoinableQueue(5)
    got = []

    def get_until_none():
        for item in iter(q.get, None):
            got.append(item)
            q.task_done()
        q.task_done()

    getters = [threading.Thread(target=get_until_none) for _ in range(3)]
    putters = [
        threading.Thread(target=put_all, args=(q, range(start, 600, 3))) for start in range(3)
    ]
    for thread in getters + putters:
        thread.start()
    for thread in putters:
        thread.join()
    put_all(q, [None] * 3)
    q.join()
    for thread in getters:
        thread.join()
    assert sorted(got) == list(range(600))


def put_where_there_is_no_room():
    queue = mp.SimpleQueue()
    threading.Thread(target=queue.get).start()
    with pytest.warns(RuntimeWarning, match="copied through pipes") as caught:
        queue.put(np.zeros(4 << 20))
    assert [one.filename for one in caught] == [__file__]


def test_the_warning_of_copies_names_a_line_of_the_program(small_tmpfs):
    small_tmpfs("size=4m")
    run_forked(put_where_there_is_no_room)
