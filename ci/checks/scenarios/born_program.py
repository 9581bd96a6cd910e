"""What `born_soak.py` kills: a program that hands arrays to workers and takes them back, all of
them born shared, and checks each element.

    python ci/checks/scenarios/born_program.py SEED

A line of its output is "checked N", "moved N", or "wrong …". It ends when its input does.
"""

import collections
import contextlib
import os
import random
import select
import sys
import traceback

import numpy as np
import shmarray
from shmarray.concurrent import BrokenProcessPool, ProcessPoolExecutor
from shmarray.multiprocessing import get_context

SIZES = (10_000, 70_000, 100_000, 300_000, 1_000_000)  # of 8 bytes each
METHODS = ("fork",) * 8 + ("spawn", "forkserver")

kept = []


def filled(value, size):
    return np.full(size, value, "i8")


def tagged(value):
    """What every task returns beside its arrays: whose they are, and how many were moved before."""
    return value, os.getpid(), shmarray.allocator_stats()["moved"]


# Tasks. Each returns arrays that are full of the value.


def one(value, size):
    return tagged(value), filled(value, size)


def fields(value, size):
    return tagged(value), {name: filled(value, size // 4) for name in "abcdefgh"}


def held(value, size):
    """Returns what a cache of the worker refers to, and changes what earlier tasks returned so."""
    for array in kept:
        array[:] = -1
    kept[3:] = []
    kept.insert(0, filled(value, size))
    return tagged(value), kept[0]


def part(value, size):
    return tagged(value), filled(value, size)[size // 8 :]


def doubled(value, array):
    """Stores into an argument that the worker owns, and returns it."""
    array *= 2
    return tagged(value), array


def through_a_cycle(value, size):
    """Drops memory that only a collection frees."""
    cycle = [filled(value, size)]
    cycle.append(cycle)
    return tagged(value), cycle[0]


def forked(value, size):
    """A child of the worker has what was free and what was in use, and ends in a moment."""
    array = filled(value, size)
    if (child := os.fork()) == 0:
        os._exit(int((filled(-1, size) == value).any() or (array != value).any()))
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1:  # it was not killed
        array[:] = -2  # the program will say so
    return tagged(value), array


def serve(connection, other):
    """A worker of one's own: sends back what it receives, with its memory."""
    other.close()  # else this worker would not see that the program was killed
    shmarray.use_allocator()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            value, array = connection.recv()
            array += 1
            connection.send((tagged(value + 1), shmarray.move(array.copy())))


TASKS = (one, one, fields, held, part, through_a_cycle, forked)


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kept = collections.deque(maxlen=6)
        self.moved = collections.Counter()

    def value(self):
        return self.random.randrange(2**40)

    def check(self, answer):
        """Checks what a task returned, stores into some of it, and keeps it for a while."""
        (value, pid, moved), got = answer
        self.moved[pid] = moved
        arrays = list(got.values()) if isinstance(got, dict) else [got]
        for array in arrays:
            if self.is_wrong(array, value):
                return
        if len(self.kept) == self.kept.maxlen:
            for value_then, array in self.kept.popleft():
                if self.is_wrong(array, value_then):
                    return
        if self.random.random() < 0.5:
            value = self.value()
            for array in arrays:
                array[:] = value
        self.kept.append([(value, array) for array in arrays])
        print(f"checked {len(arrays)}", flush=True)

    def is_wrong(self, array, value):
        """Tells of an array that is not full of a value."""
        if (array == value).all():
            return False
        others = np.unique(array)[:4]
        print(f"wrong: an array of {array.size} times {value} has {others}", flush=True)
        return True

    def submit(self, executor):
        task, value = self.random.choice((*TASKS, doubled)), self.value()
        size = self.random.choice(SIZES)
        if task is not doubled:
            return executor.submit(task, value, size)
        array = filled(value, size)
        return executor.submit(
            doubled, 2 * value, self.random.choice((shmarray.move, np.asarray))(array)
        )

    def use_executor(self):
        context = get_context(self.random.choice(METHODS))
        with ProcessPoolExecutor(2, context, allocator=True) as executor:
            for _ in range(self.random.randrange(1, 30)):
                futures = [self.submit(executor) for _ in range(self.random.randrange(1, 6))]
                for future in futures:
                    self.check(future.result())
                if self.is_over():
                    return

    def use_a_worker(self):
        """A worker with a pipe, which may be killed as it sends."""
        context = get_context(self.random.choice(METHODS))
        here, there = context.Pipe()
        worker = context.Process(target=serve, args=(there, here), daemon=True)
        worker.start()
        there.close()
        for _ in range(self.random.randrange(1, 60)):
            value = self.value()
            here.send((value, shmarray.move(filled(value, self.random.choice(SIZES)))))
            self.check(here.recv())
        worker.kill()
        worker.join()

    def is_over(self):
        return bool(select.select([0], [], [], 0)[0])

    def run(self):
        with shmarray.allocator():
            while not self.is_over():
                use = self.random.choice((self.use_executor, self.use_a_worker))
                with contextlib.suppress(BrokenProcessPool, EOFError, ConnectionError):
                    use()  # a worker may be killed
                print(f"moved {self.moved.total()}", flush=True)
                self.moved.clear()


if __name__ == "__main__":
    try:
        Program(int(sys.argv[1])).run()
    except BaseException:
        print("wrong:", traceback.format_exc().replace("\n", " | "), flush=True)
        raise
