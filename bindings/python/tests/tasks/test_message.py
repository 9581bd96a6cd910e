"""Messages hold their arrays until they are received, whichever process ends meanwhile."""

import array
import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import shmarray
from processes import interrupted
from shmarray._core import Pipe, SegmentMemory, handle_to_send
from working import listed_arrays, sweep_after_deaths

# In a cell, and in a segment of its own.
SIZES = (8, 100_000)


def marked(size, mark):
    return shmarray.full(size, mark, "u1")


def in_child(part):
    """Runs a part of a test in a forked child, which must exit with 0. Returns its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            part()
            code = 0
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_me():
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_message_arrives_with_its_bytes_and_arrays(files):
    here, there = Pipe.pair()
    a = shmarray.array(np.arange(24, dtype=">i4").reshape(2, 3, 4))
    here.send(b"frame 1", [a, a[:, ::-1, 1], marked(SIZES[1], 7)])
    expected = a.tolist()
    del a
    payload, message = there.receive()
    assert (payload, len(message)) == (b"frame 1", 3)
    whole, view, large = (message.array(index) for index in range(3))
    del message
    assert (whole.tolist(), whole.dtype.str) == (expected, ">i4")
    assert view.tolist() == whole[:, ::-1, 1].tolist()
    assert (large[0], large.shape) == (7, (SIZES[1],))
    assert [(type(array), type(array.base)) for array in (whole, view, large)] == [
        (np.ndarray, SegmentMemory)
    ] * 3
    view[0, 0] = 99
    assert whole[0, 2, 1] == 99
    last = large[5:]
    del whole, view, large
    assert last[0] == 7
    del last
    assert files() == []


def test_a_received_array_may_be_readonly():
    here, there = Pipe.pair()
    a = marked(3, 1)
    here.send(b"", [a])
    b = there.receive()[1].array(0, "r")
    assert not b.flags.writeable
    a[1] = 5
    assert b.tolist() == [1, 5, 1]


@pytest.mark.parametrize("size", [0, 1, 1000, 32_000, 33_000, 5_000_000])
def test_payloads_of_every_size_arrive_whole(size):
    here, there = Pipe.pair()
    payload = bytes(range(251)) * (size // 251) + b"x" * (size % 251)
    here.send(payload, [])
    assert there.receive()[0] == payload


PAYLOADS = {
    "bytearray": bytearray(b"abcd"),
    "memoryview": memoryview(b"abcd"),
    "every second byte": memoryview(b"aXbXcXdX")[::2],
    "array": array.array("H", b"abcd"),
    "ndarray": np.frombuffer(b"abcd", "u1"),
    "pickle buffer": pickle.PickleBuffer(b"abcd"),
}


@pytest.mark.parametrize("payload", PAYLOADS.values(), ids=PAYLOADS)
def test_a_payload_is_anything_like_bytes(payload):
    here, there = Pipe.pair()
    here.send(payload, [])
    assert there.receive()[0] == b"abcd"


def test_a_refused_send_says_why_and_sends_nothing():
    here, there = Pipe.pair()
    a = marked(3, 1)
    refused = [
        (TypeError, "bytes-like", 7.5, [a]),
        (UnicodeEncodeError, "surrogates", "\ud800", [a]),
        (TypeError, "numpy.ndarray", b"", [5]),
        (TypeError, "int", b"", 5),
        (ValueError, "private memory", b"", [a, np.zeros(3)]),
        (TypeError, "object", b"", [np.zeros(3, object)]),
    ]
    for error, words, payload, arrays in refused:
        with pytest.raises(error, match=words):
            here.send(payload, arrays)
    with pytest.raises(ValueError, match="not a number"):
        here.send(b"", [], float("nan"))
    with pytest.raises(TimeoutError):
        there.receive(0)


def test_an_array_that_a_message_has_not_is_an_index_error():
    here, there = Pipe.pair()
    here.send(b"", [marked(3, 1)])
    _, message = there.receive()
    for index in (1, -1, 1 << 40):
        with pytest.raises(IndexError, match=f"no array {index} in a message of 1"):
            message.array(index)
        with pytest.raises(IndexError, match=f"no array {index} in a message of 1"):
            message.read(index)


def test_the_bytes_of_an_array_are_a_copy_in_c_order(lets_others_run):
    here, there = Pipe.pair()
    a = shmarray.share(np.arange(12.0).reshape(3, 4))
    large = shmarray.ones(1 << 20)
    here.send(b"", [a.T[::-1], a[:0], large])
    _, message = there.receive()
    before = shmarray.copied_bytes()
    assert message.read(0) == a.T[::-1].tobytes()
    assert message.read(1) == b""
    assert shmarray.copied_bytes() - before == a.nbytes
    assert lets_others_run(lambda: message.read(2))


def test_an_empty_pipe_and_a_full_one_time_out(files):
    here, there = Pipe.pair()
    for timeout in (0, 0.001, -5):
        with pytest.raises(TimeoutError):
            there.receive(timeout)
    sent = []
    arrays = [marked(SIZES[1], 3)]

    def fill():
        while True:
            sent.append(here.send(b"", arrays, timeout=0.001))

    with pytest.raises(TimeoutError, match="no room"):
        fill()
    assert len(sent) > 50
    arrays.clear()
    for _ in sent:
        there.receive(timeout=float("inf"))
    assert files() == []


def test_closed_ends_are_told():
    here, there = Pipe.pair()
    a = marked(SIZES[1], 3)
    there.send(b"last", [])
    there.close()
    with pytest.raises(BrokenPipeError):
        here.send(b"x", [a])
    assert here.receive()[0] == b"last"
    with pytest.raises(EOFError):
        here.receive()
    for use in (there.fileno, there.receive, lambda: there.send(b"", [])):
        with pytest.raises(OSError, match="closed"):
            use()
    there.close()
    assert listed_arrays()[0].tickets == 0


def test_an_answer_arrives_though_its_sender_left_a_task_unread():
    here, there = Pipe.pair()
    here.send(b"task", [])
    there.send(b"answer", [])
    there.close()
    assert here.receive()[0] == b"answer"
    with pytest.raises(EOFError):
        here.receive()


@pytest.mark.parametrize("size", SIZES)
def test_a_message_holds_though_its_sender_has_ended(size, files):
    here, there = Pipe.pair()
    assert in_child(lambda: there.send(b"", [marked(size, 7)])) == 0
    assert (shmarray.sweep().segments, len(files())) == (0, 1)
    assert [info.tickets for info in listed_arrays()] == [1]
    a = here.receive()[1].array(0)
    assert shmarray.sweep().segments == 0
    assert a.tolist() == [7] * size
    del a
    assert files() == []


@pytest.mark.parametrize("size", SIZES)
def test_a_killed_worker_leaves_nothing(size, files):
    here, there = Pipe.pair()
    here.send(b"", [marked(size, 1)])
    here.send(b"", [marked(size, 2)])

    def work():
        unread = there.receive()
        there.send(b"", [unread[1].array(0), marked(size, 3)])
        kill_me()

    assert in_child(work) == -signal.SIGKILL
    _, answer = here.receive()
    assert [answer.array(0)[0], answer.array(1)[0]] == [1, 3]
    del answer
    _, left = there.receive()  # the worker did not
    assert left.array(0)[0] == 2
    del left
    sweep_after_deaths()
    assert files() == []


def test_unreceivable_messages_are_given_back(files):
    here, there = Pipe.pair()
    for size in SIZES:
        here.send(b"", [marked(size, 1)])
    here.close()
    shmarray.sweep()
    assert len(files()) == 2
    there.close()
    assert (shmarray.sweep().segments, files()) == (2, [])


def test_an_unwanted_message_gives_back_what_it_carried(files):
    here, there = Pipe.pair()
    here.send(b"", [marked(size, 1) for size in SIZES])
    assert there.receive()[0] == b""
    assert files() == []


CHILD = """
import sys, shmarray
from shmarray._core import Pipe
pipe = Pipe.from_fd(int(sys.argv[1]))
payload, message = pipe.receive()
a = message.array(0)
a *= 2
pipe.send(payload.upper(), [a, shmarray.share(a)])
"""


def test_an_end_passes_to_another_program_by_its_fd():
    here, there = Pipe.pair()
    assert not os.get_inheritable(there.fileno())
    command = [sys.executable, "-W", "error", "-c", CHILD, str(there.fileno())]
    child = subprocess.Popen(command, pass_fds=[there.fileno()])
    there.close()
    a = marked(3, 21)
    here.send(b"twice", [a])
    payload, message = here.receive()
    assert (payload, message.array(1).tolist()) == (b"TWICE", [42] * 3)
    assert child.wait() == 0
    assert a.tolist() == [42] * 3
    with pytest.raises(EOFError):
        here.receive()


def test_an_fd_that_is_not_a_pipe_is_refused_and_stays_open():
    ours, theirs = os.pipe()
    with pytest.raises(ValueError, match="not an end of a pipe"):
        Pipe.from_fd(ours)
    os.close(ours)
    os.close(theirs)
    with pytest.raises(OSError, match="Bad file descriptor"):
        Pipe.from_fd(ours)
    with pytest.raises(ValueError, match="-1 is negative"):
        Pipe.from_fd(-1)


@contextlib.contextmanager
def alarms(handler):
    """Sends SIGALRM every millisecond, so that one comes during a wait."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_wait_goes_on_after_a_signal_whose_handler_returns():
    here, there = Pipe.pair()
    seen = []

    def handler(*_):
        seen.append(1)
        if len(seen) == 3:
            there.send(b"late", [])

    with alarms(handler):
        assert here.receive()[0] == b"late"
        with pytest.raises(TimeoutError):
            here.receive(timeout=0.02)
    assert len(seen) >= 3


def test_a_handler_that_raises_ends_a_wait():
    here, _there = Pipe.pair()

    def handler(*_):
        raise InterruptedError

    with pytest.raises(InterruptedError), alarms(handler):
        here.receive()


INTERRUPTED = """
from shmarray._core import Pipe
here, there = Pipe.pair()
try:
    print("waiting", flush=True)
    here.receive()
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_wait():
    assert interrupted(INTERRUPTED) == ("interrupted\n", 0)


def test_other_threads_run_while_one_waits():
    here, there = Pipe.pair()
    answers = []

    def answer():
        while (received := there.receive())[0]:
            there.send(received[0], [received[1].array(0)])

    threads = [threading.Thread(target=answer) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(200):
        here.send(b"%d" % number, [marked(8, number)])
        payload, message = here.receive()
        answers.append((int(payload), int(message.array(0)[0])))
    for _ in threads:
        here.send(b"", [])
    for thread in threads:
        thread.join()
    assert answers == [(number, number) for number in range(200)]


def test_closing_an_end_while_a_thread_waits_there_takes_nothing_from_it():
    here, there = Pipe.pair()
    waiting = threading.Event()
    got = []

    def wait():
        waiting.set()
        got.append(there.receive()[0])

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    here.send(b"still", [])
    there.close()
    thread.join()
    assert got in ([b"still"], [])  # it may have been closed before the thread began to wait


def test_a_handle_to_send_holds_until_it_is_attached_or_discarded(files, peer):
    for size in SIZES:
        a = marked(size, 4)
        first = handle_to_send(a)
        second = handle_to_send(a[1:3])
        assert first != second
        assert pickle.loads(pickle.dumps(second)) == second
        assert '"ticket":' in str(first)
        del a
        assert shmarray.sweep().segments == 0
        assert peer.run("answer = shmarray.attach(text).tolist()", text=str(second)) == [4, 4]
        shmarray.discard(first)
        shmarray.discard(str(first))
        gc.collect()
        assert files() == []
        with pytest.raises(FileNotFoundError):
            shmarray.attach(first)


def test_discard_takes_nothing_from_those_who_hold_and_refuses_what_is_no_handle():
    a = marked(3, 4)
    shmarray.discard(shmarray.handle(a))
    assert a.tolist() == [4] * 3
    for wrong, error in (
        ("a name", ValueError),
        ("{}", ValueError),
        (5, TypeError),
        (b"", ValueError),
    ):
        with pytest.raises(error):
            shmarray.discard(wrong)
    with pytest.raises(ValueError, match="private"):
        handle_to_send(np.zeros(3))


def test_segments_says_who_holds():
    here, there = Pipe.pair()
    a = shmarray.zeros(3, name="kept", persist=True)
    here.send(b"", [a])
    info = shmarray.segments()[0]
    assert (info.holders, info.tickets, info.persists) == ((os.getpid(),), 1, True)
    shmarray.unlink("kept")
    assert not shmarray.segments()[0].persists
    # An array that only an unread message of a closed pipe holds would wait for a sweep.
    there.receive()
