"""A Dask client on one of two hosts: `dask_hosts_program.py ADDRESS WORKERS`. Prints JSON.

It needs no workers that use shmarray.
"""

import collections
import json
import sys

import dask.array as da
import numpy as np
import xarray as xr
from distributed import Client

import dask_tasks as tasks


def dask_array_program():
    x = da.random.default_rng(7).random((800, 800), chunks=(200, 400))
    return ((x + x.T) @ x.rechunk((400, 200))).sum(axis=0).compute()


def xarray_program():
    data = da.random.default_rng(5).random((365, 80, 50), chunks=(30, 80, 50))
    days = np.arange("2001-01-01", "2002-01-01", dtype="M8[D]").astype("M8[ns]")
    t = xr.DataArray(data, dims=("time", "y", "x"), coords={"time": days})
    monthly = t.groupby("time.month")
    return (monthly - monthly.mean("time")).std("time").compute().values


def sums():
    """Returns numbers that tell the programs' results."""
    return [float(np.abs(run()).sum()) for run in (dask_array_program, xarray_program)]


def moves(client):
    """Moves an array from each worker to each, and returns the ways that arrays took, "handle" or
    "wire", within a host and between hosts.
    """
    hosts = client.run(tasks.namespace)
    ways = collections.defaultdict(set)
    for source in hosts:
        for receiver in hosts.keys() - {source}:
            future = client.submit(tasks.ones, 1_000_000, workers=[source], pure=False)
            asked = client.submit(tasks.facts, future, workers=[receiver], pure=False)
            total, is_shared, _ = asked.result()
            assert total == 1_000_000
            where = "within" if hosts[source] == hosts[receiver] else "between"
            ways[where].add("handle" if is_shared else "wire")
    return {where: sorted(way) for where, way in ways.items()}


def main(address, workers):
    with Client(address) as client:
        client.wait_for_workers(int(workers))
        outcome = {"moves": moves(client)}
        before = client.run(tasks.counters)
        outcome["sums"] = sums()
        after = client.run(tasks.counters)
        grown = [np.subtract(after[worker], before[worker]) for worker in before]
        outcome["handle"], _, outcome["wire"], outcome["no_room"] = map(int, sum(grown))
        client.shutdown()
    print(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
