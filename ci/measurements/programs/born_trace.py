"""Measures the memory of a process that computes with pandas and xarray until NumPy has allocated
so many arrays in shared memory.

    python born_trace.py [ALLOCATIONS]

It keeps 80 random results. The peaks are of its shared memory and of its private memory beyond that
of the start, every 5 ms; "in use" is the peak of what NumPy had not freed.
"""

import contextlib
import os
import pathlib
import random
import sys
import tempfile
import threading

import numpy as np
import pandas as pd
import xarray as xr

KEPT = 80
EVERY_SECONDS = 0.005


def frame(generator, rows):
    return pd.DataFrame(
        {
            "key": generator.integers(0, 50, rows),
            "a": generator.random(rows),
            "b": generator.random(rows),
            "c": generator.integers(0, 9, rows).astype("f4"),
        }
    )


def data_set(generator, rows):
    side = int(rows**0.5)
    return xr.Dataset({name: (("y", "x"), generator.random((side, side))) for name in "uvw"})


def merged(table):
    return table.merge(table[["key"]].drop_duplicates().assign(d=1.0), on="key")


def selected(table):
    return pd.concat([table, table], ignore_index=True)[lambda rows: rows.a > 0.5]


def speed(data):
    return (data.u**2 + data.v**2) ** 0.5 - data.w.mean("x")


def smoothed(data):
    return xr.concat([data.u, data.v, data.u * 2, data.w], "t").rolling(x=3).mean()


WORK = (
    (frame, lambda table: table.groupby("key").mean()),
    (frame, lambda table: table.sort_values("a").reset_index(drop=True)),
    (frame, merged),
    (frame, lambda table: table.rolling(5).mean()),
    (frame, lambda table: (table[["a", "b"]] * 2 + 1).fillna(0).cumsum()),
    (frame, selected),
    (data_set, speed),
    (data_set, smoothed),
)


def work(choose, generator):
    make, use = choose.choice(WORK)
    return use(make(generator, int(2 ** choose.uniform(13.5, 17.5))))


def private():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def shared(directory):
    blocks = 0
    for path in pathlib.Path(directory).iterdir():
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            blocks += path.stat().st_blocks
    return blocks * 512


class Peaks(threading.Thread):
    def __init__(self, directory):
        super().__init__(daemon=True)
        self.directory, self.began, self.ended = directory, private(), threading.Event()
        self.shared = self.private = 0

    def run(self):
        while not self.ended.wait(EVERY_SECONDS):
            self.shared = max(self.shared, shared(self.directory))
            self.private = max(self.private, private() - self.began)


def main(least):
    choose, generator, kept = random.Random(1), np.random.default_rng(1), []
    for _ in range(20):
        work(choose, generator)  # loads code
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        os.environ["SHMARRAY_DIR"] = directory
        import shmarray  # noqa: PLC0415 - it reads the variable

        shmarray.use_allocator()
        peaks = Peaks(directory)
        peaks.start()
        while (stats := shmarray.allocator_stats())["allocations"] < least:
            kept.append(work(choose, generator))
            if len(kept) > KEPT:
                kept.pop(choose.randrange(len(kept)))
        peaks.ended.set()
        peaks.join()
    used = stats["peak_bytes"]
    print(f"{stats['allocations']:,} allocations, {stats['reused']:,} of them of idle memory")
    print(
        f"at most {used >> 20} MiB in use, {peaks.shared >> 20} shared: {peaks.shared / used:.2f} ×"
    )
    print(f"at most {peaks.private >> 20} MiB private beyond those of the start")


if __name__ == "__main__":
    main(int((sys.argv[1:] or [1_000_000])[0]))
