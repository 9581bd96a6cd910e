"""Dask's `distributed` on one host: with shmarray, without, and in one process as the limit."""

import contextlib
import importlib.util

import peers
from harness import HERE, Answering, Failed

ROW = "dask"
BROADCAST = "dask broadcast"
MEMORY = "dask memory"
PROGRAMS = "dask programs"
THEIRS = "distributed"
INPROC = "inproc"
WAYS = (peers.OURS, THEIRS, INPROC)
SIZES = {"64 KiB": 64 << 10, "4 MiB": 4 << 20, "400 MB": 400_000_000}
KINDS = {"private": False, "shared": True}
MOVES = {
    "task": "to a worker",
    "data": "to a worker, the transfer alone",
    "client": "to the client",
}
RUNS = {
    "rechunk": ("rechunk of 400 MB", 400_000_000),
    "overlap": ("overlap of 400 MB", 400_000_000),
    "matrix": ("matrix product of 200 MB", 200_000_000),
    "climatology": ("xarray climatology of 2 GB", 2_000_000_000),
}
ABSENT = "dask or distributed is not installed"


def case(size, kind, move):
    return f"{size} {kind}, {MOVES[move]}"


def broadcast_case(size, kind):
    return f"{size} {kind}, to 4 workers"


def measure(bench):
    if any(importlib.util.find_spec(name) is None for name in ("dask", "distributed")):
        bench.results.fail(ROW, "all", peers.OURS, ABSENT)
        return
    with clusters(bench) as running:
        for size, size_bytes in SIZES.items():
            for kind, is_shared in KINDS.items():
                order = {"size_bytes": bench.pick(size_bytes, min(size_bytes, 4 << 20))}
                order["is_shared"] = is_shared
                rounds = bench.pick(9 if size_bytes > 1e8 else 31, 2)
                for move in MOVES:
                    ask(bench, running, ROW, case(size, kind, move), rounds, do=move, **order)
                name = broadcast_case(size, kind)
                rounds = bench.pick(5 if size_bytes > 1e8 else 21, 1)
                ask(bench, running, BROADCAST, name, rounds, do="broadcast", **order)
        for run, (name, size_bytes) in RUNS.items():
            size_bytes = bench.pick(size_bytes, 8 << 20)
            ask(bench, running, PROGRAMS, name, bench.pick(3, 1), do=run, size_bytes=size_bytes)
    measure_memory(bench)


def ask(bench, running, row, name, rounds, **order):
    """Measures a case by every cluster, after one round that is not measured."""
    for who, cluster in list(running.items()):
        try:
            cluster.ask(**order)
        except Failed as error:
            bench.results.fail(row, name, who, error)
    contenders = {
        who: lambda cluster=cluster: cluster.ask(**order)["value"]
        for who, cluster in running.items()
    }
    bench.measure(row, name, contenders, rounds)


def measure_memory(bench):
    """Each figure is that of a new cluster, which keeps nothing of the cases before."""
    size_bytes = bench.pick(400_000_000, 40_000_000)
    for kind, is_shared in KINDS.items():
        name = f"400 MB {kind}, at 4 workers and the client"
        with clusters(bench, (peers.OURS, THEIRS)) as running:
            for who, cluster in running.items():
                try:
                    found = cluster.ask(do="memory", size_bytes=size_bytes, is_shared=is_shared)
                except Failed as error:
                    bench.results.fail(MEMORY, name, who, error)
                else:
                    bench.results.add(MEMORY, name, who, [found["value"]], "arrays")


@contextlib.contextmanager
def clusters(bench, ways=WAYS):
    bench.bar.set_description(f"{ROW}: clusters start")
    running = {
        way: Answering(f"dask-{way}", HERE / "programs/dask_cluster.py", way) for way in ways
    }
    try:
        yield running
    finally:
        for cluster in running.values():
            cluster.close()
