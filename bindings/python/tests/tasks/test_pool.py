"""Pools work as the standard ones, move arrays by handle, and go on when a worker dies."""

import itertools
import multiprocessing as standard
import os
import pickle
import random
import signal
import threading

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
import tasks
from shmarray import WorkerLost
from shmarray._codec import _pickler
from shmarray._tasks._ipc import _message
from shmarray.multiprocessing.pool import Pool, ThreadPool
from tasks import Gate
from working import state, sweep_after_deaths, until

pytestmark = pytest.mark.usefixtures("no_main")


def worker_of(pool):
    """Returns the dispatcher's view of its only worker."""
    (worker,) = pool._dispatcher._workers
    return worker


def stop(pid):
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T")


# Works as the standard pool.


def test_all_ways_to_give_it_tasks(pool):
    assert pool.apply(tasks.square, (7,)) == 49
    assert pool.apply_async(pow, (2,), {"exp": 5}).get() == 32
    assert pool.map(tasks.square, range(100)) == [n * n for n in range(100)]
    assert pool.map_async(tasks.square, range(10), chunksize=3).get() == [n * n for n in range(10)]
    assert pool.starmap(pow, [(2, 3), (3, 2)]) == [8, 9]
    assert pool.starmap_async(pow, [(2, 3)]).get() == [8]
    assert list(pool.imap(tasks.square, range(50))) == [n * n for n in range(50)]
    assert list(pool.imap(tasks.square, iter(range(50)), chunksize=7)) == [n * n for n in range(50)]
    assert sorted(pool.imap_unordered(tasks.square, range(50))) == [n * n for n in range(50)]
    assert sorted(pool.imap_unordered(tasks.square, range(50), chunksize=7)) == [
        n * n for n in range(50)
    ]
    assert (pool.map(tasks.square, []), list(pool.imap(tasks.square, []))) == ([], [])


def test_it_is_a_standard_pool_and_its_threads_are_the_standard_ones(one):
    assert isinstance(one, standard.pool.Pool)
    assert ThreadPool is standard.pool.ThreadPool
    assert repr(one) == "<shmarray.multiprocessing.pool.Pool state=RUN pool_size=1>"
    with ThreadPool(2) as threads:
        assert threads.map(tasks.process, []) == []
        assert threads.apply(tasks.process) == os.getpid()


WRONG = {
    "no processes": (ValueError, {"processes": 0}),
    "fewer": (ValueError, {"processes": -1}),
    "no tasks": (ValueError, {"processes": 1, "maxtasksperchild": 0}),
    "half a task": (ValueError, {"processes": 1, "maxtasksperchild": 0.5}),
    "an initializer that cannot be called": (TypeError, {"processes": 1, "initializer": 5}),
}


@pytest.mark.parametrize(("error", "arguments"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_as_the_standard_pool_does(error, arguments):
    with pytest.raises(error) as ours:
        Pool(**arguments)
    with pytest.raises(error) as theirs:
        standard.Pool(**arguments)
    assert str(ours.value) == str(theirs.value)


def test_an_exception_comes_with_the_traceback_of_the_worker(one):
    with pytest.raises(ValueError, match="wrong") as caught:
        one.apply(tasks.fail, ("wrong",))
    assert type(caught.value.__cause__) is standard.pool.RemoteTraceback
    assert "raise ValueError(text)" in str(caught.value.__cause__)


def test_a_task_that_cannot_be_sent_raises_and_the_pool_goes_on(one):
    errors = (AttributeError, TypeError, pickle.PicklingError)
    with pytest.raises(errors, match=r"pickle|local object"):
        one.apply(lambda: None)
    with pytest.raises(standard.pool.MaybeEncodingError, match="Error sending result"):
        one.apply(tasks.unsendable)
    assert one.apply(tasks.square, (3,)) == 9


def test_a_task_that_cannot_be_unpickled_raises_and_the_pool_goes_on(one):
    with pytest.raises(ValueError, match="no such thing here"):
        one.apply(tasks.Unwelcome)  # in this process
    with pytest.raises(ValueError, match="not in this process"):
        one.apply(tasks.give_back, (tasks.UnwelcomeInWorkers(),))
    assert one.apply(tasks.square, (3,)) == 9


def test_callbacks_are_called_and_may_fail(one, monkeypatch):
    said = []
    monkeypatch.setattr(
        threading, "excepthook", lambda arguments: said.append(str(arguments.exc_value))
    )
    heard = []
    one.apply_async(tasks.square, (3,), callback=heard.append).wait()
    one.map_async(tasks.square, [1, 2], callback=heard.append).wait()
    one.apply_async(tasks.fail, ("x",), error_callback=heard.append).wait()
    assert heard[:2] == [9, [1, 4]]
    assert isinstance(heard[2], ValueError)

    def fails(value):
        raise ValueError(f"callback of {value}")

    result = one.apply_async(tasks.square, (4,), callback=fails)
    assert result.get() == 16
    assert said == ["callback of 16"]
    assert one.apply(tasks.square, (5,)) == 25


def raising(count):
    yield from range(count)
    raise ZeroDivisionError("the iterable's")


def test_an_iterable_that_raises_does_so_in_its_place(pool):
    found = pool.imap(tasks.square, raising(3))
    assert [next(found) for _ in range(3)] == [0, 1, 4]
    with pytest.raises(ZeroDivisionError, match="the iterable's") as caught:
        next(found)
    assert caught.value.__cause__ is None
    for call in (pool.map, pool.imap_unordered):
        with pytest.raises(ZeroDivisionError):
            list(call(tasks.square, raising(0)))
    assert pool.map(tasks.square, range(4)) == [0, 1, 4, 9]


def test_a_bar_of_progress_moves_with_each_result(pool, gate):
    tqdm = pytest.importorskip("tqdm").tqdm
    results = iter(tqdm(pool.imap(tasks.pass_or_give_back, [1, gate]), total=2, disable=None))
    assert next(results) == 1
    gate.next_arrival()  # the next is not performed
    gate.open()
    assert list(results) == [None]


def test_imap_reads_no_further_ahead_than_it_must(one, gate):
    begun = []

    def frames():
        for number in range(30):
            begun.append(number)
            yield gate if number == 0 else np.full(50_000, number)

    results = one.imap(tasks.pass_or_sum, frames())
    gate.next_arrival()
    until(lambda: len(begun) >= 4)  # two for the worker, one that waits, and one that waits to wait
    for _ in range(1000):
        os.sched_yield()
    assert len(begun) == 4
    gate.open()
    assert list(results) == [number * 50_000 for number in range(30)]


def test_a_slow_iterable_keeps_no_result_waiting(one):
    more = threading.Semaphore(0)

    def numbers():
        for number in range(10):
            more.acquire()
            yield number

    results = one.imap(tasks.square, numbers())
    for number in range(10):
        more.release()
        assert next(results) == number * number


def test_results_are_there_one_by_one_as_what_shows_progress_wants_them(pool, gate):
    for call in (pool.imap, pool.imap_unordered):
        found = call(tasks.pass_or_give_back, [1, 2, gate])
        assert isinstance(found, standard.pool.IMapIterator)
        assert {next(found), next(found)} == {1, 2}
        gate.next_arrival()
        gate.open()
        assert list(found) == [None]


def test_a_worker_that_has_done_its_tasks_is_replaced():
    with mp.get_context("fork").Pool(2, maxtasksperchild=3) as pool:
        pids = pool.map(tasks.process_for, range(30), chunksize=1)
    assert len(set(pids)) >= 10
    assert max(pids.count(pid) for pid in pids) <= 3
    pool.join()


def test_workers_are_initialized_and_get_arrays_for_that_by_handle(pool):
    done = shmarray.zeros(30)
    with pool._ctx.Pool(2, tasks.initialize, (done,)) as initialized:
        initialized.map(tasks.mark_initialized, range(30))
    initialized.join()
    assert done.tolist() == [1] * 30


# Arrays.


def test_results_of_10_mb_come_by_handle(pool):
    for number, array in enumerate(pool.imap(tasks.large, range(6))):
        assert (array.shape, array[0], array[-1]) == ((1_250_000,), number, number)
        array += 1  # private, as it was
    copied = shmarray.copied_bytes()
    shared = pool.map(tasks.large_shared, range(3))
    assert [shmarray.is_shared(array) for array in shared] == [True] * 3
    assert shmarray.copied_bytes() == copied


def test_workers_write_into_views_of_one_shared_result(pool):
    rows = shmarray.zeros((8, 10_000))
    pool.starmap(tasks.fill, [(row[::2], number) for number, row in enumerate(rows)])
    assert rows[:, :4].tolist() == [[number, 0, number, 0] for number in range(8)]


def test_arguments_are_given_back_when_the_task_is_done(one, files):
    array = shmarray.zeros(100_000)
    assert one.apply(tasks.give_back, (array,)).shape == (100_000,)
    assert one.apply(len, (np.zeros(100_000),)) == 100_000
    del array
    until(lambda: files() == [])


# Workers that die.


def test_the_task_of_a_worker_that_ends_is_lost_and_the_pool_goes_on(pool):
    for way, exitcode in {"SIGKILL": -9, "SIGSEGV": -11, "os._exit": 3, "sys.exit": 4}.items():
        words = f"was killed by {way}" if exitcode < 0 else f"ended with exit code {exitcode}"
        before = [process.pid for process in pool._pool]
        with pytest.raises(WorkerLost, match=words) as caught:
            pool.apply(tasks.ends, (way,))
        assert (caught.value.pid in before, caught.value.exitcode) == (True, exitcode)
        assert pool.map(tasks.square, range(20)) == [n * n for n in range(20)]
        assert len(pool._pool) == 2


def test_a_part_of_a_map_that_is_lost_is_what_the_map_raises(pool):
    heard = []
    with pytest.raises(WorkerLost):
        pool.map_async(tasks.ends_if, [0, 0, 1, 0], chunksize=1, error_callback=heard.append).get()
    assert [type(error) for error in heard] == [WorkerLost]
    found = pool.imap(tasks.ends_if, [0, 1, 0])
    assert next(found) == 0
    with pytest.raises(WorkerLost):
        next(found)
    assert list(found) == [0]


def test_a_worker_killed_in_its_task(pool, gate):
    result = pool.apply_async(gate.pass_through)
    pid = gate.next_arrival()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost) as caught:
        result.get()
    assert (caught.value.pid, caught.value.exitcode) == (pid, -9)
    assert pid not in pool.map(tasks.process_for, range(8), chunksize=1)


def test_a_worker_killed_before_it_begins(one):
    first = one.apply(tasks.process)
    stop(first)
    results = [one.apply_async(tasks.process) for _ in range(2)]
    until(lambda: len(worker_of(one).tasks) == 2)
    os.kill(first, signal.SIGKILL)
    second, again = (result.get() for result in results)
    assert first != second == again


def test_a_worker_killed_after_its_result(one):
    pid = one.apply(tasks.process)
    os.kill(pid, signal.SIGKILL)
    assert one.apply(tasks.process) != pid


def test_a_result_that_was_sent_is_not_lost_with_its_worker(one, tmp_path):
    first = Gate(tmp_path, "first")
    third = Gate(tmp_path, "third")
    has_failed = threading.Event()
    go_on = threading.Event()

    def holds_up(_):
        has_failed.set()
        go_on.wait()

    one.apply_async(first.pass_through, callback=holds_up)
    second = one.apply_async(tasks.square, (5,))
    lost = one.apply_async(third.pass_through)
    pid = first.next_arrival()
    until(
        lambda: len(worker_of(one).tasks) == 3
    )  # nobody gives it another task while the callback blocks that
    first.open()
    has_failed.wait()
    third.next_arrival()  # so the second is done and its result under way
    os.kill(pid, signal.SIGKILL)
    go_on.set()
    assert second.get() == 25
    with pytest.raises(WorkerLost):
        lost.get()


def test_a_worker_that_died_in_its_task_does_not_take_the_next_with_it(one, tmp_path):
    first = Gate(tmp_path, "first")
    second = Gate(tmp_path, "second")
    results = [
        one.apply_async(gate.pass_through, (number,)) for number, gate in enumerate((first, second))
    ]
    pid = first.next_arrival()
    until(lambda: len(worker_of(one).tasks) == 2)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        results[0].get()
    assert second.next_arrival() != pid
    second.open()
    assert results[1].get() == 1


def test_an_idle_worker_gets_tasks_that_others_have_not_begun(pool, gate):
    held = pool.apply_async(gate.pass_through, (1,))
    busy = gate.next_arrival()
    pids = {result.get() for result in [pool.apply_async(tasks.process) for _ in range(20)]}
    assert len(pids) == 1
    assert busy not in pids
    gate.open()
    assert held.get() == 1


def test_tasks_behind_a_long_task_are_not_overtaken_for_ever(pool, gate):
    found = pool.imap_unordered(
        tasks.pass_or_give_back, itertools.chain([gate], itertools.count(1))
    )
    gate.next_arrival()
    assert {*range(1, 500)} <= {next(found) for _ in range(1000)}
    gate.open()


@pytest.mark.parametrize(
    "obj", [(pow, (2, 3), {}), (tasks.square, ([1, "a"], None), {}), (True, b"b"), [[[[[[1]]]]]]]
)
def test_plain_objects_are_packed_as_all_others(obj):
    assert _message.pack(obj)[:2] == _pickler.encode(obj, _message.PipePickler)


def test_the_end_of_a_worker_is_seen_though_its_child_has_its_pipe(one, gate, tmp_path):
    stay = Gate(tmp_path, "stay")
    result = one.apply_async(tasks.fork_and_stay, (gate, stay))
    pid = gate.next_arrival()
    child = stay.next_arrival()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost):
        result.get()
    assert one.apply(tasks.square, (3,)) == 9
    assert state(child) == "S"
    stay.open()


def test_a_child_that_comes_back_from_a_task_is_no_second_worker(one):
    assert one.apply(tasks.fork_and_return) == "worker"
    assert one.map(tasks.square, range(100), chunksize=1) == [n * n for n in range(100)]


@pytest.mark.parametrize(("method", "kills"), [("fork", 100), ("forkserver", 10), ("spawn", 10)])
def test_kills_at_random_moments(method, kills):
    count = 1000
    chance = random.Random(method)
    done = shmarray.zeros(count, "u1")
    progress = threading.Semaphore(0)
    with mp.get_context(method).Pool(3) as pool:
        call = {
            "callback": lambda _: progress.release(),
            "error_callback": lambda _: progress.release(),
        }
        results = [
            pool.apply_async(tasks.add_one, (done, number), **call) for number in range(count)
        ]
        for _ in range(kills):
            for _ in range(chance.randrange(count // kills)):
                progress.acquire()
            chance.choice(pool._pool).kill()
        lost = []
        for number, result in enumerate(results):
            try:
                index, array = result.get()
                assert (index, array[0], array[-1], done[number]) == (number, number, number, 1)
            except WorkerLost as error:
                lost.append((error.exitcode, int(done[number])))
        assert len(lost) <= kills
        assert set(lost) <= {(-signal.SIGKILL, 0), (-signal.SIGKILL, 1)}  # none was performed twice
        assert pool.map(tasks.square, range(50)) == [n * n for n in range(50)]
    pool.join()
    sweep_after_deaths()


def test_a_batch_that_a_worker_has_loaded_comes_by_its_handle(one, tmp_path):
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for number, path in enumerate(paths):
        np.save(path, np.full((2, 3), number))
    before = shmarray.copied_bytes()
    batch = one.apply(shmarray.load_batch, (paths,))
    assert shmarray.copied_bytes() == before
    assert shmarray.is_shared(batch)
    assert (batch == np.arange(3)[:, None, None]).all()
