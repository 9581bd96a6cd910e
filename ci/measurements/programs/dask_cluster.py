"""A Dask cluster of one host: answers each line of JSON by one line.

    python dask_cluster.py ours|distributed|inproc

Registering changes Dask for a whole process, so each way has a process of its own.
"""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import dask.array as da
import numpy as np
import shmarray
import xarray as xr
from distributed import Client, LocalCluster, wait
from distributed.worker import get_data_from_worker

WORKERS = 4


def make(count, is_shared, first):
    array = (shmarray.empty if is_shared else np.empty)(count)
    array[:] = first
    return array


def ends(array):
    """Returns the ends, so that the time is that of the transport."""
    return float(array[0] + array[-1])


async def fetch(key, address, dask_worker):
    """Returns how long a worker takes to get data from another one, and what it looks at."""
    began = time.perf_counter()
    answer = await get_data_from_worker(dask_worker.rpc, [key], address)
    return time.perf_counter() - began, ends(answer["data"][key])


class Cluster:
    """The cluster, and what is done with it."""

    def __init__(self, way):
        if way == "ours":
            import shmarray.dask

            shmarray.dask.register()
        self._local = LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            processes=way != "inproc",
            dashboard_address=":0",
        )
        self._client = Client(self._local)
        self._client.wait_for_workers(WORKERS)
        self._workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        self._count = 0

    def _made(self, size_bytes, is_shared):
        self._count += 1
        future = self._client.submit(
            make, size_bytes // 8, is_shared, self._count, workers=self._workers[:1], pure=False
        )
        wait(future)
        return future

    def task(self, size_bytes, is_shared):
        """A task of another worker that needs the array."""
        future = self._made(size_bytes, is_shared)
        began = time.perf_counter()
        seen = self._client.submit(ends, future, workers=self._workers[1:2], pure=False).result()
        return self._took(began, seen)

    def data(self, size_bytes, is_shared):
        """The transfer in such a task, without the scheduler."""
        future = self._made(size_bytes, is_shared)
        (answer,) = self._client.run(
            fetch, future.key, self._workers[0], workers=self._workers[1:2]
        ).values()
        seconds, seen = answer
        assert seen == 2 * self._count
        return seconds

    def client(self, size_bytes, is_shared):
        """The result to the client."""
        future = self._made(size_bytes, is_shared)
        began = time.perf_counter()
        seen = ends(future.result())
        return self._took(began, seen)

    def broadcast(self, size_bytes, is_shared):
        """The client's array to all workers."""
        self._count += 1
        array = make(size_bytes // 8, is_shared, self._count)
        began = time.perf_counter()
        future = self._client.scatter(array, broadcast=True, hash=False)
        seconds = time.perf_counter() - began
        self._check_all(future)
        return seconds

    def memory(self, size_bytes, is_shared):
        """The memory of all processes when all have the client's array, in multiples of it."""
        pids = [os.getpid(), *self._client.run(os.getpid).values()]
        before = sum(map(proportional, pids))
        array = make(size_bytes // 8, is_shared, 1)
        future = self._client.scatter(array, broadcast=True, hash=False)
        # Memory counts for those that have touched it.
        tasks = [
            self._client.submit(np.sum, future, workers=[worker], pure=False)
            for worker in self._workers
        ]
        assert self._client.gather(tasks) == [len(array)] * WORKERS
        return (sum(map(proportional, pids)) - before) / array.nbytes

    def _check_all(self, future):
        tasks = [
            self._client.submit(ends, future, workers=[worker], pure=False)
            for worker in self._workers
        ]
        assert self._client.gather(tasks) == [2 * self._count] * WORKERS

    def _took(self, began, seen):
        seconds = time.perf_counter() - began
        assert seen == 2 * self._count
        return seconds

    def rechunk(self, size_bytes):
        """From slices of rows to slices of columns."""
        side = int((size_bytes // 8) ** 0.5) // 8 * 8
        x = da.random.default_rng(1).random((side, side), chunks=(side // 8, side)).persist()
        wait(x)
        began = time.perf_counter()
        y = x.rechunk((side, side // 8)).persist()
        wait(y)
        return time.perf_counter() - began

    def overlap(self, size_bytes):
        """A stencil, which needs the borders of neighbours."""
        side = int((size_bytes // 8) ** 0.5) // 4 * 4
        x = da.random.default_rng(1).random((side, side), chunks=(side // 4, side // 4)).persist()
        wait(x)
        began = time.perf_counter()
        x.map_overlap(lambda a: a - np.roll(a, 1, 0), depth=2, boundary="reflect").sum().compute()
        return time.perf_counter() - began

    def matrix(self, size_bytes):
        """A product of two matrices."""
        side = int((size_bytes // 8) ** 0.5) // 4 * 4
        a, b = (
            da.random.default_rng(seed)
            .random((side, side), chunks=(side // 4, side // 4))
            .persist()
            for seed in range(2)
        )
        wait([a, b])
        began = time.perf_counter()
        (a @ b).sum().compute()
        return time.perf_counter() - began

    def climatology(self, size_bytes):
        """The mean of each month over ten years of daily temperatures, which come by years."""
        days = np.arange("1990-01-01", "2000-01-01", dtype="M8[D]").astype("M8[ns]")
        width = max(8, int((size_bytes // 8 // len(days)) ** 0.5) // 8 * 8)
        began = time.perf_counter()
        season = np.cos(np.arange(len(days)) / 365.25 * 2 * np.pi)[:, None, None]
        latitude = np.linspace(-90, 90, width)[None, :, None]
        weather = da.random.default_rng(1).standard_normal(
            (len(days), width, width), chunks=(366, width, width)
        )
        t = xr.DataArray(
            288 - abs(latitude) / 2 + 10 * season + weather,
            dims=("time", "lat", "lon"),
            coords={"time": days},
        )
        means = t.groupby("time.month").mean("time").compute()
        assert 250 < float(means.mean()) < 280
        return time.perf_counter() - began

    def close(self):
        self._client.close()
        self._local.close()


def proportional(pid):
    """Returns a process's memory, each page divided by the number of processes that have it."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(row.split()[1]) << 10 for row in rows if row.startswith("Pss:"))


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Dask prints goes to the log
    cluster = Cluster(sys.argv[1])
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"value": getattr(cluster, order.pop("do"))(**order)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), file=answers, flush=True)
    cluster.close()


if __name__ == "__main__":
    main()
