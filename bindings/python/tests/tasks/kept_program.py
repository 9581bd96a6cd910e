"""Keeps many results of 40 KB, by every way that a process receives:

`kept_program.py WAY COUNT`.
"""

import sys

import numpy as np

import shmarray
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor

ITEMS = 5000


def result(number):
    return np.full(ITEMS, number, "<i8")


def put_all(queue, count):
    for number in range(count):
        queue.put(result(number))


def by_queue(context, count):
    queue = context.Queue(16)
    process = context.Process(target=put_all, args=(queue, count))
    process.start()
    for _ in range(count):
        yield queue.get()
    process.join()


def by_executor(context, count):
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        yield from executor.map(result, range(count), chunksize=16)


def by_pool(context, count):
    with context.Pool(2) as pool:
        yield from pool.imap(result, range(count), chunksize=16)


def by_loads(_context, count):
    for number in range(count):
        yield shmarray.loads(shmarray.dumps(result(number)))


def most_mappings():
    with open("/proc/sys/vm/max_map_count") as limit:
        return int(limit.read())


def mappings():
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)


def main():
    way = sys.argv[1]
    count = int(sys.argv[2])
    results = list(globals()["by_" + way](mp.get_context("fork"), count))
    assert mappings() < most_mappings() // 2, (
        mappings()
    )  # that a file can be read shows that there are some left
    assert len(results) == count
    for number, array in enumerate(results):
        assert array.flags.writeable
        assert array[0] == array[-1] == number
        array[-1] = -number  # in its own memory
    assert all(array[0] == -array[-1] for array in results)
    print(mappings())


if __name__ == "__main__":
    main()
