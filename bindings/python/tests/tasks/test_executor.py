"""Executors work as the standard ones, move arrays by handle, and go on when a worker dies."""

import concurrent.futures as standard
import inspect
import itertools
import multiprocessing
import os
import pickle
import random
import signal
import threading
import weakref

import numpy as np
import pytest

import shmarray
import shmarray.concurrent
import shmarray.multiprocessing as mp
import tasks
from shmarray.concurrent import BrokenProcessPool, ProcessPoolExecutor, WorkerLost
from tasks import Gate
from working import METHODS, state, sweep_after_deaths, until

pytestmark = pytest.mark.usefixtures("no_main")


@pytest.fixture
def executor(context):
    """Two workers, under each start method."""
    with ProcessPoolExecutor(2, context) as executor:
        yield executor
    sweep_after_deaths()  # reclaims what killed workers held


@pytest.fixture
def one():
    """An executor with one worker."""
    with ProcessPoolExecutor(1, mp.get_context("fork")) as executor:
        yield executor
    sweep_after_deaths()


# Works as the standard executor.


def test_it_does_what_it_is_given(executor):
    assert executor.submit(pow, 2, exp=5).result() == 32
    assert list(executor.map(tasks.square, range(50))) == [n * n for n in range(50)]
    assert list(executor.map(pow, range(50), itertools.repeat(2), chunksize=7)) == [
        n * n for n in range(50)
    ]
    done, waiting = shmarray.concurrent.wait([executor.submit(tasks.square, n) for n in range(5)])
    assert ({future.result() for future in done}, waiting) == ({0, 1, 4, 9, 16}, set())


@pytest.mark.parametrize("method", METHODS)
def test_a_standard_context_will_do(method, monkeypatch):
    monkeypatch.delenv("SHMARRAY_DIR")  # a standard fork server may have another
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as executor:
        assert executor.submit(tasks.large, 7).result()[-1] == 7
        with pytest.raises(WorkerLost):
            executor.submit(tasks.ends, "SIGKILL").result()
        assert list(executor.map(tasks.square, range(5))) == [0, 1, 4, 9, 16]


def test_the_public_names_are_there():
    ours = shmarray.concurrent
    assert {*standard.__all__} <= {*ours.__all__}
    same = {*standard.__all__} & {*ours.__all__} - {"ProcessPoolExecutor"}
    assert [name for name in same if getattr(ours, name) is not getattr(standard, name)] == []
    assert issubclass(ProcessPoolExecutor, standard.ProcessPoolExecutor)
    assert BrokenProcessPool is standard.process.BrokenProcessPool
    parameters = inspect.signature(standard.ProcessPoolExecutor).parameters
    assert [*inspect.signature(ProcessPoolExecutor).parameters] == [*parameters, "allocator"]


WRONG = {
    "no workers": (ValueError, {"max_workers": 0}),
    "an initializer that cannot be called": (TypeError, {"initializer": 5}),
    "half a task": (TypeError, {"max_tasks_per_child": 0.5}),
    "no tasks": (ValueError, {"max_tasks_per_child": 0}),
    "tasks of forked workers": (
        ValueError,
        {"max_tasks_per_child": 1, "mp_context": multiprocessing.get_context("fork")},
    ),
}


@pytest.mark.parametrize(("error", "arguments"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_as_the_standard_executor_does(error, arguments):
    with pytest.raises(error) as ours:
        ProcessPoolExecutor(**arguments)
    with pytest.raises(error) as theirs:
        standard.ProcessPoolExecutor(**arguments)
    assert str(theirs.value).startswith(str(ours.value))


def test_an_exception_comes_with_the_traceback_of_the_worker(one):
    error = one.submit(tasks.fail, "wrong").exception()
    assert (type(error), str(error)) == (ValueError, "wrong")
    assert "raise ValueError(text)" in str(error.__cause__)


def test_a_task_that_cannot_be_sent_or_unpickled_raises_and_the_executor_goes_on(one):
    for arguments, words in (
        ((lambda: None,), "pickle|local object"),
        ((tasks.unsendable,), "pickle"),
        ((tasks.Unwelcome,), "no such thing here"),
        ((tasks.give_back, tasks.UnwelcomeInWorkers()), "not in this process"),
    ):
        errors = (AttributeError, TypeError, ValueError, pickle.PicklingError)
        with pytest.raises(errors, match=words):
            one.submit(*arguments).result()
    assert one.submit(tasks.square, 3).result() == 9


def test_system_exit_in_a_task_is_its_result(one):
    with pytest.raises(SystemExit):
        one.submit(tasks.ends, "sys.exit").result()
    assert one.submit(tasks.square, 3).result() == 9


def test_there_are_no_more_workers_than_tasks(gate):
    with ProcessPoolExecutor(4, mp.get_context("spawn")) as executor:
        assert executor._processes == {}
        pids = {executor.submit(tasks.process).result() for _ in range(5)}
        assert len(pids) == len(executor._processes) == 1
        held = executor.submit(gate.pass_through)
        gate.next_arrival()
        assert executor.submit(tasks.process).result() not in pids
        assert len(executor._processes) == 2
        gate.open()
        held.result()


def test_a_worker_that_has_done_its_tasks_is_replaced():
    with ProcessPoolExecutor(1, mp.get_context("spawn"), max_tasks_per_child=2) as executor:
        pids = list(executor.map(tasks.process_for, range(5)))
        assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [2, 2, 1]


def test_a_future_that_has_not_begun_can_be_cancelled(one, gate):
    held = one.submit(gate.pass_through, 1)
    gate.next_arrival()
    ready = one.submit(tasks.square, 2)  # already with the worker
    until(ready.running)
    late = one.submit(tasks.square, 3)
    assert (held.cancel(), late.cancel()) == (False, True)
    gate.open()
    assert (held.result(), ready.result()) == (1, 4)
    with pytest.raises(shmarray.concurrent.CancelledError):
        late.result()


def test_shutdown_does_what_was_submitted_and_takes_no_more(executor):
    futures = [executor.submit(tasks.square, number) for number in range(30)]
    executor.shutdown()
    assert [future.result(0) for future in futures] == [n * n for n in range(30)]
    with pytest.raises(RuntimeError, match="cannot schedule new futures after shutdown"):
        executor.submit(tasks.square, 1)


def test_shutdown_may_cancel_what_has_not_begun(one, gate):
    held = one.submit(gate.pass_through, 1)
    pid = gate.next_arrival()
    others = [one.submit(tasks.square, number) for number in range(30)]
    until(others[0].running)
    one.shutdown(wait=False, cancel_futures=True)
    until(others[-1].done)
    assert [future.cancelled() for future in others] == [False] + [True] * 29
    gate.open()
    assert (held.result(), others[0].result()) == (1, 0)
    until(lambda: state(pid) is None)


def test_workers_leave_when_the_executor_is_garbage():
    executor = ProcessPoolExecutor(2, mp.get_context("fork"))
    future = executor.submit(tasks.square, 3)
    thread = executor._executor_manager_thread
    pids = [*executor._processes]
    del executor
    assert future.result() == 9
    thread.join()
    assert [state(pid) for pid in pids] == [None, None]


class Given:
    def __call__(self):
        pass


def test_an_executors_objects_are_released_with_it_without_a_collection():
    initializer = Given()
    ref = weakref.ref(initializer)
    executor = ProcessPoolExecutor(1, mp.get_context("fork"), initializer)
    assert executor.submit(tasks.square, 3).result() == 9
    executor.shutdown()
    del executor, initializer
    assert ref() is None


def test_map_gives_up_after_its_timeout(one, gate):
    held = one.submit(gate.pass_through)
    gate.next_arrival()
    with pytest.raises(TimeoutError):
        next(one.map(tasks.square, [1], timeout=0.01))
    gate.open()
    held.result()


def test_callbacks_are_called_and_may_fail(one, gate, monkeypatch):
    said = []
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda arguments: said.append(arguments.exc_type))

    def stops(_):
        raise KeyboardInterrupt

    future = one.submit(gate.pass_through)
    gate.next_arrival()
    future.add_done_callback(heard.append)
    future.add_done_callback(stops)  # of a future that is done, it would be called here
    gate.open()
    assert one.submit(tasks.square, 4).result() == 16
    assert heard == [future]
    assert said == [KeyboardInterrupt]


def test_an_interrupt_as_a_task_returns_is_its_outcome_and_the_worker_goes_on(one):
    worker = one.submit(os.getpid).result()
    interrupted = one.submit(tasks.interrupt_as_it_returns)
    assert isinstance(interrupted.exception(), KeyboardInterrupt)
    assert one.submit(os.getpid).result() == worker


# Arrays.


def test_results_of_10_mb_come_by_handle(executor):
    for number, array in enumerate(executor.map(tasks.large, range(6))):
        assert (array.shape, array[0], array[-1]) == ((1_250_000,), number, number)
    copied = shmarray.copied_bytes()
    assert shmarray.is_shared(executor.submit(tasks.large_shared, 1).result())
    assert shmarray.copied_bytes() == copied


def test_workers_write_into_views_of_one_shared_result(executor):
    rows = shmarray.zeros((8, 10_000))
    list(executor.map(tasks.fill, rows, range(8)))
    assert rows[:, 0].tolist() == [*range(8)]


def test_waiting_tasks_have_no_copies_of_their_arguments(one, gate, files):
    held = one.submit(gate.pass_through)
    gate.next_arrival()
    array = np.zeros(100_000)
    futures = [one.submit(len, array) for _ in range(50)]
    until(futures[0].running)
    assert len(files()) <= 2
    gate.open()
    held.result()
    assert [future.result() for future in futures] == [100_000] * 50


# Workers that die.


def test_the_task_of_a_worker_that_ends_is_lost_and_the_executor_goes_on(executor):
    for way, exitcode in {"SIGKILL": -9, "SIGSEGV": -11, "os._exit": 3}.items():
        with pytest.raises(WorkerLost) as caught:
            executor.submit(tasks.ends, way).result()
        assert isinstance(caught.value, shmarray.WorkerLost)
        assert isinstance(caught.value, BrokenProcessPool)
        assert (caught.value.exitcode, state(caught.value.pid)) == (exitcode, None)
        assert list(executor.map(tasks.square, range(20))) == [n * n for n in range(20)]


def test_worker_lost_survives_pickling(one):
    with pytest.raises(WorkerLost) as caught:
        one.submit(tasks.ends, "SIGKILL").result()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.pid, again.exitcode) == (str(caught.value), caught.value.pid, -9)
    assert str(again) == f"worker {again.pid} was killed by SIGKILL, and its task is lost"


def test_a_worker_killed_before_it_begins(one):
    first = one.submit(tasks.process).result()
    os.kill(first, signal.SIGSTOP)
    until(lambda: state(first) == "T")
    futures = [one.submit(tasks.process) for _ in range(2)]
    until(futures[1].running)
    os.kill(first, signal.SIGKILL)
    second, again = (future.result() for future in futures)
    assert first != second == again


def test_kills_at_random_moments():
    chance = random.Random(0)
    count = 500
    done = shmarray.zeros(count, "u1")
    lost = []
    with ProcessPoolExecutor(3, mp.get_context("fork")) as executor:
        futures = [executor.submit(tasks.add_one, done, number) for number in range(count)]
        for number, future in enumerate(futures):
            if number % 10 == 0:
                chance.choice([*executor._processes.values()]).kill()
            try:
                index, array = future.result()
                assert (index, array[0], done[number]) == (number, number, 1)
            except WorkerLost as error:
                lost.append((error.exitcode, int(done[number])))
        assert executor.submit(tasks.square, 3).result() == 9
    assert len(lost) <= 50
    assert set(lost) <= {(-9, 0), (-9, 1)}
    sweep_after_deaths()


def test_an_initializer_that_raises_breaks_the_executor(capfd):
    with ProcessPoolExecutor(2, mp.get_context("spawn"), tasks.fail, ("not today",)) as executor:
        future = executor.submit(tasks.square, 3)
        error = future.exception()
        assert (type(error), str(error)) == (
            BrokenProcessPool,
            "the initializer raised ValueError('not today')",
        )
        assert "raise ValueError(text)" in str(error.__cause__)
        with pytest.raises(BrokenProcessPool, match="not today"):
            executor.submit(tasks.square, 3)
    assert "Exception in initializer:" in capfd.readouterr().err


def test_workers_that_die_in_the_initializer_break_the_executor():
    with ProcessPoolExecutor(2, mp.get_context("fork"), tasks.ends, ("SIGKILL",)) as executor:
        with pytest.raises(
            WorkerLost, match=r"ended before they were ready: worker \d+ was killed by SIGKILL"
        ):
            executor.submit(tasks.square, 3).result()
        with pytest.raises(BrokenProcessPool):
            executor.submit(tasks.square, 3)


def test_a_forked_child_of_the_parent_has_no_part_in_its_executor(one):
    assert one.submit(tasks.square, 2).result() == 4
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (lambda: one.submit(tasks.square, 1), one.kill_workers):
            try:
                call()
            except RuntimeError:
                refused += 1
        os._exit(refused != 2)
    assert one.submit(tasks.square, 2).result() == 4
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("how", ["kill_workers", "terminate_workers"])
def test_all_workers_may_be_ended_and_with_them_the_executor(how, method, tmp_path):
    """Also the tasks that had been handed to a worker and not begun ran again in new processes, so
    that a program whose tasks hang never ended.
    """
    gates = [Gate(tmp_path, name) for name in ("one", "other")]
    with ProcessPoolExecutor(2, mp.get_context(method)) as executor:
        futures = [executor.submit(gate.pass_through) for gate in 6 * gates]
        for gate in gates:
            gate.next_arrival()
        getattr(executor, how)()
        executor.shutdown()
        ends = {None if each.cancelled() else type(each.exception()) for each in futures}
        assert ends == {WorkerLost, None}
        assert not executor._processes
        with pytest.raises((BrokenProcessPool, RuntimeError)):
            executor.submit(abs, 1)


def test_tasks_that_had_not_begun_are_cancelled_also_if_all_deaths_are_seen_at_once(tmp_path):
    """They were lost then: the dispatcher found no workers, and ended without another look."""
    gate = Gate(tmp_path)
    with ProcessPoolExecutor(1, mp.get_context("fork")) as executor:
        futures = [executor.submit(gate.pass_through) for _ in range(6)]
        gate.next_arrival()
        dispatcher = executor._dispatcher
        select = dispatcher._selector.select
        is_in_place = threading.Event()

        def select_after_the_deaths(timeout):
            is_in_place.set()
            events = select(timeout)
            if dispatcher._is_closing:
                mp.connection.wait([worker.death() for worker in dispatcher._workers])
                events = select(0)
            return events

        dispatcher._selector.select = select_after_the_deaths
        futures.append(executor.submit(abs, -1))
        is_in_place.wait()
        executor.kill_workers()
        executor.shutdown()
        assert [each.cancelled() for each in futures] == 2 * [False] + 5 * [True]


@pytest.mark.parametrize("how", ["kill_workers", "terminate_workers"])
def test_workers_may_be_ended_before_they_exist_while_they_are_idle_and_after_a_shutdown(how):
    executor = ProcessPoolExecutor(2, mp.get_context("fork"))
    getattr(executor, how)()
    executor = ProcessPoolExecutor(2, mp.get_context("fork"))
    assert list(executor.map(abs, [-1, -2])) == [1, 2]
    getattr(executor, how)()
    executor.shutdown()
    getattr(executor, how)()


class FailsToStart:
    """A context whose processes fail when told to."""

    def __init__(self):
        self.begun = threading.Event()
        self.fails = threading.Event()

    def get_start_method(self, allow_none=False):  # noqa: ARG002 (as any context)
        return "spawn"

    def Process(self, target, args):  # noqa: ARG002, N802 (as any context)
        self.begun.set()
        self.fails.wait()
        raise OSError("no more processes")


def test_an_exit_goes_on_when_the_submission_that_it_waits_for_fails():
    context = FailsToStart()
    raised = []
    executor = ProcessPoolExecutor(1, context)

    def submits():
        try:
            executor.submit(abs, 1)
        except OSError as error:
            raised.append(str(error))

    submitter = threading.Thread(target=submits)
    submitter.start()
    context.begun.wait()
    dispatcher = executor._dispatcher
    dispatcher.close()  # as the end of an interpreter does
    until(lambda: dispatcher._is_asleep)
    context.fails.set()
    submitter.join()
    dispatcher.join()
    assert raised == ["no more processes"]
