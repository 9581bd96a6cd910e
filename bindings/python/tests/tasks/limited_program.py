"""Runs one way of receiving arrays again and again under ``ulimit -v``:

python limited_program.py MODULE WAY ROUNDS, where MODULE is multiprocessing or shmarray. Each round
receives four arrays of 16 MB and drops them. Prints what is left: the mappings of segments whose
files have no name, and whether the program can have half of the limit for itself.
"""

import resource
import sys

import numpy as np

STANDARD = sys.argv[1] == "multiprocessing"
if STANDARD:
    import multiprocessing as mp
    from concurrent.futures import ProcessPoolExecutor
else:
    import shmarray
    import shmarray.multiprocessing as mp
    from shmarray.concurrent import ProcessPoolExecutor

COUNT = 2_000_000
PARTS = 4
SPACE = 600 << 20


def ones(_):
    return np.ones(COUNT)


def put(queue):
    for _ in range(PARTS):
        queue.put(np.ones(COUNT))


def pool():
    with mp.Pool(2) as workers:
        return sum(x.sum() for x in workers.imap(ones, range(PARTS)))


def maxtasksperchild():
    with mp.Pool(2, maxtasksperchild=1) as workers:
        return sum(x.sum() for x in workers.imap(ones, range(PARTS), chunksize=1))


def executor():
    with ProcessPoolExecutor(2) as workers:
        return sum(x.sum() for x in workers.map(ones, range(PARTS)))


def queue():
    between = mp.Queue()
    process = mp.Process(target=put, args=(between,))
    process.start()
    total = sum(between.get().sum() for _ in range(PARTS))
    process.join()
    return total


def address_space():
    with open("/proc/self/statm") as facts:
        return int(facts.read().split()[0]) * resource.getpagesize()


def ended():
    with open("/proc/self/maps") as maps:
        return sum("/shmarray-" in line and line.endswith("(deleted)\n") for line in maps)


if __name__ == "__main__":
    most = address_space() + SPACE
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
    for _ in range(int(sys.argv[3])):
        assert globals()[sys.argv[2]]() == PARTS * COUNT
    if not STANDARD:
        shmarray.sweep()
    own = np.ones(SPACE // 16)
    print(ended(), own.nbytes == SPACE // 2)
