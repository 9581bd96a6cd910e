"""Channels that processes are given: the stream ends as that of a ``multiprocessing.Pipe`` does,
when the last process that was given an end has closed it, and tells of a death if it was one.
"""

import contextlib
import functools
import multiprocessing as standard
import os
import subprocess
import sys

import numpy as np
import pytest

import channel_work as work
import shmarray.multiprocessing as ours
from shmarray import Channel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has channels")

METHODS = ("fork", "spawn", "forkserver")
MODULES = {"standard": standard, "ours": ours}


@pytest.fixture(params=[(module, method) for module in MODULES for method in METHODS], ids="-".join)
def context(request):
    module, method = request.param
    return MODULES[module].get_context(method)


@pytest.fixture
def viewer():
    with Channel.create("handed-over", 3, "i8", slots=32) as channel:
        yield channel


def numbers(channel):
    return [int(frame[0]) for frame in channel]


def a_pipe_gives(context):
    receiver, sender = context.Pipe(False)
    process = context.Process(target=work.send_and_close, args=(sender,))
    process.start()
    sender.close()
    received = []
    with contextlib.suppress(EOFError):
        while True:
            received.append(int(receiver.recv()[0]))
    process.join()
    return received


def test_a_stream_ends_when_the_child_has_closed_what_it_was_given(context, viewer):
    sender = Channel.open(viewer.name, receive=False)
    process = context.Process(target=work.send_and_close, args=(sender,))
    process.start()
    sender.close()
    assert numbers(viewer) == a_pipe_gives(context) == list(range(work.COUNT))
    assert not viewer.sender_died
    process.join()


def test_one_may_be_given_as_an_attribute_a_default_or_in_containers(context, viewer):
    sender = Channel.open(viewer.name, receive=False)
    targets = [
        (work.HasChannel(sender).send_and_close, ()),
        (functools.partial(work.send_and_close, sender), ()),
    ]
    for target, arguments in targets:
        process = context.Process(target=target, args=arguments)
        process.start()
        process.join()
    given = Channel.open(viewer.name, receive=False)
    process = context.Process(target=work.nothing, kwargs={"given": [{"deep": (given,)}]})
    process.start()
    sender.close()
    given.close()
    process.join()
    assert numbers(viewer) == 2 * list(range(work.COUNT))
    assert not viewer.sender_died


def test_a_receiver_is_given_all_of_a_broadcast_since_then(context):
    answers, there = context.Pipe(False)
    with Channel.create("broadcast", 3, "i8", slots=16, mode="broadcast") as sender:
        given = Channel.open("broadcast")
        process = context.Process(target=work.receive_all, args=(given, there))
        process.start()
        given.close()
        there.close()
        work.send_and_close(sender)
        assert answers.recv() == list(range(work.COUNT))
        process.join()


def test_one_goes_through_a_queue_as_an_end_of_a_pipe_does(context, viewer):
    queue = context.Queue()
    process = context.Process(target=work.send_through_what_comes, args=(queue,))
    process.start()
    sender = Channel.open(viewer.name, receive=False)
    queue.put(sender)
    queue.close()
    queue.join_thread()  # it was pickled
    sender.close()
    assert numbers(viewer) == list(range(work.COUNT))
    process.join()


def test_a_child_that_dies_before_it_has_opened_what_it_was_given_ends_the_stream(viewer):
    context = standard.get_context("spawn")
    sender = Channel.open(viewer.name, receive=False)
    sender.send(np.ones(3, "i8"))
    process = context.Process(target=work.nothing, args=(work.Killer(), sender))
    process.start()
    process.join()
    sender.close()
    assert numbers(viewer) == [1]


@pytest.mark.parametrize(
    "target",
    [work.send, work.send_by_name, work.send_by_a_global, work.send_and_raise],
    ids=lambda target: target.__name__,
)
def test_a_process_that_ends_has_not_died(context, viewer, target):
    by_name = target in {work.send_by_name, work.send_by_a_global}
    process = context.Process(target=target, args=(viewer.name if by_name else viewer,))
    process.start()
    assert numbers(viewer) == [0]
    assert not viewer.sender_died
    process.join()


@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_killed_has_died(viewer, method):
    process = standard.get_context(method).Process(target=work.send_and_die, args=(viewer,))
    process.start()
    assert numbers(viewer) == [0]
    assert viewer.sender_died
    process.join()


def test_a_process_that_exits_at_once_has_not_died_as_long_as_nobody_has_waited_for_it(viewer):
    process = standard.get_context("fork").Process(
        target=work.send_and_exit_at_once, args=(viewer,)
    )
    process.start()
    assert numbers(viewer) == [0]
    assert not viewer.sender_died
    process.join()


@pytest.mark.parametrize("ends", ["", "sys.exit(3)", "1 / 0", "os.kill(os.getpid(), 15)"])
def test_a_program_that_ends_has_died_only_if_it_was_killed(viewer, ends):
    program = (
        "import os, sys, numpy, shmarray\n"
        f"channel = shmarray.Channel.open({viewer.name!r})\n"
        f"channel.send(numpy.zeros(3, 'i8'))\n{ends}"
    )
    subprocess.run([sys.executable, "-c", program], stderr=subprocess.DEVNULL, check=False)
    assert numbers(viewer) == [0]
    assert viewer.sender_died == ("kill" in ends)


def test_a_child_forked_otherwise_joins_at_its_first_use(viewer):
    sender = Channel.open(viewer.name, receive=False)
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            work.send_and_close(sender)
        os._exit(0)
    os.waitpid(child, 0)
    sender.close()
    assert numbers(viewer) == list(range(work.COUNT))
