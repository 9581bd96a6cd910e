"""An array that stands in several tasks of a call is copied once, and each task has its own.

The standard modules say what results have to be.
"""

import concurrent.futures
import functools
import importlib
import itertools
import multiprocessing as standard
import tracemalloc

import numpy as np
import pytest

import shmarray
import shmarray.concurrent
import shmarray.multiprocessing as mp
import tasks
from processes import run_forked
from shmarray._codec._copies import CallCopies
from tasks import Holder
from working import sweep_after_deaths

pytestmark = pytest.mark.usefixtures("no_main")

COUNT = 8
ELEMENTS = 400_000


def numbers():
    return np.arange(ELEMENTS, dtype="f8")


def copies_of(array, call):
    """Calls, and returns the result and how many times this process has copied the array."""
    before = shmarray.copied_bytes()
    result = call()
    return result, (shmarray.copied_bytes() - before) / array.nbytes


class Ways:
    """Pools and executors, of the standard modules or ours."""

    def __init__(self, library):
        self._library = library
        self._context = (mp if library == "ours" else standard).get_context("fork")

    def pool(self, workers=3):
        return self._context.Pool(workers)

    def executor(self, workers=3):
        make = (
            shmarray.concurrent.ProcessPoolExecutor
            if self._library == "ours"
            else concurrent.futures.ProcessPoolExecutor
        )
        return make(workers, mp_context=self._context)


def several(array):
    """What stands in several tasks, in each way that a program may write it: a function of a pool,
    and of an executor.
    """
    holder = Holder(array, array[::2].copy())
    pairs = [(array, number) for number in range(COUNT)]
    return {
        "starmap": lambda pool: pool.starmap(tasks.first_of, pairs, chunksize=1),
        "starmap by chunks": lambda pool: pool.starmap(tasks.first_of, pairs, chunksize=3),
        "starmap_async": lambda pool: pool.starmap_async(tasks.first_of, pairs).get(),
        "map": lambda pool: pool.map(tasks.first_of, [array] * COUNT, chunksize=1),
        "map of a generator": lambda pool: pool.map(
            tasks.first_of, (array for _ in range(COUNT)), chunksize=1
        ),
        "map of a partial": lambda pool: pool.map(
            functools.partial(tasks.first_of, array), range(COUNT), chunksize=1
        ),
        "map of a method": lambda pool: pool.map(holder.add, range(COUNT), chunksize=1),
        "map of objects": lambda pool: pool.map(tasks.sum_in, [holder] * COUNT, chunksize=1),
        "map of different objects with it": lambda pool: pool.map(
            tasks.sum_in, [Holder(array, np.ones(number)) for number in range(COUNT)], chunksize=1
        ),
        "map of a column": lambda pool: pool.map(
            tasks.first_of, [array.reshape(-1, 2)[:, 1]] * COUNT, chunksize=1
        ),
        "zip": lambda pool: pool.starmap(
            tasks.first_of, zip(itertools.repeat(array), range(COUNT)), chunksize=1
        ),
    }


def several_by_executor(array):
    holder = Holder(array, array[::2].copy())
    return {
        "map": lambda executor: [*executor.map(tasks.first_of, [array] * COUNT)],
        "map by chunks": lambda executor: [
            *executor.map(tasks.first_of, [array] * COUNT, chunksize=3)
        ],
        "map of repeat": lambda executor: [
            *executor.map(tasks.first_of, itertools.repeat(array, COUNT), range(COUNT))
        ],
        "map of a method": lambda executor: [*executor.map(holder.add, range(COUNT))],
    }


@pytest.mark.parametrize("way", several(numbers()))
def test_a_pool_copies_it_once(way, files):
    array = numbers()
    with Ways("ours").pool() as pool:
        got, copies = copies_of(array, lambda: several(array)[way](pool))
    with Ways("standard").pool() as pool:
        assert got == several(array)[way](pool)
    pool.join()
    assert copies <= (1.6 if "method" in way or way == "map of objects" else 1.1)
    sweep_after_deaths()
    assert files() == []


@pytest.mark.parametrize("way", several_by_executor(numbers()))
def test_an_executor_copies_it_once(way):
    array = numbers()
    with Ways("ours").executor() as executor:
        got, copies = copies_of(array, lambda: several_by_executor(array)[way](executor))
    with Ways("standard").executor() as executor:
        assert got == several_by_executor(array)[way](executor)
    assert copies <= (1.6 if "method" in way else 1.1)


@pytest.mark.parametrize("make", ["frame", "data set"])
def test_objects_of_other_libraries_are_copied_once(make):
    array = numbers()
    if make == "frame":
        pandas = pytest.importorskip("pandas", reason="pandas is not installed")
        given = pandas.DataFrame({"a": array, "b": array}, copy=False)
    else:
        xarray = pytest.importorskip("xarray", reason="xarray is not installed")
        given = xarray.Dataset({"a": ("x", array)})
    with Ways("ours").pool() as pool:
        pool.map(str, [given] * 2)  # imports
        _, copies = copies_of(array, lambda: pool.map(len, [given] * COUNT, chunksize=1))
    assert copies <= 4.1  # a frame has two arrays


@pytest.mark.parametrize("chunksize", [1, 3])
def test_each_task_writes_to_its_own(chunksize):
    array = numbers()
    pairs = [(array, number) for number in range(COUNT)]
    with Ways("standard").pool() as pool:
        expected = pool.starmap(tasks.sum_with, pairs, chunksize)
    with Ways("ours").pool() as pool:
        assert pool.starmap(tasks.sum_with, pairs, chunksize) == expected
        assert pool.starmap(tasks.sum_with, pairs, chunksize) == expected
    assert (array == numbers()).all()


def test_different_arrays_are_each_copied_once_and_owned():
    arrays = [np.full(ELEMENTS, number, "f8") for number in range(COUNT)]
    with Ways("ours").pool() as pool:
        got, copies = copies_of(arrays[0], lambda: pool.map(tasks.first_of, arrays, chunksize=1))
    assert (got, round(copies, 1)) == ([float(number) for number in range(COUNT)], COUNT)


LAYOUTS = {
    "columns": lambda array: array[:, ::2],
    "crop": lambda array: array[3:, 100:900],
    "rows backwards": lambda array: array[::-1],
    "columns backwards": lambda array: array[:, ::-1],
    "Fortran order": np.asfortranarray,
    "rows of Fortran order": lambda array: np.asfortranarray(array)[:500],
    "transposed": lambda array: array.T,
    "axes permuted": lambda array: array.reshape(10, 80, 1000).transpose(2, 0, 1),
    "axes permuted with gaps": lambda array: array.reshape(10, 80, 1000).transpose(2, 0, 1)[:, ::2],
    "repeated": lambda array: np.broadcast_to(array[0], (400, 1000)),
    "overlapping": lambda array: np.lib.stride_tricks.sliding_window_view(array[0], 500),
    "structured": lambda array: array.view([("a", "f8"), ("b", "f4"), ("c", "i4")]),
    "a field": lambda array: array.view([("a", "f8"), ("b", "f8")])["b"],
    "matrix": lambda array: array.view(np.matrix),
    "masked": lambda array: np.ma.masked_less(array, 5),
    "dates": lambda array: array.view("M8[s]"),
    "of bytes": lambda array: np.frombuffer(array.tobytes()).reshape(800, 1000),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_of_any_layout_arrives_as_from_the_standard_pool(layout):
    array = LAYOUTS[layout](np.arange(800_000.0).reshape(800, 1000))
    ways = {
        "starmap": lambda pool: pool.starmap(tasks.bytes_of, [(array,)] * 3, chunksize=1),
        "starmap_async": lambda pool: pool.starmap_async(
            tasks.bytes_of, [(array,)] * 3, chunksize=1
        ).get(),
        "map in a list": lambda pool: pool.map(tasks.bytes_of, [[array, array]] * 3, chunksize=1),
        "imap": lambda pool: [*pool.imap(tasks.bytes_of, [array] * 3)],
        "apply": lambda pool: [pool.apply(tasks.bytes_of, (array,)) for _ in range(3)],
        "a result": lambda pool: tasks.bytes_of(pool.apply(tasks.give_back, (array,))),
    }
    with Ways("standard").pool() as standard_pool, Ways("ours").pool() as pool:
        for way, call in ways.items():
            assert call(pool) == call(standard_pool), way


def test_an_array_may_be_resized_after_it_was_sent():
    with Ways("ours").pool() as pool:
        for call in (
            lambda array: pool.apply(tasks.first_of, (array,)),
            lambda array: pool.map(tasks.first_of, [array] * 3),
        ):
            array = numbers()
            call(array)
            array.resize(ELEMENTS + 7, refcheck=False)


@pytest.mark.parametrize("way", ["pool", "executor", "in a list"])
def test_objects_that_fill_one_buffer_when_they_are_pickled_arrive_each_as_it_was(way):
    items = [tasks.Reader(number) for number in range(COUNT)]
    ways = {
        "pool": lambda pool, _: pool.map(tasks.first_read, items, chunksize=1),
        "executor": lambda _, executor: [*executor.map(tasks.first_read, items)],
        "in a list": lambda pool, _: pool.starmap(
            tasks.first_read, [(item, tasks.Reader.buffer) for item in items], chunksize=1
        ),
    }
    got = {}
    for library in ("standard", "ours"):
        with Ways(library).pool() as pool, Ways(library).executor() as executor:
            got[library] = ways[way](pool, executor)
    assert got["ours"] == got["standard"]


def test_a_change_is_sent_that_comes_before_a_task_of_the_executor_is_pickled():
    """The standard executor pickles a task when its turn is near."""
    for library in ("standard", "ours"):
        tasks.meeting = standard.get_context("fork").Event()
        buffer = numbers()
        with Ways(library).executor(1) as executor:
            results = executor.map(tasks.first_when_set, [buffer] * 20)
            buffer[0] = 5
            tasks.meeting.set()
            got = [*results]
        assert got[-10:] == [5.0] * 10


@pytest.mark.parametrize("count", [10**5, 10**6])
def test_the_search_for_repeated_arrays_ends(count):
    array = numbers()
    large = {number: number for number in range(count)}
    for function, items in (
        (functools.partial(print, array), range(count)),
        (functools.partial(print, array), [*large]),
        (functools.partial(print, array, large), [1, 2]),
        (print, [[large, array]] * 2),
        (print, [(number,) for number in large]),
    ):
        copies = CallCopies.of(function, [items], compares=False)
        tracemalloc.start()
        copies.copy(array)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 30 << 20


class Frames:
    """A sequence whose items are one buffer, filled anew for each."""

    def __init__(self):
        self._buffer = numbers()

    def __len__(self):
        return COUNT

    def __getitem__(self, number):
        if number >= COUNT:
            raise IndexError(number)
        self._buffer[:] = number
        return self._buffer


def filled(count=COUNT):
    """Generates one buffer, filled anew each time."""
    buffer = numbers()
    for number in range(count):
        buffer[:] = number
        yield buffer


REUSED = {
    "map": lambda pool: pool.map(tasks.first_of, filled(), chunksize=1),
    "map of a sequence": lambda pool: pool.map(tasks.first_of, Frames(), chunksize=1),
    "starmap": lambda pool: pool.starmap(
        tasks.first_of, ((buffer, 1) for buffer in filled()), chunksize=1
    ),
    "imap": lambda pool: [*pool.imap(tasks.first_of, filled())],
    "imap by chunks": lambda pool: [*pool.imap(tasks.first_of, filled(), chunksize=3)],
    "imap_unordered": lambda pool: sorted(pool.imap_unordered(tasks.first_of, filled())),
    "apply": lambda pool: [pool.apply(tasks.first_of, (buffer,)) for buffer in filled()],
    "apply_async, then get": lambda pool: [
        pool.apply_async(tasks.first_of, (buffer,)).get() for buffer in filled()
    ],
}


@pytest.mark.parametrize("way", REUSED)
def test_each_state_of_a_reused_buffer_arrives_as_from_the_standard_pool(way):
    with Ways("standard").pool() as pool:
        expected = REUSED[way](pool)
    with Ways("ours").pool() as pool:
        assert REUSED[way](pool) == expected
        assert REUSED[way](pool) == expected


def test_each_state_of_a_reused_buffer_arrives_where_the_standard_executor_waits_for_each():
    for library in ("standard", "ours"):
        with Ways(library).executor() as executor:
            got = [executor.submit(tasks.first_of, buffer).result() for buffer in filled()]
        assert got == [float(number) for number in range(COUNT)]


def test_each_state_arrives_that_a_process_puts_into_queues():
    queues = [mp.Queue() for _ in range(3)]
    buffer = numbers()
    for state in (1, 1, 2, 1):
        buffer[7] = state
        for queue in queues:
            queue.put(buffer)
    for queue in queues:
        got = [queue.get() for _ in range(4)]
        assert [array[7] for array in got] == [1, 1, 2, 1]
        for number, array in enumerate(got):
            array[:] = number
        assert [array.mean() for array in got] == [0, 1, 2, 3]
    assert buffer[7] == 1


@pytest.fixture
def meeting(monkeypatch):
    """Four tasks of `first_after_meeting` wait for each other."""
    monkeypatch.setattr(tasks, "meeting", standard.get_context("fork").Barrier(4))


@pytest.mark.usefixtures("meeting")
def test_workers_of_a_pool_have_one_copy_in_common():
    """The first has its copy alone. The second copy is for all others."""
    array = numbers()
    with Ways("ours").pool(4) as pool:
        before = shmarray.copied_bytes()
        results = [pool.apply_async(tasks.first_after_meeting, (array,)) for _ in range(4)]
        assert [result.get() for result in results] == [0.0] * 4
        copies = (shmarray.copied_bytes() - before) / array.nbytes
    assert copies <= 2.1


@pytest.mark.usefixtures("meeting")
def test_workers_of_an_executor_have_one_copy_in_common():
    array = numbers()
    with Ways("ours").executor(4) as executor:
        before = shmarray.copied_bytes()
        futures = [executor.submit(tasks.first_after_meeting, array) for _ in range(4)]
        assert [future.result() for future in futures] == [0.0] * 4
        copies = (shmarray.copied_bytes() - before) / array.nbytes
    assert copies <= 2.1


@pytest.mark.usefixtures("meeting")
def test_a_worker_that_dies_takes_the_copy_from_nobody(files):
    array = numbers()
    calls = [(array, number) for number in range(4)]
    with Ways("ours").pool(4) as pool:
        results = pool.starmap_async(tasks.first_after_meeting_or_die, calls, chunksize=1)
        with pytest.raises(shmarray.WorkerLost):
            results.get()
        assert pool.starmap(tasks.first_of, calls) == [0.0, 1.0, 2.0, 3.0]
    pool.join()
    sweep_after_deaths()
    assert files() == []


def map_where_there_is_no_room():
    array = np.arange(8 << 20, dtype="u1")
    with Ways("ours").pool() as pool, pytest.warns(RuntimeWarning):
        assert pool.map(tasks.first_of, [array] * COUNT, chunksize=1) == [0.0] * COUNT


def test_what_finds_no_room_goes_in_the_messages(small_tmpfs):
    small_tmpfs("size=4m")
    run_forked(map_where_there_is_no_room)  # a process warns once


def test_a_joblib_call_without_a_limit_gives_each_task_its_own():
    joblib = pytest.importorskip("joblib", reason="joblib is not installed")
    importlib.import_module("shmarray.joblib").register()
    array = numbers()
    calls = [joblib.delayed(tasks.sum_with)(array, number) for number in range(4)]
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        got = joblib.Parallel(max_nbytes=None)(calls)
    assert got == [float((numbers() + number).sum()) for number in range(4)]
