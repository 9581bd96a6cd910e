"""A Dask cluster that lives for N tasks while its workers are killed at random:
`dask_deaths_program.py N SEED`. Prints how many were killed.
"""

import itertools
import os
import random
import signal
import sys

import dask
from distributed import Client, LocalCluster

import dask_tasks as tasks
import shmarray.dask

WAVE = 100
"""The tasks of one wave: half of them make arrays, and one less add two of those."""
SIZE = 40_000
CONFIG = {
    "distributed.shmarray.min-size": "64 KiB",
    # No task is at fault if its worker is killed.
    "distributed.scheduler.allowed-failures": 1_000,
    "distributed.comm.timeouts.connect": "5s",
    # A LocalCluster gives up a worker that is away when this time has passed since its death, also
    # if another death is the reason. By default it is 15 s: after some deaths no worker is left.
    "distributed.deploy.lost-worker-timeout": "1 day",
}
WORKERS = 4


def wave(client, is_large):
    """Submits tasks. Returns the futures of arrays, with the number that each is full of."""
    size = 8 * SIZE if is_large else SIZE
    makers = [client.submit(tasks.fill, i, size, pure=False) for i in range(WAVE // 2)]
    pairs = enumerate(itertools.pairwise(makers))
    return [(client.submit(tasks.add, *pair, pure=False), 2 * i + 1) for i, pair in pairs]


def main(count, seed):
    choose = random.Random(seed)
    killed = done = 0
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        number = 0
        while done < count:
            assert len(cluster.workers) == WORKERS, "the cluster has given up a worker"
            added = wave(client, number % 3 == 0)
            pids = [nanny.pid for nanny in cluster.workers.values()]
            victim = choose.choice(pids)
            if number % 4 == 3 and victim is not None:
                os.kill(victim, signal.SIGKILL)
                killed += 1
            for future, expected in added:
                result = future.result()
                assert (result == expected).all()
            done += WAVE - 1
            number += 1
            del added, future, result
    print(killed, done)


if __name__ == "__main__":
    with dask.config.set(CONFIG):
        shmarray.dask.register()
        main(*map(int, sys.argv[1:]))
