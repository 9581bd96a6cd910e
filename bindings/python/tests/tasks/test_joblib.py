"""joblib's calls are done by workers that get arrays by handle, as loky's would do them."""

import gc
import multiprocessing
import os
import signal
import socket
import threading

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score

import shmarray
import shmarray.joblib
import shmarray.multiprocessing as mp
import tasks
from shmarray.concurrent import WorkerLost
from tasks import Gate, Meeting
from working import own_directory, state, sweep_after_deaths, until


@pytest.fixture(autouse=True, scope="module")
def directory():
    """One directory for all tests here, since workers stay from one call to the next."""
    with pytest.MonkeyPatch.context() as patch, own_directory(patch) as path:
        yield path
        end_spare()
        sweep_after_deaths()


@pytest.fixture(autouse=True)
def config():
    """Our backend for two workers."""
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        yield
    gc.collect()
    sweep_after_deaths()


@pytest.fixture
def new_workers():
    """The test's first call starts workers."""
    end_spare()


def end_spare():
    executor = shmarray.joblib._executor.spare.exchange(None)
    if executor is not None:
        executor.shutdown()


# Works as loky.


def test_it_may_be_registered_twice():
    shmarray.joblib.register()
    assert joblib.parallel.BACKENDS["shmarray"] is shmarray.joblib.ShmarrayBackend


def test_calls_are_done_in_their_order_by_two_workers(tmp_path):
    assert Parallel()(delayed(tasks.square)(number) for number in range(100)) == [
        n * n for n in range(100)
    ]
    meeting = Meeting(tmp_path)
    pids = {
        pid
        for pid, _ in Parallel(batch_size=1)(delayed(meeting.attend)(number) for number in range(2))
    }
    assert len(pids - {os.getpid()}) == 2


def test_sockets_and_what_a_program_registers_are_sent_as_by_multiprocessing(monkeypatch):
    here, there = socket.socketpair()
    with here, there:
        assert Parallel()([delayed(socket.socket.send)(there, b"from a worker")]) == [13]
        assert here.recv(20) == b"from a worker"
    reducer = lambda array: (str, (f"{len(array)} numbers",))  # noqa: E731
    monkeypatch.setitem(mp.reduction.ForkingPickler._extra_reducers, np.ndarray, reducer)
    assert Parallel()([delayed(str)(np.arange(3))]) == ["3 numbers"]


def test_functions_that_nobody_can_import_go_by_value():
    factor = 3
    assert Parallel()(delayed(lambda number: number * factor)(number) for number in range(4)) == [
        0,
        3,
        6,
        9,
    ]
    function = Parallel()([delayed(lambda: lambda number: number + factor)()])[0]
    assert function(4) == 7


IN_MAIN = """
import joblib, shmarray.joblib
from dataclasses import dataclass
shmarray.joblib.register()

@dataclass
class Point:
    x: int

    def moved(self, by):
        return Point(self.x + by)

def farther(point, by=lambda: 2):
    return point.moved(by())

with joblib.parallel_config(backend="shmarray", n_jobs=2):
    points = joblib.Parallel()(joblib.delayed(farther)(Point(x)) for x in range(3))
assert points == [Point(2), Point(3), Point(4)], points
"""


def test_classes_and_functions_of_the_main_program_go_by_value(run_python):
    assert run_python(IN_MAIN) == ""


def test_results_may_be_asked_for_one_by_one():
    found = Parallel(return_as="generator")(delayed(tasks.square)(number) for number in range(20))
    assert [next(found) for _ in range(3)] == [0, 1, 4]
    assert list(found) == [n * n for n in range(3, 20)]
    found = Parallel(return_as="generator_unordered")(
        delayed(tasks.square)(number) for number in range(20)
    )
    assert sorted(found) == [n * n for n in range(20)]


def test_n_jobs_counts_as_it_does_for_joblib():
    backend = shmarray.joblib.ShmarrayBackend(nesting_level=0)
    assert [backend.effective_n_jobs(n) for n in (1, 5, None)] == [1, 5, 1]
    assert backend.effective_n_jobs(-1) == joblib.cpu_count()
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)([])
    assert Parallel(n_jobs=1)(delayed(os.getpid)() for _ in range(2)) == [os.getpid()] * 2


def test_loops_within_tasks_are_threads_then_nothing():
    def backends(depth):
        level = type(joblib.parallel.get_active_backend()[0]).__name__
        return [level, *(Parallel(n_jobs=2)([delayed(backends)(depth - 1)])[0] if depth else [])]

    assert backends(2) == ["ShmarrayBackend", "ThreadingBackend", "SequentialBackend"]


def test_tasks_may_use_the_backend_by_its_name():
    def inner():
        return Parallel(n_jobs=2, backend="shmarray")(delayed(os.getpid)() for _ in range(4))

    pids = set(Parallel()([delayed(inner)()])[0])
    assert len(pids - {os.getpid()}) == len(pids) >= 1


def test_a_thread_of_the_program_may_have_a_loop_of_its_own():
    found = []

    def work():
        with joblib.parallel_config(backend="shmarray", n_jobs=2):
            found.append(Parallel()(delayed(tasks.square)(number) for number in range(50)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[n * n for n in range(50)]] * 3


def test_workers_stay_for_the_next_call_that_wants_the_same():
    def pids(**options):
        Parallel(**options)(delayed(tasks.square)(number) for number in range(50))
        return {*shmarray.joblib._executor.spare._executor._processes}

    first = pids()
    assert (pids(), len(first)) == (first, 2)
    assert not pids(n_jobs=3) & first


def test_workers_leave_when_they_have_had_nothing_to_do_for_some_time():
    options = {"idle_worker_timeout": 0.01}
    pids = set(Parallel(**options)(delayed(os.getpid)() for _ in range(4)))
    until(lambda: [state(pid) for pid in pids] == [None] * len(pids))
    assert Parallel(**options)(delayed(tasks.square)(n) for n in range(4)) == [0, 1, 4, 9]


@pytest.mark.parametrize(("limit", "expected"), [(None, max(joblib.cpu_count() // 2, 1)), (3, 3)])
@pytest.mark.usefixtures("new_workers")
def test_threads_of_libraries_in_workers_are_limited(limit, expected, monkeypatch):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    with joblib.parallel_config(backend="shmarray", inner_max_num_threads=limit):
        found = Parallel(n_jobs=2)(delayed(os.getenv)(name) for name in names)
    assert found == [str(expected)] * 3


def test_workers_are_initialized():
    call = Parallel(initializer=tasks.initialize, initargs=(7,))
    assert call(delayed(tasks.initialized_value)() for _ in range(4)) == [[7]] * 4


def test_an_exception_comes_with_the_traceback_of_the_worker():
    with pytest.raises(ValueError, match="wrong") as caught:
        Parallel()([delayed(tasks.fail)("wrong"), delayed(tasks.square)(3)])
    assert "raise ValueError(text)" in str(caught.value.__cause__)


def test_an_exception_ends_the_call_and_the_next_goes_on(tmp_path):
    with Parallel() as parallel:
        with pytest.raises(ValueError, match="wrong"):
            parallel([delayed(tasks.fail)("wrong"), delayed(Gate(tmp_path).pass_through)()])
        assert parallel(delayed(tasks.square)(n) for n in range(4)) == [0, 1, 4, 9]


def test_an_interrupt_of_a_task_is_one_of_the_call():
    with pytest.raises(KeyboardInterrupt):
        Parallel()([delayed(tasks.interrupts)(), delayed(tasks.square)(3)])
    assert Parallel()([delayed(tasks.square)(3)]) == [9]


INTERRUPTED = """
import json, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the shell had it ignored
sys.path.insert(0, sys.argv[1])
import joblib, shmarray.joblib, tasks
shmarray.joblib.register()
gate, meeting = tasks.Gate(sys.argv[2]), tasks.Meeting(sys.argv[2])
with joblib.parallel_config(backend="shmarray", n_jobs=2):
    # Both have started.
    joblib.Parallel(batch_size=1)(joblib.delayed(meeting.attend)(number) for number in range(2))
    print("1", flush=True)
    try:
        joblib.Parallel()([joblib.delayed(gate.pass_through)(), joblib.delayed(tasks.square)(1)])
    except KeyboardInterrupt:
        squares = joblib.Parallel()(joblib.delayed(tasks.square)(number) for number in range(3))
        print(json.dumps(squares), flush=True)
"""


def test_ctrl_c_ends_the_call_and_the_next_goes_on(start_python, tmp_path):
    program = start_python(INTERRUPTED, os.path.dirname(__file__), tmp_path, start_new_session=True)
    program.hear()
    (tmp_path / "gate-arrivals").read_text()
    os.killpg(program.process.pid, signal.SIGINT)
    assert program.hear() == [0, 1, 4]
    assert (program.status(), program.said_on_stderr()) == (0, "")


def test_a_call_may_have_a_limit_of_time(tmp_path):
    with pytest.raises(multiprocessing.TimeoutError):
        Parallel(timeout=0.01)([delayed(Gate(tmp_path).pass_through)()])
    assert Parallel()([delayed(tasks.square)(3)]) == [9]


def test_an_unpicklable_task_is_lokys_pickling_error():
    with pytest.raises(
        joblib.externals.loky.process_executor.PicklingError, match="the task to send"
    ) as caught:
        Parallel()(delayed(id)(threading.Lock()) for _ in range(3))
    assert isinstance(caught.value.__cause__, TypeError)


# Arrays.


@pytest.mark.usefixtures("new_workers")
def test_results_come_by_handle(tmp_path):
    meeting = Meeting(tmp_path)
    copied = shmarray.copied_bytes()
    arrays = Parallel(batch_size=1)(delayed(tasks.large)(number) for number in range(4))
    assert [(array[0], array[-1]) for array in arrays] == [(n, n) for n in range(4)]
    arrays[0] += 1
    shared = Parallel(batch_size=1)(delayed(tasks.large_shared)(number) for number in range(4))
    assert [shmarray.is_shared(array) for array in shared] == [True] * 4
    by_workers = dict(
        Parallel(batch_size=1)(delayed(meeting.attend)(number) for number in range(2))
    )
    assert sum(by_workers.values()) == sum(
        array.nbytes for array in arrays
    )  # once, and only what was private
    assert shmarray.copied_bytes() == copied


def test_tasks_write_into_views_of_one_shared_result():
    rows = shmarray.zeros((8, 10_000))
    Parallel()(delayed(tasks.fill)(row, number) for number, row in enumerate(rows))
    assert rows[:, -1].tolist() == [*range(8)]


def test_a_large_private_array_is_shared_once_for_all_tasks_of_a_call(files):
    array = np.ones((1000, 500))
    before = shmarray.copied_bytes()
    found = Parallel(batch_size=1)(delayed(tasks.look_at)(array) for _ in range(20))
    assert shmarray.copied_bytes() - before == array.nbytes
    assert {(writeable, total) for _, writeable, total in found} == {(False, 500_000.0)}
    array += 1
    assert Parallel()([delayed(tasks.look_at)(array)])[0][1:] == (False, 1_000_000.0)
    end_spare()
    assert files() == []


def test_large_private_arrays_go_when_their_own_ends(files):
    def arrays():
        for number in range(10):
            yield delayed(tasks.look_at)(np.full(200_000, float(number)))

    most = [0]
    found = Parallel(batch_size=1, pre_dispatch=2, return_as="generator")(arrays())
    for number, (_, _, total) in enumerate(found):
        assert total == number * 200_000
        most.append(len(files()))
    assert max(most) < 10


@pytest.mark.parametrize("options", [{"max_nbytes": None}, {"mmap_mode": "c"}], ids=str)
def test_each_task_has_a_copy_that_it_may_write_into_when_it_is_asked_for(options):
    array = np.ones(200_000)
    found = Parallel(batch_size=1, **options)(delayed(tasks.look_at)(array) for _ in range(4))
    assert {(writeable, total) for _, writeable, total in found} == {(True, 200_000.0)}


def test_a_mapped_file_stays_one(tmp_path):
    joblib.dump(np.arange(200_000.0), tmp_path / "array")
    array = joblib.load(tmp_path / "array", mmap_mode="r")
    before = shmarray.copied_bytes()
    assert Parallel()([delayed(tasks.look_at)(array[1:])])[0][1:] == (False, float(array.sum()))
    assert shmarray.copied_bytes() == before


# Workers that die.


@pytest.mark.parametrize("way", ["SIGKILL", "os._exit"])
def test_a_call_raises_that_a_worker_was_lost_and_the_next_goes_on(way):
    with pytest.raises(WorkerLost) as caught:
        Parallel()(delayed(tasks.ends)(way) for _ in range(3))
    assert caught.value.exitcode == {"SIGKILL": -9, "os._exit": 3}[way]
    assert Parallel()(delayed(tasks.square)(number) for number in range(10)) == [
        n * n for n in range(10)
    ]


@pytest.mark.parametrize("kind", ["generator", "generator_unordered"])
def test_a_generator_raises_that_a_worker_was_lost_and_the_next_goes_on(kind):
    with pytest.raises(WorkerLost):
        list(Parallel(return_as=kind)(delayed(tasks.ends)("SIGKILL") for _ in range(3)))
    assert sorted(Parallel(return_as=kind)(delayed(tasks.square)(n) for n in range(4))) == [
        0,
        1,
        4,
        9,
    ]


def test_the_same_workers_go_on_after_one_of_them_was_killed_between_calls():
    with Parallel() as parallel:
        parallel(delayed(tasks.square)(number) for number in range(4))
        os.kill(next(iter(parallel._backend._workers._processes)), signal.SIGKILL)
        assert parallel(delayed(tasks.square)(number) for number in range(10)) == [
            n * n for n in range(10)
        ]


# scikit-learn.


@pytest.fixture(scope="module")
def samples():
    return make_classification(2000, 70, random_state=0)  # more than a MiB


def alone(fit):
    """The result without workers."""
    with joblib.parallel_config(n_jobs=1):
        return fit()


def test_a_forest_is_the_same(samples):
    def fit():
        return (
            RandomForestClassifier(20, random_state=0, n_jobs=2)
            .fit(*samples)
            .predict_proba(samples[0])
        )

    assert np.array_equal(fit(), alone(fit))


def test_scores_are_the_same(samples):
    def fit():
        return cross_val_score(LogisticRegression(), *samples, cv=4, n_jobs=2)

    assert np.array_equal(fit(), alone(fit))


def test_a_search_finds_the_same(samples):
    def fit():
        search = GridSearchCV(LogisticRegression(), {"C": [0.01, 1, 100]}, cv=3, n_jobs=2).fit(
            *samples
        )
        return search.best_params_, search.cv_results_["mean_test_score"].tolist()

    assert fit() == alone(fit)


CODE = """
import joblib, numpy, shmarray.joblib
shmarray.joblib.register()
with joblib.parallel_config(backend="shmarray", n_jobs=2):
    arrays = joblib.Parallel()(joblib.delayed(numpy.zeros)(200_000) for _ in range(4))
"""


def test_an_interpreter_ends_quietly(run_python):
    assert run_python(CODE) == ""
