"""Memory of dead workers is released when a process notices their end, and is listed until then."""

import os
import signal
import sys

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
import tasks
from process_work import SIZE, hold
from shmarray.concurrent import ProcessPoolExecutor
from working import allocated_bytes, until

pytestmark = pytest.mark.usefixtures("no_main")

POOLS = 20


def listed_bytes(*kinds):
    """Returns what shmarray lists, or some kinds of it."""
    return sum(
        info.segment_bytes for info in shmarray.segments() if not kinds or info.kind in kinds
    )


WAITS = {
    "join": lambda process: process.join(),
    "is_alive": lambda process: until(lambda: not process.is_alive()),
    "exitcode": lambda process: until(lambda: process.exitcode is not None),
    "active_children": lambda process: until(lambda: process not in mp.active_children()),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_process_that_notices_an_end_gives_the_memory_back(context, wait, files):
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(there,))
    process.start()
    assert here.recv() == SIZE
    assert listed_bytes() >= SIZE
    process.kill()
    wait(process)
    assert files() == []


def test_a_task_is_lost_and_what_its_worker_held_is_back(context):
    with context.Pool(1) as pool:
        for _ in range(3):
            with pytest.raises(shmarray.WorkerLost):
                pool.apply(tasks.keep_and_end, (SIZE,))
            assert listed_bytes() == 0


def test_a_new_worker_finds_the_memory_of_the_last_given_back(context):
    with context.Pool(1, maxtasksperchild=1) as pool:
        for _ in range(5):
            pool.apply(tasks.keep, (SIZE,))
            assert listed_bytes() < 2 * SIZE
        pool.close()
        pool.join()
    assert listed_bytes() == 0


def test_a_terminated_pool_has_left_nothing(context):
    for _ in range(POOLS if context.get_start_method() == "fork" else 2):
        with context.Pool(2) as pool:
            pool.map(tasks.keep, [SIZE] * 4, chunksize=1)
        assert listed_bytes() == 0


def test_an_executor_that_is_shut_down_has_left_nothing(context):
    for _ in range(POOLS if context.get_start_method() == "fork" else 2):
        with ProcessPoolExecutor(2, context) as executor:
            list(executor.map(tasks.keep, [SIZE] * 4))
        assert listed_bytes() == 0


def test_an_executor_of_standard_processes_leaves_nothing_either():
    import multiprocessing

    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as executor:
        with pytest.raises(shmarray.WorkerLost):
            executor.submit(tasks.keep_and_end, SIZE).result()
        assert listed_bytes() == 0


def test_workers_of_joblib_that_died_have_left_nothing():
    joblib = pytest.importorskip("joblib")
    import shmarray.joblib

    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2), pytest.raises(shmarray.WorkerLost):
        joblib.Parallel()(joblib.delayed(tasks.keep_and_end)(SIZE) for _ in range(2))
    assert listed_bytes() == 0


PROGRAM = """
import os, signal, sys
import numpy as np
import shmarray
import shmarray.multiprocessing as mp
import tasks

signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell had it ignored
pool = mp.get_context("fork").Pool(2)
pool.map(tasks.keep, [3_000_000] * 4, chunksize=1)
data = shmarray.dumps(np.ones(500_000))
arrays = [shmarray.ones(size) for size in (3, 5_000, 500_000)]
del arrays[1]
os.write(1, b"true\\n")
pool.map(signal.sigwait, [[signal.SIGUSR1]] * 2, chunksize=1)
"""


@pytest.fixture
def busy_program(start_python):
    """A program whose pool has just begun tasks that do not end, with arrays, messages and what it
    keeps for later.
    """
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    del environment["SHMARRAY_POOL_BYTES"]
    program = start_python(PROGRAM, start_new_session=True, env=environment)
    assert program.hear() is True
    return program


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_memory_of_an_interrupted_program_is_listed_and_taken_by_the_next_use(
    number, busy_program, directory, files
):
    assert listed_bytes() == allocated_bytes(directory) > 4 * SIZE
    os.killpg(busy_program.process.pid, number)
    assert busy_program.status() != 0
    until(lambda: no_process_in(busy_program.process.pid))
    assert listed_bytes() == listed_bytes("remains") == allocated_bytes(directory)
    shmarray.zeros(1)
    assert files() == []


def no_process_in(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_list_tells_arrays_pools_and_remains_and_says_who_has_them(directory, monkeypatch, peer):
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", str(1 << 28))
    mine = shmarray.ones(SIZE, "u1")
    shmarray.ones(2 * SIZE, "u1")  # gone at once
    peer.run(
        "theirs = shmarray.ones(3_000_000, 'u1'); data = shmarray.dumps(np.ones(9)); import "
        "os; answer = os.getpid()"
    )
    pid = peer.pid
    kinds = {info.kind: info for info in shmarray.segments() if info.holders == (os.getpid(),)}
    assert (kinds["array"].segment, kinds["array"].shape) == (
        shmarray.handle(mine).segment,
        (SIZE,),
    )
    assert (kinds["pool"].segment_bytes >= 2 * SIZE, kinds["pool"].tickets) == (True, 0)
    theirs = [
        info for info in shmarray.segments() if info.kind == "array" and info.holders == (pid,)
    ]
    assert [info.shape for info in theirs] == [(SIZE,)]
    assert listed_bytes() == allocated_bytes(directory)
    peer.kill()
    left = [info for info in shmarray.segments() if info.creator_pid == pid]
    assert {(info.kind, info.holders, info.tickets) for info in left} == {("remains", (), 0)}
    assert listed_bytes("array", "pool") + sum(
        info.segment_bytes for info in left
    ) == allocated_bytes(directory)
    assert np.all(mine == 1)
    del mine
    shmarray.sweep()
