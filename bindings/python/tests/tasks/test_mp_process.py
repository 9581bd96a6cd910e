"""Processes get their arguments by handle, under every start method, whichever process ends
meanwhile.
"""

import json
import multiprocessing
import os
import pickle
import signal
import socket

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from process_work import (
    Refuses,
    Worker,
    arrays,
    call,
    compare,
    facts,
    length,
    run,
    start_another,
    use_all,
    write,
)
from processes import Life
from working import METHODS


@pytest.fixture(autouse=True)
def swept():
    """Reclaims what ended processes held."""
    yield
    shmarray.sweep()


def test_arrays_of_every_kind_are_arguments(context, files):
    sent = arrays()
    run(context, compare, sent, context.get_start_method() != "fork")
    del sent
    shmarray.sweep()
    assert files() == []


def test_a_process_writes_what_is_shared_and_has_a_copy_of_what_is_private(context):
    shared = shmarray.zeros(50_000)
    private = np.zeros(50_000)
    run(context, write, shared[::2], private, number=7)
    assert (shared[0], shared[1], private[0]) == (7, 0, 0)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_starting_a_process_copies_no_shared_array(method):
    context = mp.get_context(method)
    shared = shmarray.zeros(1_000_000)
    run(context, print)
    before = shmarray.copied_bytes()
    run(context, write, shared, np.zeros(3), number=1)
    assert shmarray.copied_bytes() - before < 1000


def test_arguments_may_be_big_pickles(context):
    assert call(context, length, list(range(1_500_000))) == 1_500_000


def test_locks_values_connections_queues_and_sockets_are_arguments(context):
    lock = context.Lock()
    value = context.Value("i", 5)
    queue = context.JoinableQueue(3)
    pairs = [context.Pipe() for _ in range(100)]
    one, other = socket.socketpair()
    standard, standard_other = multiprocessing.Pipe()
    run(context, use_all, range(100), lock, value, [end for _, end in pairs], queue, one, standard)
    assert value.value == 6
    assert [end.recv() for end, _ in pairs] == list(range(100))
    assert queue.get() == "from the child"
    queue.task_done()
    queue.join()
    assert (other.recv(10), standard_other.recv()) == (b"socket", "standard")
    for end in (one, other, standard, standard_other):
        end.close()


def test_a_child_knows_how_it_was_started_and_where_shared_memory_is(context, monkeypatch):
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", "1000")
    said = call(context, facts)
    monkeypatch.delenv("SHMARRAY_POOL_BYTES")
    again = call(context, facts)
    assert said["method"] == context.get_start_method()
    assert (said["parent"], said["daemon"]) == (os.getpid(), False)
    assert said["environment"]["SHMARRAY_DIR"] == os.environ["SHMARRAY_DIR"]
    assert said["environment"]["SHMARRAY_POOL_BYTES"] == "1000"
    assert said["environment"]["SHMARRAY_FAMILY"] == os.environ["SHMARRAY_FAMILY"]
    assert "SHMARRAY_POOL_BYTES" not in again["environment"]


DEFAULT = """
import sys
import shmarray.multiprocessing as mp

def say(answers):
    answers.put(mp.get_start_method())
    if answers.empty() or sys.argv[1] != "fork":
        return

if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    answers = mp.SimpleQueue()
    process = mp.Process(target=say, args=(answers,))
    process.start()
    process.join()
    print(answers.get(), process.exitcode)
"""


@pytest.mark.parametrize("method", METHODS)
def test_a_child_has_the_default_start_method_of_its_parent(method, run_file):
    assert run_file(DEFAULT, method) == f"{method} 0\n"


@pytest.mark.parametrize("inner", METHODS)
def test_a_child_starts_children(context, inner):
    array = shmarray.zeros(50_000)
    run(context, start_another, inner, array)
    assert array[0] == 3


def test_a_process_class_keeps_its_arrays():
    ours, theirs = mp.Pipe()
    worker = Worker(shmarray.ones(50_000), theirs)
    worker.start()
    assert ours.recv() == ("worker", 50_000)
    worker.join()


def test_unpicklable_arguments_raise_at_the_start(files):
    for method in ("forkserver", "spawn"):
        with pytest.raises((AttributeError, TypeError, pickle.PicklingError)):
            mp.get_context(method).Process(
                target=write, args=(np.zeros(50_000), lambda: None)
            ).start()
    assert files() == []


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_child_that_cannot_unpickle_says_so_and_leaves_nothing(method, files, capfd):
    process = mp.get_context(method).Process(target=write, args=(shmarray.zeros(50_000), Refuses()))
    process.start()
    process.join()
    assert process.exitcode == 1
    if method == "spawn":  # the server prints it where it was started
        assert "ZeroDivisionError" in capfd.readouterr().err
    process.close()
    shmarray.sweep()
    assert files() == []


PARENT_ENDS = """
import os, sys
import numpy as np
import shmarray
import shmarray.multiprocessing as mp

def work(said, shared, private, data):
    child_only = shmarray.loads(data)
    with open(said, "w") as file:
        file.write(repr((float(shared.sum()), float(private.sum()), float(child_only.sum()))))

if __name__ == "__main__":
    said, method, ending = sys.argv[1:]
    shared, private = shmarray.ones(50_000), np.ones(60_000)
    data = shmarray.dumps(np.ones(70_000))
    process = mp.get_context(method).Process(target=work, args=(said, shared, private, data))
    process.start()
    print(process.pid, flush=True)
    os.kill(os.getpid(), 9) if ending == "killed" else os._exit(0)
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ending", ["killed", "os._exit"])
@pytest.mark.parametrize("is_taken", [False, True], ids=["", "the registry's name is taken"])
def test_arguments_arrive_though_the_parent_ends_at_once(
    method, ending, is_taken, tmp_path, start_python, files, directory
):
    if is_taken:
        (directory / f"shmarray-registry-{os.geteuid()}").mkdir()
    program = tmp_path / "program.py"
    said = tmp_path / "said"
    program.write_text(PARENT_ENDS)
    os.mkfifo(said)
    parent = start_python(program, said, method, ending)
    child = Life(parent.hear())
    assert parent.status() == {"killed": -signal.SIGKILL, "os._exit": 0}[ending]
    shmarray.sweep()
    assert said.read_text() == "(50000.0, 60000.0, 70000.0)"
    child.wait()
    shmarray.sweep()
    assert files() == []


def test_processes_are_those_of_the_standard_module():
    process = mp.get_context("fork").Process(target=signal.pause)
    process.start()
    assert process in multiprocessing.active_children()
    assert process in mp.active_children()
    assert multiprocessing.connection.wait([process.sentinel], 0) == []
    process.terminate()
    process.join()
    assert process.exitcode == -signal.SIGTERM
    process.close()
    with pytest.raises(ValueError, match="closed"):
        process.is_alive()


def test_the_program_is_quiet_at_its_end(context, run_file):
    assert json.loads(run_file(ENDS, context.get_start_method())) == 3.0


ENDS = """
import sys
import threading
import numpy as np
import shmarray.multiprocessing as mp

def work(queue, tasks):
    queue.put(float(tasks.get().sum()))

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    queue, tasks, bounded = context.Queue(), context.JoinableQueue(2), context.Queue(2)
    for _ in range(2):
        context.Process(target=work, args=(queue, tasks), daemon=True).start()
    tasks.put(np.ones(3))
    bounded.put(tasks)
    cycle = [bounded]
    cycle.append(cycle)
    print(queue.get())
"""
