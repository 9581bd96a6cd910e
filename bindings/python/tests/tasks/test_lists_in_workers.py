"""Workers of every kind use one list, whose memory is there once."""

import multiprocessing
import queue
from concurrent.futures import ProcessPoolExecutor as StandardExecutor

import joblib
import numpy as np
import pytest

import list_tasks
import shmarray
import shmarray.concurrent
import shmarray.joblib
from shmarray import Dict, List
from working import METHODS, sweep_after_deaths

COUNT = 1000


@pytest.fixture(autouse=True)
def swept():
    yield
    sweep_after_deaths()


def samples():
    return List({"label": k, "data": np.full(1000, k, "f8")} for k in range(COUNT))


def as_seen(index):
    return index, 1000.0 * index, True, 0


def test_tasks_of_a_pool_get_a_list_by_its_handle(pool):
    items = samples()
    before = shmarray.copied_bytes()
    tasks = [(items, index) for index in range(0, COUNT, 50)]
    assert pool.starmap(list_tasks.looks, tasks) == [as_seen(index) for _, index in tasks]
    assert pool.apply(list_tasks.looks, (items[::-1], 0)) == as_seen(COUNT - 1)
    assert shmarray.copied_bytes() == before
    table = Dict({"a": np.arange(30_000)})
    assert pool.apply(list_tasks.looks_up, (table, "a"))[1]
    made = pool.apply(list_tasks.makes, (COUNT,))
    assert made.field("label").tolist() == list(range(COUNT))


def test_tasks_of_an_executor_get_a_list_by_its_handle(context):
    items = samples()
    with shmarray.concurrent.ProcessPoolExecutor(2, mp_context=context) as executor:
        tasks = [executor.submit(list_tasks.looks, items, index) for index in (0, 7, -1)]
        assert [task.result() for task in tasks] == [as_seen(k) for k in (0, 7, COUNT - 1)]


@pytest.mark.parametrize("method", METHODS)
def test_the_standard_pool_has_the_same_items(method):
    items = List({"label": k, "data": np.full(3, k, "f8")} for k in range(10))
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(list_tasks.total, (items,)) == sum(range(10)) * 4
        with shmarray.pickle_by_handle():
            assert pool.apply(list_tasks.total, (items,)) == sum(range(10)) * 4
    pool.join()


def test_a_forked_child_has_its_parents_list():
    items = samples()
    context = multiprocessing.get_context("fork")
    with StandardExecutor(1, mp_context=context, initializer=keep, initargs=(items,)) as executor:
        assert executor.submit(seen).result() == as_seen(5)


def keep(items):
    global kept
    kept = items


def seen():
    return list_tasks.looks(kept, 5)


def test_a_queue_and_a_pipe_carry_a_list(context):
    items = samples()
    messages = context.Queue()
    messages.put(items)
    received = messages.get()
    assert received[7]["data"][0] == 7.0
    ours, theirs = context.Pipe()
    ours.send(items[5:])
    assert theirs.recv()[0]["label"] == 5
    with pytest.raises(queue.Empty):
        messages.get_nowait()


def test_tasks_of_joblib_get_a_list_by_its_handle():
    items = samples()
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        calls = [joblib.delayed(list_tasks.looks)(items, index) for index in (0, 7, 999)]
        assert joblib.Parallel()(calls) == [as_seen(k) for k in (0, 7, 999)]


def test_a_list_in_a_file_is_opened_by_each_worker(pool, tmp_path):
    items = samples()
    items.save(tmp_path / "items")
    opened = List.open(tmp_path / "items")
    found = pool.starmap(list_tasks.looks, [(opened, 3), (opened[10:], 3)])
    assert [label for label, *_ in found] == [3, 13]
