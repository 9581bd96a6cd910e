"""A process that is killed in a queue or a pipe, wherever it is, takes nothing with it but what it
had.
"""

import contextlib
import os
import random
import signal

import numpy as np
import pytest

import shmarray
from shmarray.multiprocessing.queues import Empty, Full
from working import sweep_after_deaths

KILLS = {"fork": 100, "forkserver": 24, "spawn": 8}
"""Under each start method."""
MAXSIZE = 5


def kill(process):
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def some():
    """An object whose array is in the message, in a segment of its own, or in a segment that is
    shared already.
    """
    size = random.choice([10, 10_000])
    return random.choice([np.full, shmarray.full])(size, size)


def check(got):
    assert set(got.tolist()) == {got.size}


def put_for_ever(q, begun):
    begun.send(os.getpid())
    while True:
        q.put(some())


def get_for_ever(q, begun):
    begun.send(os.getpid())
    while True:
        check(q.get())


def put_and_get_for_ever(q, begun):
    begun.send(os.getpid())
    while True:
        q.put(some())
        check(q.get())
        if hasattr(q, "task_done"):
            q.task_done()


def put_some(q):
    with contextlib.suppress(Full):
        for _ in range(random.randrange(100)):
            q.put_nowait(some())


def get_some(q):
    """Gets as many tasks as there are, at most, and marks them as done."""
    with contextlib.suppress(Empty):
        for _ in range(random.randrange(100)):
            check(q.get_nowait())
            if hasattr(q, "task_done"):
                q.task_done()


def drain(q):
    """Counts also what waits in this process for room in the pipe."""
    while q.qsize():
        get_some(q)


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
@pytest.mark.parametrize("work", [put_for_ever, get_for_ever, put_and_get_for_ever])
def test_a_queue_goes_on_exactly_as_large_as_it_was(context, kind, work, files):
    q = getattr(context, kind)(MAXSIZE)
    for _ in range(KILLS[context.get_start_method()] // 4):
        ours, theirs = context.Pipe()
        victims = [context.Process(target=work, args=(q, theirs)) for _ in range(2)]
        for victim in victims:
            victim.start()
        for _ in victims:
            ours.recv()
        put_some(q)
        get_some(q)
        kill(victims[0])
        get_some(q)
        put_some(q)
        kill(victims[1])
        drain(q)
        if kind == "JoinableQueue":
            q.join()
        assert (q.qsize(), q.full()) == (0, False)
        for _ in range(MAXSIZE):
            q.put_nowait(some())
        with pytest.raises(Full):
            q.put_nowait(some())
        drain(q)
    sweep_after_deaths()
    assert files() == []


@pytest.mark.parametrize("kind", ["Queue", "SimpleQueue"])
def test_a_queue_without_a_size_goes_on(context, kind, files):
    q = getattr(context, kind)()
    for _ in range(KILLS[context.get_start_method()] // 2):
        ours, theirs = context.Pipe()
        victims = [
            context.Process(target=work, args=(q, theirs)) for work in (put_for_ever, get_for_ever)
        ]
        for victim in victims:
            victim.start()
        for _ in victims:
            ours.recv()
        for _ in range(random.randrange(50)):
            check(q.get())
        for victim in random.sample(victims, 2):
            kill(victim)
        while not q.empty():
            check(q.get())
        q.put(some())
        check(q.get())
        assert q.empty()
    del ours, theirs
    sweep_after_deaths()
    assert files() == []


def send_for_ever(end):
    while True:
        end.send(some())


def test_a_pipe_tells_of_a_death_after_the_last_whole_message(context, files):
    for _ in range(KILLS[context.get_start_method()]):
        ours, theirs = context.Pipe()
        victim = context.Process(target=send_for_ever, args=(theirs,))
        victim.start()
        theirs.close()
        for _ in range(random.randrange(50)):
            check(ours.recv())
        kill(victim)
        with pytest.raises(EOFError):
            receive_for_ever(ours)
    sweep_after_deaths()
    assert files() == []


def test_a_send_to_a_dead_process_raises(context, files):
    for _ in range(KILLS[context.get_start_method()] // 4):
        ours, theirs = context.Pipe()
        victim = context.Process(target=receive_for_ever, args=(theirs,))
        victim.start()
        theirs.close()
        for _ in range(random.randrange(50)):
            ours.send(some())
        os.kill(victim.pid, signal.SIGKILL)
        with pytest.raises(BrokenPipeError):
            send_for_ever(ours)
        victim.join()
    sweep_after_deaths()
    assert files() == []


def receive_for_ever(end):
    while True:
        check(end.recv())


def do_nothing(*_):
    pass


def test_arguments_of_a_child_killed_at_its_start_are_given_back(context, files):
    for number in range(KILLS[context.get_start_method()]):
        private = np.zeros(50_000)
        victim = context.Process(
            target=do_nothing, args=(shmarray.zeros(50_000), private, context.Queue(number))
        )
        victim.start()
        for _ in range(random.randrange(0, 2000)):
            pass
        victim.kill()
        victim.join()
        assert victim.exitcode in (0, -signal.SIGKILL)
        victim.close()
        del victim, private
    sweep_after_deaths()
    assert files() == []


def leave_by(q, how, *_):
    q.put(some())
    check(q.get())
    how()


@pytest.mark.parametrize("how", ["exit", "raise", "os._exit", "terminated"])
def test_a_queue_goes_on_however_a_process_ends(context, how, files, capfd):
    q = context.JoinableQueue(2)
    ends = {"exit": do_nothing, "raise": fail, "os._exit": exit_at_once, "terminated": terminate}
    processes = [context.Process(target=leave_by, args=(q, ends[how])) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert {process.exitcode for process in processes} == {
        {"exit": 0, "raise": 1, "os._exit": 3, "terminated": -signal.SIGTERM}[how]
    }
    drain(q)
    q.join()
    q.put_nowait(some())
    q.put_nowait(some())
    drain(q)
    capfd.readouterr()  # tracebacks
    sweep_after_deaths()
    assert files() == []


def fail():
    raise ZeroDivisionError


def exit_at_once():
    os._exit(3)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)
