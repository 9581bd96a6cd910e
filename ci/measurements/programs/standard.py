"""Sends objects one way between processes, by the standard library or by shmarray.

    python standard.py {ours,standard} WAY

Each line of JSON names an object and how often to send it. The answer is the seconds for each
object: of a round trip, or for `stream` of the way there alone. Workers are forked.
"""

import concurrent.futures
import itertools
import json
import multiprocessing
import os
import sys
import time

import numpy as np
import shmarray.concurrent
import shmarray.multiprocessing

ARRAY = np.arange(8.0)


class Point:
    def __init__(self):
        self.name = "a point"
        self.place = [1.0, 2.0]


def frame():
    import pandas as pd

    return pd.DataFrame({"a": np.arange(100), "b": np.arange(100.0), "c": ["x"] * 100})


OBJECTS = {
    "None": lambda: None,
    "int": lambda: 7,
    "str": lambda: "a text of some length",
    "dict": lambda: {"a": 1, "b": "two", "c": [1, 2, 3.0]},
    "str, 100 bytes": lambda: "x" * 100,
    "str, 10 KiB": lambda: "x" * (10 << 10),
    "dict, 1 KiB": lambda: {f"name {number}": number for number in range(60)},
    "dict, 10 KiB": lambda: {f"name {number}": f"value {number}" for number in range(350)},
    "tuple of 10 ints": lambda: tuple(range(10)),
    "object of a class": Point,
    "dict of 2 arrays of 64 bytes": lambda: {"a": ARRAY.copy(), "b": ARRAY.copy()},
    "100 arrays of 64 bytes": lambda: [ARRAY + number for number in range(100)],
    "array of 10 KiB": lambda: np.arange(1280.0),
    "array of 64 KiB": lambda: np.arange(8192.0),
    "array of 1 MiB": lambda: np.arange(131072.0),
    "array of 8 MiB": lambda: np.arange(1048576.0),
    "DataFrame of 100 × 3": frame,
    "bytes, 1 KiB": lambda: b"x" * (1 << 10),
    "bytes, 10 KiB": lambda: b"x" * (10 << 10),
    "bytes, 31 KiB": lambda: b"x" * (31 << 10),
    "bytes, 100 KiB": lambda: b"x" * (100 << 10),
    "bytes, 1 MiB": lambda: b"x" * (1 << 20),
    "bytes, 100 MB": lambda: b"x" * 100_000_000,
    "str, 100 KiB": lambda: "x" * (100 << 10),
}


def same(obj):
    return obj


def echo(connection):
    try:
        while True:
            connection.send(connection.recv())
    except EOFError:
        pass


def echo_queue(there, back):
    while True:
        back.put(there.get())


def count_queue(there, back):
    while True:
        for _ in range(there.get()):
            there.get()
        back.put(None)


class Pipe:
    def __init__(self, library):
        self.here, there = library.context.Pipe()
        library.start(echo, there)
        there.close()

    def run(self, objects, count):
        for obj in objects[:count]:
            self.here.send(obj)
            self.here.recv()


class Queue:
    def __init__(self, library, kind, *arguments):
        make = getattr(library.context, kind)
        self.there = make(*arguments)
        self.back = make(*arguments)
        library.start(echo_queue, self.there, self.back)

    def run(self, objects, count):
        for obj in objects[:count]:
            self.there.put(obj)
            self.back.get()


class Stream:
    def __init__(self, library, kind, *arguments):
        self.there = getattr(library.context, kind)(*arguments)
        self.back = library.context.SimpleQueue()
        library.start(count_queue, self.there, self.back)

    def run(self, objects, count):
        self.there.put(count)
        for obj in objects[:count]:
            self.there.put(obj)
        self.back.get()


def do_tasks(there):
    while True:
        there.get()
        there.task_done()


class Tasks:
    def __init__(self, library):
        self.there = library.context.JoinableQueue()
        library.start(do_tasks, self.there)

    def run(self, objects, count):
        for obj in objects[:count]:
            self.there.put(obj)
        self.there.join()


class OneProcess:
    def __init__(self, library):
        self.queue = library.context.Queue()

    def run(self, objects, count):
        for obj in objects[:count]:
            self.queue.put(obj)
            self.queue.get()


def send_on(orders, queue):
    while True:
        obj, count = orders.get()
        for _ in range(count):
            queue.put(obj)


class Senders:
    COUNT = 3

    def __init__(self, library):
        self.queue = library.context.Queue()
        self.orders = [library.context.SimpleQueue() for _ in range(self.COUNT)]
        for orders in self.orders:
            library.start(send_on, orders, self.queue)

    def run(self, objects, count):
        shares = [len(range(number, count, self.COUNT)) for number in range(self.COUNT)]
        for orders, share in zip(self.orders, shares, strict=True):
            orders.put((objects[0], share))
        for _ in range(count):
            self.queue.get()


class Pool:
    def __init__(self, library, method, **options):
        self.pool = library.context.Pool(2)
        self.map = lambda objects: getattr(self.pool, method)(same, objects, **options)

    def run(self, objects, count):
        for _ in self.map(objects[:count]):
            pass


class Executor:
    def __init__(self, library, chunk):
        self.executor = library.executor(2, mp_context=library.context)
        self.chunk = chunk

    def run(self, objects, count):
        for _ in self.executor.map(same, objects[:count], chunksize=self.chunk):
            pass


class FirstMessages:
    """Starts a new process each time, and sends the first message to it and back."""

    def __init__(self, library):
        self.library = library

    def run(self, objects, count):
        for obj in objects[:count]:
            Pipe(self.library).run([obj], 1)


WAYS = {
    "Pipe": Pipe,
    "SimpleQueue": lambda library: Queue(library, "SimpleQueue"),
    "Queue": lambda library: Queue(library, "Queue"),
    "Queue of 10": lambda library: Queue(library, "Queue", 10),
    "Queue, stream": lambda library: Stream(library, "Queue"),
    "Queue of 10, stream": lambda library: Stream(library, "Queue", 10),
    "SimpleQueue, stream": lambda library: Stream(library, "SimpleQueue"),
    "JoinableQueue, stream": Tasks,
    "Queue, 3 senders": Senders,
    "Queue, one process": OneProcess,
    "Pool.map": lambda library: Pool(library, "map"),
    "Pool.imap, 1": lambda library: Pool(library, "imap"),
    "Pool.imap, 100": lambda library: Pool(library, "imap", chunksize=100),
    "Pool.imap_unordered, 1": lambda library: Pool(library, "imap_unordered"),
    "Pool.imap_unordered, 100": lambda library: Pool(library, "imap_unordered", chunksize=100),
    "Executor.map, 1": lambda library: Executor(library, 1),
    "Executor.map, 100": lambda library: Executor(library, 100),
    "a new process": FirstMessages,
}
LIBRARIES = {
    "standard": (multiprocessing, concurrent.futures.ProcessPoolExecutor),
    "ours": (shmarray.multiprocessing, shmarray.concurrent.ProcessPoolExecutor),
}


class Library:
    def __init__(self, name):
        module, self.executor = LIBRARIES[name]
        self.context = module.get_context("fork")

    def start(self, target, *arguments):
        self.context.Process(target=target, args=arguments, daemon=True).start()


def objects_of(name, count):
    """Different objects, or nearly: pickle writes a repeated object of a chunk as a reference."""
    return [
        *itertools.islice(itertools.cycle([OBJECTS[name]() for _ in range(min(count, 200))]), count)
    ]


THERE_AND_BACK = ("Pipe", "SimpleQueue", "Queue", "Queue of 10")


def main():
    if sys.argv[2] in THERE_AND_BACK:
        # One of the two works at a time. On two processors an int takes 12 µs or 90, as the kernel
        # puts them.
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    way = WAYS[sys.argv[2]](Library(sys.argv[1]))
    for line in sys.stdin:
        order = json.loads(line)
        objects = objects_of(order["object"], order["count"])
        way.run(objects, order["warm"])
        began = time.perf_counter()
        way.run(objects, order["count"])
        print((time.perf_counter() - began) / order["count"], flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
