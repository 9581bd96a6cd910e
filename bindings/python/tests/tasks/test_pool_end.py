"""Pools end when they are closed, terminated, dropped, or broken, and nobody waits for them."""

import itertools
import os
import threading

import pytest

import shmarray.multiprocessing as mp
import tasks
from shmarray import WorkerLost
from working import state

pytestmark = pytest.mark.usefixtures("no_main")


def test_an_initializer_that_always_fails_ends_the_pool(capfd):
    for initializer, argument in ((tasks.fail, "not today"), (tasks.ends, "os._exit")):
        with mp.get_context("fork").Pool(2, initializer, (argument,)) as pool:
            with pytest.raises(WorkerLost, match="7 workers in a row ended before they were ready"):
                pool.map_async(tasks.square, range(100), chunksize=1).get()
            for call in (pool.map, pool.imap, pool.apply_async):
                with pytest.raises(WorkerLost):
                    call(tasks.square, (1,))
        pool.join()
    assert "ValueError: not today" in capfd.readouterr().err


def test_a_pool_that_is_closed_does_what_it_was_given(pool):
    results = [pool.apply_async(tasks.square, (number,)) for number in range(20)]
    late = pool.imap(tasks.square, range(100))
    pool.close()
    with pytest.raises(ValueError, match="not running"):
        pool.apply(tasks.square, (1,))
    pool.join()
    assert [result.get() for result in results] == [n * n for n in range(20)]
    assert list(late) == [n * n for n in range(100)]
    assert pool._pool == []


def test_a_pool_that_runs_cannot_be_joined_nor_sent(one):
    with pytest.raises(ValueError, match="still running"):
        one.join()
    with pytest.raises(NotImplementedError):
        one.apply(tasks.give_back, (one,))


def test_nobody_waits_for_a_pool_that_was_terminated(pool, gate):
    heard = []
    result = pool.apply_async(gate.pass_through, callback=heard.append, error_callback=heard.append)
    found = pool.imap(tasks.square, itertools.count())
    assert next(found) == 0
    gate.next_arrival()
    pids = [process.pid for process in pool._pool]
    pool.terminate()
    with pytest.raises(WorkerLost, match="terminated"):
        result.get()
    with pytest.raises(WorkerLost, match="terminated"):
        list(found)
    assert [state(pid) for pid in pids] == [None, None]
    assert heard == []


def test_an_iterable_that_never_ends_holds_up_no_end(one):
    never = threading.Event()

    def waits():
        yield 1
        never.wait()

    found = one.imap(tasks.square, waits())
    assert next(found) == 1
    one.terminate()
    one.join()
    with pytest.raises(WorkerLost):
        next(found)
    never.set()


def test_a_pool_that_nobody_closed_warns_and_ends():
    pool = mp.get_context("fork").Pool(2)
    pids = [process.pid for process in pool._pool]
    thread = pool._dispatcher.thread
    with pytest.warns(ResourceWarning, match="unclosed running multiprocessing pool"):
        del pool
    thread.join()
    assert [state(pid) for pid in pids] == [None, None]


def test_a_forked_child_of_the_parent_has_no_part_in_its_pool(one):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            one.apply_async(tasks.square, (1,)).get()
        except WorkerLost:
            pass
        except RuntimeError:
            status = 0
        os._exit(status)
    assert one.apply(tasks.square, (2,)) == 4
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


INTERRUPTED_WHILE_PACKING = """
import os, signal
import shmarray.multiprocessing as mp

class Interrupts:
    def __reduce__(self):
        signal.raise_signal(signal.SIGINT)
        return int, ()

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell had it ignored
pool = mp.get_context("fork").Pool(2)
never = [signal.SIGUSR1]
for job in (
    lambda: pool.map(signal.sigwait, [never, Interrupts()], chunksize=1),
    lambda: pool.apply_async(abs, (Interrupts(),)),
):
    try:
        job()
    except KeyboardInterrupt:
        os.write(1, b"interrupted ")
print(pool.apply(abs, (-1,)), len(pool._cache))
pool.terminate()
pool.join()
"""


def test_ctrl_c_while_a_part_is_pickled_ends_the_job_at_once_and_the_pool_goes_on(run_python):
    # As the part's outcome it was raised only after the other part, which never ends.
    assert run_python(INTERRUPTED_WHILE_PACKING) == "interrupted interrupted 1 0\n"
