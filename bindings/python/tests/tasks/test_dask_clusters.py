"""Dask clusters of real processes move arrays by handle, and leave nothing when they die."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import dask.array as da
import dask.config
import dask.dataframe as dd
import distributed
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait
from distributed.core import Status

import dask_tasks as tasks
import list_tasks
import shmarray
import shmarray.dask
from dask_hosts_program import dask_array_program, xarray_program
from shmarray.dask import _setup
from working import allocated_bytes, files_in, listed_arrays, sweep_after_deaths, until

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning"),
]

MB = 1_000_000
PRELOADED = {f"distributed.{kind}.preload": [] for kind in ("worker", "nanny", "scheduler")}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registered; workers find the modules of the tests."""
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    with dask.config.set({"distributed.shmarray.min-size": "64 KiB"}):
        shmarray.dask.register()
        yield
    shmarray.dask.register()
    gc.collect()
    sweep_after_deaths()


@contextlib.contextmanager
def cluster(workers=2, **options):
    """Returns a client of a new cluster, whose workers are processes, and their addresses."""
    options = {"threads_per_worker": 1, "dashboard_address": ":0", **options}
    with LocalCluster(n_workers=workers, **options) as local, Client(local) as client:
        client.wait_for_workers(workers)
        yield client, sorted(client.scheduler_info(n_workers=-1)["workers"])


def result(client, function, *arguments, on=None):
    future = client.submit(function, *arguments, workers=on and [on], pure=False)
    return future.result()


def made(client, function, size, on):
    """Returns the future of an array that a worker has made."""
    future = client.submit(function, size, workers=[on], pure=False)
    wait(future)
    return future


def total(client):
    """Returns the sums of the workers' counters."""
    each = client.run(lambda: __import__("shmarray").dask.counters())
    return shmarray.dask.Counters(*map(sum, zip(*each.values(), strict=True)))


def test_a_list_is_there_once_for_all_workers_of_a_host():
    items = shmarray.List({"label": k, "data": np.full(1000, k, "f8")} for k in range(1000))
    with cluster() as (client, workers):
        scattered = client.scatter(items, broadcast=True)
        for worker in workers:
            found = result(client, list_tasks.looks, scattered, 7, on=worker)
            assert found == (7, 7000.0, True, 0)
        held = [info for info in shmarray.segments() if '"list"' in info.dtype]
        assert [info.segment_bytes // 2**20 for info in held] == [7]


def test_arrays_go_between_workers_and_to_the_client_by_handle():
    with cluster() as (client, (first, second)):
        for make in (tasks.ones, tasks.shared_ones):
            future = made(client, make, MB, first)
            assert result(client, tasks.facts, future, on=second) == (MB, True, False)
            got = future.result()
            assert tasks.facts(got) == (MB, True, False)
        with pytest.raises(ValueError, match="read-only"):
            result(client, tasks.store, future, on=second)
        del got
        counts = total(client)
        assert counts.sent_by_handle_bytes == 4 * MB * 8
        assert (counts.sent_by_wire_bytes, counts.found_no_room_bytes) == (0, 0)


def test_a_task_that_keeps_its_shared_result_may_still_write_into_it():
    with cluster() as (client, (first, second)):
        future = made(client, tasks.held_by_worker, MB, first)
        assert result(client, tasks.facts, future, on=second) == (MB, True, False)
        assert result(client, tasks.store_into_kept, on=first) is True
        assert result(client, tasks.facts, future, on=second)[0] == MB + 6


def test_a_result_that_is_born_shared_is_moved_if_its_worker_has_it_for_dask_alone(
    files, monkeypatch
):
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")  # the pool's default limits
    with dask.config.set({"distributed.shmarray.allocator": True}), cluster() as (client, ends):
        first, second = ends
        for number in range(1, 4):
            future = made(client, tasks.ones, MB, first)
            assert result(client, tasks.facts, future, on=second) == (MB, True, False)
            assert result(client, tasks.facts, future, on=first) == (MB, True, False)
            assert tasks.facts(future.result()) == (MB, True, False)
            assert result(client, tasks.moved_here, on=first) == number
        held = made(client, tasks.private_held_by_worker, MB, first)
        assert result(client, tasks.facts, held, on=second) == (MB, True, False)
        assert result(client, tasks.store_into_kept, on=first) is True
        assert result(client, tasks.facts, held, on=second) == (MB, True, False)
        view = made(client, tasks.private_with_a_view, MB, first)
        assert result(client, tasks.facts, view, on=second) == (MB, True, False)
        assert result(client, tasks.moved_here, on=first) == 3
    del future, held, view
    sweep_after_deaths()
    assert files() == []


def test_in_64_mb_of_shared_memory_what_has_no_room_goes_by_wire(small_tmpfs):
    place = small_tmpfs("size=64m")
    with cluster() as (client, (first, second)):
        futures = [made(client, tasks.ones, MB, first) for _ in range(16)]
        arrived = [result(client, tasks.facts, future, on=second) for future in futures]
        assert [facts[0] for facts in arrived] == [MB] * 16
        assert {facts[1] for facts in arrived} == {True, False}
        counts = total(client)
        assert counts.sent_by_handle_bytes + counts.sent_by_wire_bytes == 16 * MB * 8
        assert counts.found_no_room_bytes == counts.sent_by_wire_bytes
        del futures
    sweep_after_deaths()
    assert files_in(place) == []


@pytest.mark.parametrize("make", [tasks.ones, tasks.shared_ones])
def test_a_task_may_fork_and_its_child_may_be_killed(make, files):
    with cluster() as (client, (first, second)):
        future = made(client, make, MB, first)
        for on in (first, second, first, second):
            assert result(client, tasks.sum_in_a_killed_child, future, on=on) == MB
        assert future.result().sum() == MB
        after = made(client, make, MB, second)
        assert result(client, tasks.facts, after, on=first) == (MB, True, False)
        del future, after
    sweep_after_deaths()
    assert files() == []


def test_a_worker_is_of_a_family_of_its_own(monkeypatch):
    """Else the tickets of one that was killed would be held until the whole cluster has ended."""
    number, fd = shmarray._core.family()
    os.close(fd)
    monkeypatch.setenv("SHMARRAY_FAMILY", str(number))
    with cluster() as (client, _):
        families = client.run(tasks.family).values()
    assert len({number, *families}) == 3


def test_a_result_that_many_ask_for_is_copied_once(directory):
    with cluster(4) as (client, (first, *others)):
        future = made(client, tasks.ones, 4 * MB, first)
        held = [client.submit(tasks.facts, future, workers=[on], pure=False) for on in others]
        assert client.gather(held) == [(4 * MB, True, False)] * 3
        assert allocated_bytes(directory) < 1.1 * 4 * MB * 8


@pytest.mark.parametrize("workers", [4, 8])
def test_scattered_data_are_once_in_shared_memory_for_all_workers(workers, directory):
    array = np.random.default_rng(7).random(2 * MB)
    with cluster(workers) as (client, addresses):
        future = client.scatter(array, broadcast=True)
        assert allocated_bytes(directory) < 1.1 * array.nbytes
        sums = [result(client, tasks.facts, future, on=address) for address in addresses]
        assert [(is_shared, total) for total, is_shared, _ in sums] == [
            (True, array.sum())
        ] * workers


def overlap_program():
    x = da.random.default_rng(3).random((1000, 1000), chunks=(500, 500))
    return (
        x.map_overlap(lambda a: a - a.mean(), depth=50, boundary="reflect").mean(axis=1).compute()
    )


def dataframe_program():
    """Has a shuffle, whose pieces are mostly small."""
    numbers = np.random.default_rng(1).random(200_000)
    frame = dd.from_pandas(pd.DataFrame({"a": np.arange(200_000) % 1000, "b": numbers}), 4)
    means = frame.groupby("a").b.mean().rename("mean").reset_index()
    joined = frame.shuffle("a").merge(means, on="a")
    anomalies = joined.assign(c=joined.b - joined["mean"])
    return anomalies.groupby("a").c.std().compute().sort_index().values


PROGRAMS = (dask_array_program, overlap_program, xarray_program, dataframe_program)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_has_the_results_that_it_has_without_shmarray(program):
    with dask.config.set(scheduler="synchronous"):
        expected = program()
    with cluster() as (client, _):
        by_handle = 0
        while by_handle == 0:  # the scheduler may give all tasks to one worker
            np.testing.assert_allclose(program(), expected, rtol=1e-12)
            counts = total(client)
            by_handle = counts.sent_by_handle_bytes or program is dataframe_program
    assert counts.sent_by_wire_bytes == 0


def test_actors_get_and_give_arrays_by_handle():
    with cluster() as (client, (first, second)):
        actor = client.submit(tasks.Actor, actor=True, workers=[first]).result()
        array = np.arange(MB)
        assert actor.keep(array).result() == (array.sum(), True, True)
        np.testing.assert_array_equal(actor.give().result(), array)
        future = made(client, tasks.ones, MB, second)
        outcome = result(client, lambda who, a: who.keep(a).result(), actor, future, on=second)
        assert outcome[:2] == (MB, True)
        assert total(client).sent_by_wire_bytes == 0


def test_the_scheduler_shows_what_workers_hold_and_have_sent():
    # Dask's memory manager may drop one of the two copies of a result.
    keep = dask.config.set({"distributed.scheduler.active-memory-manager.start": False})
    with keep, cluster() as (client, (first, second)):
        future = made(client, tasks.ones, MB, first)
        result(client, tasks.facts, future, on=second)

        def shown():
            workers = client.scheduler_info(n_workers=-1)["workers"]
            return [workers[on]["metrics"].get("shmarray") for on in (first, second)]

        def has_come():
            metrics = shown()
            return all(metrics) and metrics[0]["sent_by_handle_bytes"] == 8 * MB

        until(has_come)
        assert (shown()[0]["arrays"], shown()[0]["bytes"]) == (1, 8 * MB)


def test_data_on_disk_are_bytes_and_come_back():
    fractions = {"target": 0.1, "spill": False, "pause": False, "terminate": False}
    config = {f"distributed.worker.memory.{name}": part for name, part in fractions.items()}
    with dask.config.set(config), cluster(memory_limit="800 MB") as (client, (first, second)):
        futures = [made(client, tasks.shared_ones, 4 * MB, first) for _ in range(5)]

        def on_disk(dask_worker):
            return len(dask_worker.data.slow)

        assert client.run(on_disk, workers=[first])[first] > 0
        for future in futures:
            assert result(client, tasks.facts, future, on=second)[0] == 4 * MB
            assert future.result().sum() == 4 * MB


def test_a_worker_is_not_killed_for_memory_that_it_shares():
    array = np.ones(24 * MB)  # 192 MB, of which each of four workers is told a fifth or a quarter
    config = {"distributed.worker.memory.terminate": 0.7, "distributed.worker.memory.pause": 0.65}
    config["distributed.worker.memory.monitor-interval"] = "10 ms"
    # It would soon drop the copies that workers have of one another's data.
    config["distributed.scheduler.active-memory-manager.start"] = False
    config["distributed.worker.memory.target"] = config["distributed.worker.memory.spill"] = False
    with dask.config.set(config), cluster(4, memory_limit="700 MB") as (client, workers):
        # Three of them are 576 MB, and an idle worker has 70 to 200 MB: more than the limit lets.
        futures = [client.scatter(array + number, broadcast=True) for number in range(3)]
        del array
        before = client.run(os.getpid)
        for future in futures * 2:
            for worker in workers:
                assert result(client, tasks.facts, future, on=worker)[1]
        assert client.run(os.getpid) == before

        def measured(dask_worker):
            return dask_worker.monitor.get_process_memory()

        def resident(dask_worker):
            return dask_worker.monitor.proc.memory_info().rss

        def are_told_their_share():
            shares = client.run(measured)
            whole = client.run(resident)
            return all(shares[on] < whole[on] - 300 * MB for on in workers)

        until(are_told_their_share)


def pooled_bytes():
    return sum(info.segment_bytes for info in shmarray.segments() if info.kind == "pool")


def test_a_worker_keeps_what_its_limit_leaves_and_only_for_a_while(monkeypatch):
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    limit = 500 * MB
    with cluster(1, memory_limit=limit) as (client, (first,)):
        held = [made(client, tasks.shared_ones, 2 * MB, first) for _ in range(20)]
        assert len(held) == 20
        del held
        until(lambda: listed_arrays() == [])
        assert pooled_bytes() <= 0.6 * limit - 50 * MB  # a worker's own memory is more than that
        until(lambda: pooled_bytes() == 0)


def test_a_worker_that_keeps_its_results_has_memory_for_the_next_one(monkeypatch):
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    with cluster(memory_limit=2000 * MB) as (client, (first, second)):
        large = made(client, tasks.ones, 4 * MB, first)
        assert result(client, tasks.facts, large, on=second)[0] == 4 * MB
        until(lambda: pooled_bytes() >= 4 * MB * 8)
        assert len(listed_arrays()) == 1


# Strangers.


def program(code, *arguments, **environment):
    """Starts a Python program, which has a cluster of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


CLIENT = """
import sys
import dask_tasks as tasks
import list_tasks
from distributed import Client
{first}
with Client(sys.argv[1]) as client:
    worker = sorted(client.scheduler_info(n_workers=-1)["workers"])[0]
    future = client.submit(tasks.ones, 1_000_000, workers=[worker])
    print(*tasks.facts(future.result()))
    print(*tasks.facts(client.scatter(future.result() + 1, workers=[worker]).result()))
"""


def test_a_client_that_does_not_use_it_works_with_workers_that_do():
    with cluster() as (client, _):
        other = program(CLIENT.format(first=""), client.scheduler.address)
        said, errors = other.communicate()
    assert (said, "shmarray" in errors) == ("1000000.0 False True\n2000000.0 False True\n", False)


def test_a_client_that_uses_it_works_with_workers_that_do_not():
    with dask.config.set(PRELOADED), cluster() as (client, (first, second)):
        future = made(client, tasks.ones, MB, first)
        assert result(client, tasks.facts, future, on=second) == (MB, False, True)
        assert tasks.facts(future.result()) == (MB, False, True)


def test_it_is_added_to_a_cluster_that_runs():
    with dask.config.set(PRELOADED), cluster() as (client, (first, second)):
        future = made(client, tasks.ones, MB, first)
        assert result(client, tasks.facts, future, on=second)[1] is False
        for plugin in (shmarray.dask.SchedulerPlugin(), shmarray.dask.WorkerPlugin()):
            for _ in range(2):
                client.register_plugin(plugin)
        future = made(client, tasks.ones, MB, first)
        assert result(client, tasks.facts, future, on=second)[1] is True
        assert client.run(lambda dask_worker: "shmarray" in dask_worker.metrics) == {
            first: True,
            second: True,
        }


def test_a_worker_in_another_directory_is_another_host(directory, tmp_path):
    with cluster(1) as (client, (first,)):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address]
        options = ["--nthreads", "1", "--no-dashboard", "--preload", "shmarray.dask"]
        elsewhere = {**os.environ, "SHMARRAY_DIR": str(tmp_path)}
        with subprocess.Popen(
            [*command, *options, "--local-directory", str(tmp_path)],
            env=elsewhere,
            stderr=subprocess.DEVNULL,
        ) as other:
            client.wait_for_workers(2)
            second = (client.scheduler_info(n_workers=-1)["workers"].keys() - {first}).pop()
            future = made(client, tasks.ones, MB, first)
            assert result(client, tasks.facts, future, on=second) == (MB, False, True)
            assert tasks.facts(made(client, tasks.ones, MB, second).result())[1] is False
            assert tasks.facts(made(client, tasks.ones, MB, first).result())[1] is True
            other.send_signal(signal.SIGTERM)
    assert directory.exists()


# Deaths.


def test_a_worker_that_is_killed_leaves_nothing(tmp_path):
    with cluster(2) as (client, (first, second)):
        # A worker that takes its place has another address.
        futures = [
            client.submit(tasks.ones, MB, workers=[on], allow_other_workers=True, pure=False)
            for on in (first, second)
        ]
        killed = client.submit(tasks.die_once, *futures, str(tmp_path / "died"))
        assert killed.result() == 2 * MB
        assert result(client, tasks.sums, *futures) == 2 * MB
        del futures, killed
    gc.collect()
    sweep_after_deaths()
    assert listed_arrays() == []


def test_the_version_of_distributed_is_one_that_this_was_written_for():
    assert distributed.__version__ >= "2025.1"


class NannyThatIsGone:
    async def plugin_add(self, **_):
        raise OSError("nobody answers")

    async def close_rpc(self):
        pass


@pytest.mark.parametrize(
    ("status", "warns"), [(Status.running, True), (Status.closing, False), (Status.closed, False)]
)
def test_only_a_worker_that_goes_on_warns_of_a_nanny_that_cannot_be_told(status, warns, caplog):
    worker = types.SimpleNamespace(
        nanny="tcp://127.0.0.1:1", status=status, rpc=lambda _: NannyThatIsGone()
    )
    asyncio.run(_setup._tell_nanny(worker))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * warns
