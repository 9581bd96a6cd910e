"""Measures what a process does with an array that it has received, or sends to several workers.

    python received.py ORDER

Each line of input is answered by a line of JSON: the seconds of one round, and how often an array
was copied to shared memory in it.
"""

import json
import multiprocessing
import os
import sys
import time

import numpy as np
import shmarray
import shmarray.multiprocessing

ELEMENTS = 6_250_000
"""50 MB."""
MANY = 20_000_000
"""160 MB."""
WORKERS = 8


def write_to(make):
    """The processor time of the first write to all of an array."""

    def run():
        array = make()
        array.sum()
        began = time.process_time()
        array += 1
        return time.process_time() - began

    return run


def fork_with(make, count):
    """The time of a fork with 256 MiB that were written to."""

    def run():
        arrays = [make((32 << 20) // count) for _ in range(count)]
        for array in arrays:
            array += 1
        began = time.perf_counter()
        child = os.fork()
        if child == 0:
            os._exit(0)
        seconds = time.perf_counter() - began
        os.waitpid(child, 0)
        return seconds

    return run


def made(elements):
    return np.full(elements, 1.0)


def loaded(elements):
    return shmarray.loads(shmarray.dumps(made(elements)))


def read(array, number):
    return float(array.sum()) + number


def write(array, number):
    array += number
    return float(array.sum())


def to_workers(library, work, count):
    """The time of a call of which 8 tasks have one array, or one each."""
    pool = library.get_context("fork").Pool(WORKERS)
    arrays = [np.full(MANY, 1.0 + number) for number in range(count)]
    tasks = [(arrays[number % count], number) for number in range(WORKERS)]

    def run():
        began = time.perf_counter()
        pool.starmap(work, tasks, chunksize=1)
        return time.perf_counter() - began

    return run


def result():
    pool = shmarray.multiprocessing.get_context("fork").Pool(1)
    return lambda: pool.apply(made, (ELEMENTS,))


OURS = shmarray.multiprocessing
ORDERS = {
    "write to a result": lambda: write_to(result()),
    "write to what was loaded": lambda: write_to(lambda: loaded(ELEMENTS)),
    "write to own memory": lambda: write_to(lambda: made(ELEMENTS)),
    "fork with 128": lambda: fork_with(loaded, 128),
    "fork with own 128": lambda: fork_with(made, 128),
    "fork with 8": lambda: fork_with(loaded, 8),
    "fork with own 8": lambda: fork_with(made, 8),
    "read one": lambda: to_workers(OURS, read, 1),
    "read eight": lambda: to_workers(OURS, read, WORKERS),
    "read by standard": lambda: to_workers(multiprocessing, read, 1),
    "write one": lambda: to_workers(OURS, write, 1),
    "write eight": lambda: to_workers(OURS, write, WORKERS),
    "write by standard": lambda: to_workers(multiprocessing, write, 1),
}


def main():
    run = ORDERS[sys.argv[1]]()
    run()
    for _ in sys.stdin:
        before = shmarray.copied_bytes()
        seconds = run()
        copies = (shmarray.copied_bytes() - before) / (8 * MANY)
        print(json.dumps({"seconds": seconds, "copies": copies}), flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
