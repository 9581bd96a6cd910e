"""Opens a large list in a file, and reads all items once in random order, from the disk.

    python large_list.py FOLDER GIGABYTES

Needs as much shared memory as the list has, and root, to empty the page cache. Beside it the same
bytes are read by `pread` in the same order, which is what the disk gives.
"""

import os
import pathlib
import random
import sys
import time

import numpy as np
import shmarray

SAMPLE = 100_000
"""Floats in an item."""


def samples(count):
    for number in range(count):
        yield {"label": number, "pixels": np.full(SAMPLE, number, "f4")}


def seconds_of(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def from_disk(run):
    """The seconds of something that finds no page of a file in memory."""
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
    return seconds_of(run)


def main():
    folder, gigabytes = pathlib.Path(sys.argv[1]), float(sys.argv[2])
    path = folder / "large.list"
    count = int(gigabytes * 1e9 / (4 * SAMPLE))
    items = None

    def make():
        nonlocal items
        items = shmarray.List(samples(count))

    rate = 4 * SAMPLE * count / 1e6
    print(f"making: {rate / seconds_of(make):.0f} MB/s, {items.nbytes / 1e9:.2f} GB")
    print(f"saving: {rate / seconds_of(lambda: items.save(path)):.0f} MB/s")
    items = None
    opening = sorted(seconds_of(lambda: shmarray.List.open(path)) for _ in range(101))
    print(f"opening: {opening[50] * 1e6:.0f} µs; without a page in memory: ", end="")
    print(f"{from_disk(lambda: shmarray.List.open(path)) * 1e3:.2f} ms")

    order = random.Random(0).sample(range(count), count)
    opened = shmarray.List.open(path)

    def epoch():
        for number in order:
            item = opened[number]
            assert item["label"] == number
            assert item["pixels"].min() == number

    def preads():
        file = os.open(path, os.O_RDONLY)
        for number in order:
            os.pread(file, 4 * SAMPLE, number * 4 * SAMPLE)
        os.close(file)

    for name, run in (("a random epoch", epoch), ("pread in that order", preads)) * 2:
        print(f"{name}: {rate / from_disk(run):.0f} MB/s")
    path.unlink()


if __name__ == "__main__":
    main()
