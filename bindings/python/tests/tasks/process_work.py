"""The work of processes in the tests of multiprocessing. It imports no pytest, which is slow."""

import contextlib
import multiprocessing
import os
import pickle
import signal

import numpy as np

import shmarray
import shmarray.multiprocessing as mp
from shmarray.multiprocessing.managers import BaseManager
from shmarray.multiprocessing.queues import Empty

SIZE = 3_000_000
"""The bytes that each worker holds."""


def arrays():
    """Arrays of every kind of memory, class and layout."""
    shared = shmarray.array(np.arange(60_000, dtype="i4").reshape(3, 200, 100))
    private = np.linspace(0, 1, 60_000).reshape(200, 300)
    fields = np.zeros(5, [("name", "S4"), ("value", ">f8")])
    masked = np.ma.masked_less(private, 0.5)
    return {
        "shared": shared,
        "view of it": shared[1:, ::-2, 3],
        "private": private,
        "its transpose": private.T,
        "small": np.arange(3),
        "empty": np.zeros((0, 3)),
        "of no dimensions": np.array(5.5),
        "fields": fields,
        "masked": masked,
        "dates": np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        "objects": np.array([1, "two", None], object),
        "readonly": np.broadcast_to(np.arange(4), (3, 4)),
    }


def as_pickled(array):
    """Returns what the standard modules deliver: a shared array itself, and any other pickled."""
    return array if shmarray.is_shared(array) else pickle.loads(pickle.dumps(array))


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ma.MaskedArray):
        np.testing.assert_array_equal(one.mask, other.mask)
    np.testing.assert_array_equal(one, other)
    assert (one.dtype, one.shape, one.flags.writeable) == (
        other.dtype,
        other.shape,
        other.flags.writeable,
    )


def run(context, target, *args, **kwargs):
    """Runs a process, which must succeed."""
    process = context.Process(target=target, args=args, kwargs=kwargs)
    process.start()
    process.join()
    assert process.exitcode == 0


def call(context, function, *args):
    """Returns what a function returns in a process."""
    ours, theirs = context.Pipe(duplex=False)
    run(context, answer, theirs, function, args)
    theirs.close()
    return ours.recv()


def answer(end, function, args):
    end.send(function(*args))


def compare(sent, is_pickled):
    for name, array in arrays().items():
        assert_same(sent[name], as_pickled(array) if is_pickled else array)


def write(shared, private, *, number):
    shared[:] = number
    private[:] = number


def length(data):
    return len(data)


def use_all(numbers, lock, value, ends, queue, one, standard):
    with lock:
        value.value += 1
    for number, end in zip(numbers, ends, strict=True):
        end.send(number)
    queue.put("from the child")
    one.send(b"socket")
    standard.send("standard")


def facts():
    here = mp.current_process()
    environment = {
        name: value for name, value in os.environ.items() if name.startswith("SHMARRAY_")
    }
    return {
        "method": mp.get_start_method(),
        "standard": multiprocessing.get_start_method(allow_none=True),
        "name": here.name,
        "daemon": here.daemon,
        "parent": mp.parent_process().pid,
        "environment": environment,
    }


def start_another(context_name, array):
    context = mp.get_context(context_name)
    run(context, write, array, np.zeros(1), number=3)


class Worker(mp.get_context("spawn").Process):
    """A process with attributes, as programs have them."""

    def __init__(self, array, end):
        super().__init__(name="worker")
        self.array = array
        self.end = end

    def run(self):
        self.end.send((self.name, self.array.sum()))


class Refuses:
    def __reduce__(self):
        return divmod, (1, 0)


def put_all(q, items):
    for item in items:
        q.put(item)


def drain(q):
    """Returns all that there is to get now."""
    got = []
    with contextlib.suppress(Empty):
        while True:
            got.append(q.get_nowait())
    return got


def get_all(q, answers):
    """Gets until there is a None, which it leaves for the others."""
    while (item := q.get()) is not None:
        answers.put((os.getpid(), item))
    q.put(None)


def put_and_wait(q, count, pipe):
    put_all(q, range(count))
    pipe.send("put")
    pipe.recv()


def get_and_wait(q, count, pipe):
    pipe.send([q.get() for _ in range(count)])
    pipe.recv()


def do_tasks(q, answers):
    for task in iter(q.get, None):
        answers.put(task)
        q.task_done()
    q.task_done()


def put_and_end_at_once(q, count):
    q.cancel_join_thread()
    put_all(q, range(count))


def use_proxies(frames, facts, queue, event, barrier, lock):
    with lock:
        frames[0][:] = 3
    facts["sum"] = frames[0].sum()
    queue.put(np.full(50_000, 4))
    barrier.wait()
    event.wait()


class Frames:
    """A class of the program."""

    def __init__(self, count):
        self.all = [shmarray.zeros(50_000) for _ in range(count)]

    def frame(self, number):
        return self.all[number]

    def total(self):
        return sum(frame.sum() for frame in self.all)


class FrameManager(BaseManager):
    """A manager of the program."""


FrameManager.register("Frames", Frames)


def hold(end):
    array = shmarray.ones(SIZE, "u1")
    end.send(array.nbytes)
    signal.pause()


def join_and_say(q, pipe):
    q.join()
    pipe.send("joined")
