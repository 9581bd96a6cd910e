"""Measures results of a worker that are born shared, beside those that are copied, and NumPy's
arithmetic on such memory.

    python born.py WAY CASE

Each line of input is answered by a line of JSON with the seconds of one round: the processor time
of the transport, which is that of all threads of worker and parent without the worker's computing,
or the time from the call to the look at the result.
"""

import functools
import glob
import json
import multiprocessing
import os
import pickle
import sys
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pandas as pd
import shmarray
import shmarray.multiprocessing
import xarray as xr

FIELDS = 100
GRID = 1000, 1000
"""A field has 4 MB."""


def full(count, number):
    return np.full(count, number)


def fields(number):
    return {f"v{field}": np.full(GRID, number, "f4") for field in range(FIELDS)}


def data_set(number):
    return xr.Dataset({name: (("y", "x"), values) for name, values in fields(number).items()})


def frame(number):
    columns = {name: values.ravel() for name, values in fields(number).items()}
    return pd.DataFrame(columns, copy=False)


RESULTS = {
    "50 MB": functools.partial(full, 6_250_000),
    "4 MB": functools.partial(full, 500_000),
    "400 KB": functools.partial(full, 50_000),
    "100 fields, dict": fields,
    "100 fields, Dataset": data_set,
    "100 fields, DataFrame": frame,
}


def look(result):
    """Returns what the caller reads of a result, and drops."""
    if isinstance(result, np.ndarray):
        return float(result[-1])
    last = result[f"v{FIELDS - 1}"]
    return float(last.values.ravel()[-1] if hasattr(last, "values") else last[-1, -1])


def timed(function, number):
    began = time.process_time()
    result = function(number)
    return time.process_time() - began, result


def in_shared_memory(function, number):
    """Returns a result pickled by protocol 5, with its buffers in one SharedMemory."""
    seconds, result = timed(function, number)
    buffers = []
    stream = pickle.dumps(result, 5, buffer_callback=buffers.append)
    raw = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in raw]
    memory = SharedMemory(create=True, size=max(sum(sizes), 1))
    at = 0
    for view in raw:
        memory.buf[at : at + view.nbytes] = view
        at += view.nbytes
    name = memory.name
    memory.close()
    return seconds, stream, sizes, name


def look_at_shared_memory(stream, sizes, name):
    memory = SharedMemory(name)
    views, at = [], 0
    for size in sizes:
        views.append(memory.buf[at : at + size])
        at += size
    result = pickle.loads(stream, buffers=views)
    seen = look(result)
    del result
    for view in views:
        view.release()
    memory.close()
    memory.unlink()
    return seen


class Way:
    """A pool of one worker, and how a result comes from it."""

    def __init__(self, way):
        self._by_name = way == "SharedMemory"
        if self._by_name:
            resource_tracker.ensure_running()  # one for both processes
            self._pool = multiprocessing.get_context("fork").Pool(1)
        else:
            options = {"allocator": True} if way == "moved" else {}
            self._pool = shmarray.multiprocessing.get_context("fork").Pool(1, **options)
        self._worker = self._pool._pool[0].pid

    def call(self, function, number):
        """Returns the worker's seconds of computing. What comes must be as it was made."""
        if self._by_name:
            seconds, *rest = self._pool.apply(in_shared_memory, (function, number))
            seen = look_at_shared_memory(*rest)
        else:
            seconds, result = self._pool.apply(timed, (function, number))
            seen = look(result)
        assert seen == number
        return seconds

    def processor_time(self):
        """Returns the seconds that both processes have computed."""
        nanoseconds = 0
        for path in glob.glob(f"/proc/{self._worker}/task/*/schedstat"):
            with open(path) as file:
                nanoseconds += int(file.read().split()[0])
        return nanoseconds / 1e9 + time.process_time()


def transport(way, case):
    way, function = Way(way), RESULTS[case]
    calls = {"4 MB": 20, "400 KB": 100}.get(case, 2)
    numbers = iter(range(1, 1_000_000))

    def run():
        before, computing = way.processor_time(), 0
        for _ in range(calls):
            computing += way.call(function, float(next(numbers)))
        return (way.processor_time() - before - computing) / calls

    return run


def end_to_end(way, case):
    way, function = Way(way), RESULTS[case]
    numbers = iter(range(1, 1_000_000))

    def run():
        began = time.perf_counter()
        way.call(function, float(next(numbers)))
        return time.perf_counter() - began

    return run


def arithmetic(way, case):
    """The time of some operations on arrays of one size. The least of several passes counts."""
    count = int(case.split()[0]) // 8
    if way == "moved":
        shmarray.use_allocator()
    a, b = np.arange(count, dtype=float), np.ones(count)
    chosen = np.arange(count)[::-1].copy()
    passes = max(5, (16 << 20) // max(count * 8, 4096))

    def once():
        c = a + b
        c = c.copy() * 2.0
        c = np.concatenate([c[: count // 2], a[count // 2 :]])
        c = c[chosen]
        np.ones(count)
        np.zeros(count)
        return c[c > 3]

    def run():
        least = 1e9
        for _ in range(7):
            began = time.perf_counter()
            for _ in range(passes):
                once()
            least = min(least, (time.perf_counter() - began) / passes)
        return least

    return run


def main():
    way, case = sys.argv[1:]
    if case.endswith("bytes"):
        run = arithmetic(way, case)
    elif case.endswith("with its computing"):
        run = end_to_end(way, case.partition(", with its")[0])
    else:
        run = transport(way, case)
    run()
    for _ in sys.stdin:
        print(json.dumps({"seconds": run()}), flush=True)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
