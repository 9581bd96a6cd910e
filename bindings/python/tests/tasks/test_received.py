"""What a process receives alone is its own: it writes to it in place, and forks keep their sides.

The standard modules say what results have to be.
"""

import concurrent.futures
import importlib
import multiprocessing as standard
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

import shmarray
import shmarray.concurrent
import shmarray.multiprocessing as mp
import tasks
from working import in_child, sweep_after_deaths

pytestmark = pytest.mark.usefixtures("no_main")

NUMBER = 4


def pages_of_its_own():
    """The bytes of pages that this process has copied from segments."""
    text = Path("/proc/self/smaps").read_text()
    ours = re.findall(r"/shmarray-[^\n]*\n(?:[A-Z][^\n]*\n)*?Anonymous: +(\d+) kB", text)
    return sum(map(int, ours)) << 10


def by_pipe():
    here, there = mp.Pipe()
    sender = mp.get_context("fork").Process(target=here.send, args=(tasks.large(NUMBER),))
    sender.start()
    array = there.recv()
    sender.join()
    return array


def by_queue():
    queue = mp.Queue()
    sender = mp.get_context("fork").Process(target=queue.put, args=(tasks.large(NUMBER),))
    sender.start()
    array = queue.get()
    sender.join()
    return array


def by_simple_queue():
    queue = mp.SimpleQueue()
    queue.put(tasks.large(NUMBER))
    return queue.get()


def by_pool():
    with mp.get_context("fork").Pool(1) as pool:
        array = pool.apply(tasks.large, (NUMBER,))
    pool.join()
    return array


def by_executor():
    context = mp.get_context("fork")
    with shmarray.concurrent.ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(tasks.large, NUMBER).result()


def by_joblib():
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    importlib.import_module("shmarray.joblib").register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        array, _ = joblib.Parallel()([joblib.delayed(tasks.large)(NUMBER)] * 2)
    return array


def by_dumps():
    return shmarray.loads(shmarray.dumps(tasks.large(NUMBER)))


def inside_an_object():
    return shmarray.loads(shmarray.dumps({"a": [tasks.large(NUMBER)]}))["a"][0]


WAYS = [
    by_pipe,
    by_queue,
    by_simple_queue,
    by_pool,
    by_executor,
    by_joblib,
    by_dumps,
    inside_an_object,
]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def tells_of_copied_pages():
    """Whether the kernel says which pages this process has copied: since Linux 6.7."""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 7)


@each_way
def test_the_first_write_copies_no_page(way):
    if way in (by_dumps, inside_an_object) and not tells_of_copied_pages():
        pytest.skip("before Linux 6.7 what dumps made is copied on write")
    array = way()
    before = pages_of_its_own()
    array += 1
    assert pages_of_its_own() == before
    assert (array == tasks.large(NUMBER) + 1).all()
    assert not shmarray.is_shared(array)


def test_equal_results_that_a_worker_makes_one_after_the_other_are_owned():
    with mp.get_context("fork").Pool(1) as pool:
        for _ in range(5):
            array = pool.apply(tasks.large, (NUMBER,))
            before = pages_of_its_own()
            array += 1
            assert pages_of_its_own() == before
            del array
    pool.join()


@each_way
def test_a_child_has_its_own_and_so_has_its_parent(way):
    array = way()
    array[0] = 7

    def part():
        seen = array[[0, -1]].tolist()
        array[:] = 9
        return repr((seen, array[[0, -1]].tolist())).encode()

    last = array[-1].item()
    assert in_child(part) == repr(([7.0, last], [9.0, 9.0])).encode()
    assert array[[0, -1]].tolist() == [7, last]
    array[-1] = 8
    assert in_child(lambda: repr(array[[0, -1]].tolist()).encode()) == b"[7.0, 8.0]"
    sweep_after_deaths()


def results_then_forked(module, executor):
    """Results are written to by their process and by later children of it; returns all that they
    see.
    """
    context = module.get_context("fork")
    with executor(1, mp_context=context) as one:
        kept = [one.submit(tasks.large, NUMBER + number).result() for number in range(3)]
    for number, array in enumerate(kept):
        array[:2] = number
    with executor(2, mp_context=context) as two:  # its workers are forked with what is kept
        tasks.KEPT = kept
        added = list(two.map(tasks.add_to_kept, range(3)))
        again = list(two.map(tasks.add_to_kept, range(3)))
    return [array[[0, 1, 2, -1]].tolist() for array in (*kept, *added, *again)]


def test_results_are_as_with_the_standard_modules():
    ours = results_then_forked(mp, shmarray.concurrent.ProcessPoolExecutor)
    assert ours[:3] == results_then_forked(standard, concurrent.futures.ProcessPoolExecutor)[:3]
    sweep_after_deaths()


def test_a_result_in_a_frozen_slab_is_itself(one):
    for number in range(12):
        array = one.apply(np.full, (200_000, float(number)))
        assert (array == number).all()
        array[:] = 100 + number
        child = os.fork()
        if child == 0:
            array[:] = 7
            os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        assert (array == 100 + number).all()
        array[:] = 200
        del array


def test_bytes_with_private_arrays_are_loaded_once():
    data = shmarray.dumps(tasks.large(NUMBER))
    array = shmarray.loads(data)
    array[:] = 9
    with pytest.raises(FileNotFoundError, match="the message was loaded once"):
        shmarray.loads(data)
    assert (array == 9).all()


class Fails:
    """An array that is changed while it is loaded, and a loading that fails once."""

    fails = True

    def __init__(self, array):
        self.array = array

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.array /= 2
        if Fails.fails:
            Fails.fails = False
            raise RuntimeError("not yet")


def test_a_loading_that_fails_leaves_the_bytes_as_they_were():
    data = shmarray.dumps(Fails(np.full(1_000_000, 8.0)))
    with pytest.raises(RuntimeError, match="not yet"):
        shmarray.loads(data)
    array = shmarray.loads(data).array
    assert (array == 4).all()
    array[:] = 1
    assert in_child(lambda: repr(array[[0, -1]].tolist()).encode()) == b"[1.0, 1.0]"


def test_bytes_that_are_loaded_several_times_are_private_each_time():
    data = shmarray.dumps(tasks.large(NUMBER), loads=2)
    one = shmarray.loads(data)
    one[:] = 9
    assert (shmarray.loads(data) == tasks.large(NUMBER)).all()
