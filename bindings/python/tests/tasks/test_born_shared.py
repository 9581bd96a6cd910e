"""With ``allocator=True`` a result whose memory nothing else in the worker refers to is moved; any
other is copied, as without. The standard modules say what results have to be.
"""

import contextlib
import dataclasses
import functools
import gc
import multiprocessing as standard
import os
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import born_tasks
import shmarray
import shmarray.joblib
import shmarray.multiprocessing as mp
from born_tasks import COPIED, COUNT, HOSTILE, MOVED
from processes import run_forked
from shmarray.concurrent import ProcessPoolExecutor
from working import METHODS, sweep_after_deaths, until

pytestmark = pytest.mark.usefixtures("no_main")


def stats(_=None):
    return shmarray.allocator_stats()


def born(workers=1, method="fork", **options):
    return mp.get_context(method).Pool(workers, allocator=True, **options)


@pytest.fixture(autouse=True)
def _with_pools(monkeypatch):
    """What is born shared lies in the pool of a process."""
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", str(1 << 30))
    yield
    born_tasks.kept.clear()
    gc.collect()
    sweep_after_deaths()


@pytest.fixture
def pool():
    with born() as pool:
        yield pool
    pool.join()


@contextlib.contextmanager
def counted(pool):
    """Yields a dict that has, after the block, what the worker has moved and copied in it."""
    before, counts = pool.apply(stats), {}
    yield counts
    after = pool.apply(stats)
    counts["moved"] = after["moved"] - before["moved"]
    for reason, count in after["copied"].items():
        if count > before["copied"][reason]:
            counts[reason] = count - before["copied"][reason]


def first_array(value):
    """Returns an array of a result."""
    while not isinstance(value, np.ndarray):
        if isinstance(value, dict):
            value = next(iter(value.values()))
        elif isinstance(value, born_tasks.Record):
            value = value.image
        else:
            value = value[0] if isinstance(value, list) else np.asarray(value.data)
    return value


def is_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ma.MaskedArray):
        return is_same(one.data, other.data) and is_same(one.mask, other.mask)
    if isinstance(one, np.ndarray):
        same = one.dtype == other.dtype and (one.strides == other.strides or not one.size)
        return same and one.flags.writeable == other.flags.writeable and np.array_equal(one, other)
    if isinstance(one, (pd.DataFrame, pd.Series)):
        return one.equals(other)
    if isinstance(one, (xr.Dataset, xr.DataArray)):
        return one.identical(other)
    if scipy.sparse.issparse(one):
        return one.shape == other.shape and (one != other).nnz == 0
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(is_same, one, other))
    if dataclasses.is_dataclass(one):
        return is_same(dataclasses.asdict(one), dataclasses.asdict(other))
    if type(one).__module__ == "born_tasks":
        arrays = [
            {key: value for key, value in vars(side).items() if isinstance(value, np.ndarray)}
            for side in (one, other)
        ]
        return is_same(*arrays)
    return one == other


def by_pickle(function):
    """Returns what the standard pool would give."""
    return pickle.loads(pickle.dumps(function()))


@pytest.mark.parametrize("name", MOVED)
def test_it_is_moved_and_it_is_the_same(name, pool):
    with counted(pool) as counts:
        result = pool.apply(MOVED[name])
    assert is_same(result, by_pickle(MOVED[name]))
    assert set(counts) == {"moved"}
    assert counts["moved"] >= (name != "nothing")


@pytest.mark.parametrize("name", COPIED)
def test_it_is_copied_for_a_reason(name, pool):
    function, reasons = COPIED[name]
    for _ in range(2):
        with counted(pool) as counts:
            result = pool.apply(function)
        assert is_same(result, by_pickle(function))
        assert set(counts) - {"moved"} == reasons
        first_array(result)[:] = 5  # the receiver's own


@pytest.mark.parametrize("function", HOSTILE, ids=lambda function: function.__name__)
def test_nobody_sees_what_another_does_later(function, pool):
    """The first result is as the standard pool's, and stays so while the worker goes on. The worker
    does not see what the receiver stores.
    """
    with standard.get_context("fork").Pool(1) as other:
        expected = [other.apply(function) for _ in range(3)]
    results = []
    for number in range(3):
        results.append(pool.apply(function))
        pool.apply(allocate_and_fill)
        for result, wanted in zip(results, expected, strict=False):
            assert is_same(first_array(result), first_array(wanted))
        if number == 1:
            results[0] = expected[0]  # dropped, so that the worker uses the memory again
    array = first_array(results[-1])
    array[...] = 77
    assert is_same(first_array(pool.apply(function)), first_array(expected[-1]))
    assert (array == 77).all()


def allocate_and_fill():
    for _ in range(3):
        np.full(COUNT, -1.0)


def full_of(number, count=COUNT):
    return np.full(count, number, dtype=float)


@pytest.mark.parametrize("method", METHODS)
def test_many_results_are_each_their_own(method):
    with born(2, method) as pool:
        results = pool.map(full_of, range(200))
        for number, result in enumerate(results):
            assert (result == number).all()
            result += 1
        results = results[::2] + pool.map(full_of, range(200, 400))
        expected = [number + 1 for number in range(0, 200, 2)] + list(range(200, 400))
        assert [result[-1] for result in results] == expected
    pool.join()


def test_small_results_are_as_without(pool):
    for count in (0, 1, 10, 1000, 8192, 30_000, 65_535, 65_536, 65_537, 131_072):
        with counted(pool) as counts:
            assert is_same(pool.apply(full_of, (3, count)), full_of(3, count))
        assert "held" not in counts


def put_between(queue, number):
    """Sends arrays by a queue, too, which are snapshots there."""
    array = full_of(number)
    queue.put({"a": array, "b": array[:100]})
    array += 1
    return born_tasks.Record("a", array, {})


def test_a_worker_may_send_in_other_ways():
    context = mp.get_context("fork")
    queue = context.Queue()
    with born(initializer=keep, initargs=(queue,)) as pool:
        for number in range(5):
            pool.apply(born_tasks.Record, ("small", np.ones(10), {}))
            result = pool.apply(put_kept, (number,))
            got = queue.get()
            assert is_same(got["a"], full_of(number))
            assert is_same(result.image, full_of(number + 1))
            got["a"][:] = result.image[:] = 77


def keep(queue):
    born_tasks.kept["queue"] = queue


def put_kept(number):
    return put_between(born_tasks.kept["queue"], number)


def same(value):
    return value


def added(value):
    value += 1
    return value


def test_a_result_that_is_an_argument_is_the_receivers_own(pool):
    argument = full_of(1)
    for function, expected in [(same, 1), (added, 2)]:
        result = pool.apply(function, (argument,))
        assert (result == expected).all()
        result[:] = 9
        assert (argument == 1).all()
    there_and_back = pool.apply(same, (pool.apply(full_of, (3,)),))
    assert is_same(there_and_back, full_of(3))


def live_after_a_collection():
    gc.collect()
    return stats()["live"]


def fails_to_pickle():
    return [full_of(1), lambda: None, full_of(2)]


def raises_with_an_array():
    raise ValueError(full_of(4))


def test_an_error_leaves_the_worker_as_it_was(pool):
    for _ in range(3):
        with pytest.raises(mp.pool.MaybeEncodingError):
            pool.apply(fails_to_pickle)
        with pytest.raises(ValueError, match=r"^\[4\.") as raised:
            pool.apply(raises_with_an_array)
        assert is_same(raised.value.args[0], full_of(4))
        assert is_same(pool.apply(full_of, (5,)), full_of(5))
    assert pool.apply(live_after_a_collection) == 0


def raises_beside_a_guard():
    array = full_of(4)
    guard = born_tasks.Guard(array)
    raise ValueError(array, str(guard))


def raises_beside_a_generator():
    array = full_of(4)

    def wipes():
        try:
            yield
        finally:
            array[:] = 0

    generator = wipes()
    next(generator)
    raise ValueError(array)


@pytest.mark.parametrize("function", [raises_beside_a_guard, raises_beside_a_generator])
def test_the_locals_of_a_task_that_raises_change_nothing(function, pool):
    with pytest.raises(ValueError, match=r"4\.") as raised:
        pool.apply(function)
    assert is_same(raised.value.args[0], full_of(4))


class Argument:
    """An argument that changes the result when it is dropped."""

    result = None

    def __del__(self):
        if self.result is not None:
            self.result[:] = 0


def gives_to(argument):
    argument.result = full_of(4)
    return argument.result


def test_arguments_live_until_the_result_is_pickled():
    """With an allocator the finalizer of an argument may change the result (TASKS.md)."""
    with mp.get_context("fork").Pool(1) as one:
        result = one.apply(gives_to, (Argument(),))
    assert is_same(result, full_of(4))


def threads_that_drop_theirs(rounds):
    """Returns an array that another thread refers to for a moment longer."""
    array = full_of(rounds)
    other = threading.Thread(target=lambda held: held.sum(), args=(array,))
    other.start()
    return array


def test_a_thread_may_drop_it_at_any_moment(pool):
    with counted(pool) as counts:
        for number in range(300):
            assert is_same(pool.apply(threads_that_drop_theirs, (number,)), full_of(number))
    assert counts["moved"] + counts.get("held", 0) == 300


def forks():
    """Returns what both sides of a fork have written to."""
    array = full_of(1)
    kept = full_of(2)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        array[:] = 8
        kept[:] = 9
        del array
        fresh = full_of(10)
        os.write(writer, bytes([int(kept[-1]), int(fresh[0])]))
        os._exit(0)
    array += 2
    seen = os.read(reader, 2)
    os.close(reader)
    os.close(writer)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (kept == 2).all()
    return array, list(seen)


def test_a_worker_that_forks(pool):
    for _ in range(3):
        array, seen = pool.apply(forks)
        assert is_same(array, full_of(3))
        assert seen == [9, 10]


def test_a_parent_that_forks(pool):
    kept = [pool.apply(full_of, (number,)) for number in range(4)]

    def child():
        assert [array[0] for array in kept] == [0, 1, 2, 3]
        for array in kept:
            array += 10
        del kept[1]
        gc.collect()

    run_forked(child)
    kept[0] += 5
    later = [pool.apply(full_of, (number,)) for number in range(20, 30)]
    assert [array[-1] for array in kept] == [5, 1, 2, 3]
    assert [array[-1] for array in later] == list(range(20, 30))


def test_an_executor():
    context = mp.get_context("fork")
    with ProcessPoolExecutor(1, mp_context=context, allocator=True) as executor:
        assert is_same(executor.submit(full_of, 3).result(), full_of(3))
        results = list(executor.map(full_of, range(20), chunksize=3))
        assert [result[0] for result in results] == list(range(20))
        assert executor.submit(stats).result()["moved"] == 21


def test_an_initializer_may_turn_it_on():
    with ProcessPoolExecutor(
        1, mp_context=mp.get_context("fork"), initializer=shmarray.use_allocator
    ) as executor:
        assert is_same(executor.submit(full_of, 3).result(), full_of(3))
        assert executor.submit(stats).result()["moved"] == 1
    assert shmarray.allocator_stats()["allocations"] == 0


def test_joblib():
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2, allocator=True):
        results = joblib.Parallel()(joblib.delayed(full_of)(number) for number in range(20))
        assert all(is_same(result, full_of(number)) for number, result in enumerate(results))
        moved = joblib.Parallel()(joblib.delayed(stats)() for _ in range(2))
    assert any(one["moved"] for one in moved)
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        assert joblib.Parallel()([joblib.delayed(stats)()])[0]["allocations"] == 0


def test_a_worker_that_waits_gives_idle_memory_back(pool):
    pool.apply(allocate_and_fill)
    assert pool.apply(stats)["idle_bytes"] > 0
    worker = pool._pool[0].pid
    until(
        lambda: (
            not any(one.kind == "array" and worker in one.holders for one in shmarray.segments())
        )
    )
    assert pool.apply(stats)["idle_bytes"] == 0


def test_without_room_numpy_allocates_as_ever(monkeypatch):
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", str(8 << 20))
    with born() as pool:
        kept = [pool.apply(full_of, (number,)) for number in range(10)]
        assert [array[-1] for array in kept] == list(range(10))
        said = pool.apply(stats)
    pool.join()
    assert said["fell_back"] > 0
    assert 0 < said["moved"] < 10


def zeros(count):
    return np.zeros(count)


def test_many_zeros_are_born_shared_once_they_are_sent(pool):
    count = (40 << 20) // 8
    with counted(pool) as counts:
        for _ in range(3):
            result = pool.apply(zeros, (count,))
            assert not result.any()
            result += 1
            del result
    assert counts["moved"] == 2
    pool.apply(unsent_zeros, (count,))
    assert pool.apply(stats)["allocations"] <= 2 + 4


def unsent_zeros(count):
    for _ in range(10):
        np.zeros(count)


def test_within_a_block():
    def child():
        before = np.ones(COUNT)
        with shmarray.allocator(1000):
            a = np.ones(200)
            with shmarray.allocator():
                b = np.ones(200)
                made = []
                other = threading.Thread(target=lambda: made.append(np.ones(COUNT)))
                other.start()
                other.join()
            assert shmarray.allocator_stats()["live"] == 3
            a.resize(3000)
            assert (a[:200] == 1).all()
            assert not a[200:].any()
        after = np.ones(COUNT)
        assert shmarray.allocator_stats()["live"] == 3
        assert not any(map(shmarray.is_shared, (a, b, *made, before, after)))
        copy = shmarray.loads(shmarray.dumps(a))
        a[:] = 3
        assert copy[0] == 1
        before.resize(10)
        del a, b
        made.clear()
        assert shmarray.allocator_stats()["live"] == 0

    run_forked(child)


@pytest.mark.parametrize("wrong", [-1, -(1 << 40)])
def test_a_limit_below_zero(wrong):
    with pytest.raises(ValueError, match="min_bytes"):
        shmarray.use_allocator(wrong)
    with pytest.raises(ValueError, match="min_bytes"), shmarray.allocator(wrong):
        pass


def born_here(number=1, count=COUNT):
    with shmarray.allocator():
        return full_of(number, count)


def copied_by(call):
    """Calls, and returns the result and the bytes that this process copied for it."""
    before = shmarray.copied_bytes()
    result = call()
    return result, shmarray.copied_bytes() - before


def through_a_pipe(value):
    one, other = mp.Pipe()
    one.send(value)
    return other.recv()


def through_a_queue(value):
    queue = mp.Queue()
    queue.put(value)
    return queue.get()


def through_bytes(value):
    return shmarray.loads(shmarray.dumps(value))


def through_bytes_for_two(value):
    data = shmarray.dumps(value, loads=2)
    other = shmarray.loads(data)
    next(iter(other.values()))[:] = 5
    return shmarray.loads(data)


@pytest.mark.parametrize(
    "way", [through_a_pipe, through_a_queue, through_bytes, through_bytes_for_two]
)
def test_what_is_handed_over_is_the_receivers(way):
    def child():
        array = born_here()
        moved = shmarray.move(array)
        got, copied = copied_by(functools.partial(way, {"a": moved}))
        got = got["a"]
        assert copied <= 8  # the count of loadings
        assert is_same(got, full_of(1))
        assert not array.flags.writeable
        got += 1
        del array, moved
        later = [born_here(9) for _ in range(5)]
        assert (got == 2).all()
        assert (later[0] == 9).all()
        assert shmarray.allocator_stats()["moved"] == 1

    run_forked(child)


def test_an_argument_is_handed_over():
    def child():
        with born() as pool:
            array = born_here(3)
            result, copied = copied_by(lambda: pool.apply(added, (shmarray.move(array),)))
            assert copied == 0
            assert (result == 4).all()

    run_forked(child)


def test_what_cannot_be_moved_is_copied_or_shared():
    private, shared = full_of(1), shmarray.full(COUNT, 1.0)
    copy, same_memory = through_a_pipe([shmarray.move(private), shmarray.move(shared)])
    copy += 1
    same_memory += 2
    assert (private == 1).all()
    assert (shared == 3).all()
    assert shmarray.is_shared(same_memory)
    assert not private.flags.writeable
    assert not shared.flags.writeable

    def child():
        array = born_here()
        run_forked(lambda: None)  # which freezes it
        got = through_a_pipe(shmarray.move(array))
        got += 1
        assert (array == 1).all()

    run_forked(child)


def test_it_is_handed_over_once():
    def child():
        array = born_here()
        view = array[:10]
        moved = shmarray.move(array)
        with pytest.raises(ValueError, match="read-only"):
            shmarray.move(array)
        through_a_pipe(moved)
        with pytest.raises(ValueError, match="sent already"):
            through_a_pipe(moved)
        with pytest.raises(ValueError, match="moved already"):
            through_a_pipe(shmarray.move(view))
        for wrong in ([1.0], np.float64(3), np.ma.ones(3), None):
            with pytest.raises(TypeError, match="ndarray"):
                shmarray.move(wrong)

    run_forked(child)
    arrived = pickle.loads(pickle.dumps(shmarray.move(full_of(2, 10))))
    assert is_same(arrived, full_of(2, 10))
