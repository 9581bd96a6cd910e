"""Channels: loans and deliveries, streams, event loops, forks, deaths and bad input."""

import contextlib
import inspect
import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

import shmarray
from processes import Peer
from shmarray import Channel
from working import sweep_after_deaths

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has channels")


def numbers(**options):
    return Channel.create("numbers", 2, "i4", **options)


def received(channel, timeout=None):
    with channel.receive(timeout) as a:
        assert a[0] == a[1], "a torn message"
        return int(a[0])


def send(channel, number, **options):
    channel.send(np.array([number, number], "i4"), **options)


def test_a_loan_becomes_a_message_and_a_message_a_delivery():
    sends = Channel.create("frames", (2, 3), "f4", slots=2)
    receives = Channel.open("frames")
    before = time.time_ns()
    with sends.loan(meta=b"left") as frame:
        assert type(frame) is np.ndarray
        assert (frame.shape, frame.dtype, frame.flags.writeable) == ((2, 3), np.dtype("f4"), True)
        frame[:] = np.arange(6).reshape(2, 3)
    with receives.receive_message() as message:
        assert type(message.array) is np.ndarray
        assert message.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (message.sequence, message.meta, message.missed) == (0, b"left", 0)
    assert before <= message.time_ns <= time.time_ns()
    assert (receives.name, receives.shape, receives.mode, receives.slots) == (
        "frames",
        (2, 3),
        "queue",
        2,
    )


def test_a_loan_whose_body_raises_is_given_back_and_nobody_receives_it():
    channel = numbers(slots=1)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError), channel.loan() as a:
            a[0] = 1 / 0
    assert not channel.poll()
    send(channel, 3, timeout=0)
    assert received(channel) == 3


def test_an_array_is_empty_and_readonly_after_its_with():
    channel = Channel.create("frames", (2, 3), "i4", slots=1)
    with channel.loan() as loan:
        loan[:] = 1
    with channel.receive() as received:
        pass
    channel.send(np.ones((2, 3), "i4"))
    with channel.receive_message() as message:
        of_message = message.array
    assert message.array is of_message
    for array in (loan, received, of_message):
        assert (array.shape, array.tolist(), array.flags.writeable) == ((0, 0), [], False)
        with pytest.raises(IndexError):
            array[0, 0]
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 2
    for what in (message.keep, message.copy):
        with pytest.raises(ValueError, match="given back"):
            what()


def test_an_array_without_dimensions_is_readonly_after_its_with():
    channel = Channel.create("number", (), "i4", slots=1)
    with channel.loan() as loan:
        loan[()] = 1
    with pytest.raises(ValueError, match="read-only"):
        loan[()] = 2


def test_views_of_a_received_array_keep_its_slot_and_the_last_gives_it_back():
    channel = numbers(slots=1)
    for ends in ("with", "loop", "close"):
        send(channel, 7)
        if ends == "with":
            with channel.receive() as a:
                views = [a[1:], a[::-1].view("u4")]
        elif ends == "loop":
            for a in channel:
                views = [a[1:], a[::-1].view("u4")]
                break
            del a
        else:
            with channel.receive() as a:
                views = [a[1:], a[::-1].view("u4")]
                channel.close()
            assert [view.tolist() for view in views] == [[7], [7, 7]]
            break
        with pytest.raises(TimeoutError):
            send(channel, 8, timeout=0)
        del views[0]
        with pytest.raises(TimeoutError):
            send(channel, 8, timeout=0)
        assert views[0].tolist() == [7, 7]
        del views[0]
        send(channel, 8, timeout=0)
        assert received(channel) == 8


def test_a_kept_array_keeps_its_slot_and_a_copy_does_not():
    channel = numbers(slots=2)
    send(channel, 7)
    with channel.receive_message() as message:
        copy, kept = message.copy(), message.keep()
    assert kept is message.array
    send(channel, 8, timeout=0)
    with pytest.raises(TimeoutError):
        send(channel, 9, timeout=0)
    assert (copy.tolist(), kept.tolist(), kept.flags.writeable) == ([7, 7], [7, 7], True)
    del kept, message
    send(channel, 9, timeout=0)
    assert [received(channel), received(channel), copy.tolist()] == [8, 9, [7, 7]]


def test_threads_that_share_a_channel_have_the_metadata_of_their_own_messages():
    channel = numbers(slots=8)
    sends = Channel.open("numbers")
    numbers_seen = []

    def receive():
        for message in channel.messages():
            time.sleep(0)  # another thread receives meanwhile
            numbers_seen.append((int(message.array[0]), int(message.meta), message.sequence))

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(1000):
        send(sends, number, meta=str(number).encode())
    sends.close()
    for thread in threads:
        thread.join()
    assert sorted(numbers_seen) == [(number, number, number) for number in range(1000)]


@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_what_is_done_to_the_array_of_a_message_does_not_reach_the_next_in_its_slot():
    channel = numbers(slots=1)
    arrays = []
    for number in range(4):
        with channel.loan() as a:
            assert (a.shape, a.dtype) == ((2,), np.int32)
            a[...] = number
            a.shape = (2, 1)
            arrays.append(a)
        with channel.receive() as a:
            assert a.flags.writeable
            assert a.tolist() == [number] * 2
            a.dtype = np.uint8
            arrays.append(a)
    assert len({id(a) for a in arrays}) == 8
    assert not any(a.flags.writeable for a in arrays)


def test_a_view_of_a_loan_that_outlives_it_writes_to_no_message():
    channel = numbers(slots=3)
    with channel.loan(meta=b"first") as a:
        view = a[:1]
        a[:] = 1
    view[0] = 9  # its slot is no message's
    with channel.receive_message() as message:
        assert (message.array.tolist(), message.meta, message.sequence) == ([1, 1], b"first", 0)
        view[0] = 8
        assert message.array.tolist() == [1, 1]
    for number in range(10):
        send(channel, number)
        view[0] = 7
        assert received(channel) == number
    for _ in range(2):  # the view has the third slot
        send(channel, 0, timeout=0)
    with pytest.raises(TimeoutError):
        send(channel, 0, timeout=0)
    del view
    send(channel, 0, timeout=0)


def test_a_view_of_a_loan_whose_body_raises_writes_to_no_message():
    channel = numbers(slots=2)
    views = []

    def look_and_raise():
        with channel.loan() as a:
            views.append(a[:1])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        look_and_raise()
    [view] = views
    send(channel, 3)
    view[0] = 9
    assert received(channel) == 3


def test_a_loan_with_views_is_not_published_if_there_is_no_slot_for_a_copy():
    channel = numbers(slots=1)
    with pytest.raises(ValueError, match="views of the loan"), channel.loan() as a:
        view = a.ravel()
    assert not channel.poll()
    assert view.size == 2
    del view
    send(channel, 4, timeout=0)
    assert received(channel) == 4


@pytest.mark.parametrize("slots", [1, 3])
def test_an_array_that_the_program_still_has_stays_empty(slots):
    channel = numbers(slots=slots)
    kept = []
    for number in range(5):
        for attempt in (channel.loan, channel.receive):
            with attempt() as a:
                a[:] = number
                if number % 2:
                    kept.append(a)
    send(channel, 7)
    with channel.receive() as a:
        assert a.tolist() == [7, 7]
        assert [(one.shape, one.flags.writeable) for one in kept] == [((0,), False)] * 4
        assert all(one is not a for one in kept)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: setattr(a, "shape", (2, 1)),
        lambda a: setattr(a, "dtype", "u4"),
        lambda a: a.setflags(write=False),
        lambda a: memoryview(a),
    ],
)
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_what_is_changed_of_an_array_is_as_it_was_in_later_messages(change):
    channel = numbers(slots=1)
    for number in range(6):
        with channel.loan() as a:
            assert (a.shape, a.strides, a.dtype, a.flags.writeable) == ((2,), (4,), "i4", True)
            a[:] = number
            change(a)
        with channel.receive() as a:
            assert a.tolist() == [number, number]
            change(a)


def test_an_array_of_a_slot_reaches_no_other_slot():
    channel = numbers(slots=3)
    for number in range(3):
        send(channel, number)
    with channel.receive() as _, channel.receive() as second:
        assert memoryview(second.base.base).nbytes == 64  # a slot, filled up to 64 bytes
        assert not shmarray.is_shared(second)


def test_a_stream_ends_after_what_was_sent():
    sends = numbers()
    receives = Channel.open("numbers")
    for number in range(5):
        send(sends, number)
    sends.close()
    assert [int(a[0]) for a in receives] == [0, 1, 2, 3, 4]
    with pytest.raises(EOFError, match="closed"), receives.receive():
        pass


def test_each_receiver_of_a_broadcast_sees_each_message_and_is_told_what_it_missed():
    sends = numbers(mode="broadcast", slots=2, when_full="drop_oldest")
    quick = Channel.open("numbers")
    slow = Channel.open("numbers")
    late = Channel.open("numbers", receive=False)
    for number in range(5):
        send(sends, number)
        assert received(quick) == number
    with slow.receive_message() as message:
        assert (message.array[0], message.missed) == (3, 3)
    with pytest.raises(TimeoutError):
        received(late, timeout=0)
    send(sends, 9)
    assert received(late) == 9


def test_one_that_opens_a_broadcast_late_has_its_history():
    sends = numbers(mode="broadcast")
    for number in range(5):
        send(sends, number)
    late = Channel.open("numbers", history=2)
    with pytest.raises(ValueError, match="history"):
        Channel.open("numbers", history=2, receive=False)
    sends.close()
    assert [(int(m.array[0]), m.missed) for m in late.messages()] == [(3, 0), (4, 0)]


@pytest.mark.parametrize("mode", ["queue", "latest"])
def test_what_is_no_broadcast_has_no_history(mode):
    channel = numbers(mode=mode)
    with pytest.raises(ValueError, match="history"):
        Channel.open(channel.name, history=1)


def test_the_latest_value_is_read_as_often_as_one_likes():
    sends = numbers(mode="latest", slots=3)
    reads = Channel.open("numbers")
    assert not reads.wait_newer(timeout=0)
    for number in range(4):
        send(sends, number, timeout=0)
    kept = []
    for _ in range(3):  # one lies in its slot, the others are copies
        with reads.receive_message() as message:
            kept.append(message.keep())
            assert (message.sequence, int(message.array[0])) == (3, 3)
            assert 0 <= message.age < 3600
    assert not reads.wait_newer(3, 0.01)
    assert not reads.poll()
    for number in range(4, 10):
        send(sends, number, timeout=0)
    assert reads.wait_newer(3)
    assert reads.poll()
    assert [a.tolist() for a in kept] == [[3, 3]] * 3
    sends.close()
    assert [(int(m.array[0]), m.missed) for m in reads.messages()] == [(9, 5)]
    assert received(reads) == 9
    with pytest.raises(EOFError):
        reads.wait_newer(9)
    assert not reads.sender_died


def test_iterations_over_the_latest_value_have_each_that_is_newer():
    sends = numbers(mode="latest")
    reads = Channel.open("numbers")
    send(sends, 0)
    seen = []
    for one, other in zip(reads, reads.messages(), strict=True):
        assert one[0] == other.array[0] == len(seen)
        seen.append(int(one[0]))
        if len(seen) == 5:
            break
        send(sends, len(seen))
    assert seen == [0, 1, 2, 3, 4]


READ_LATEST = """
import shmarray
reads = shmarray.Channel.open("frames")
print('"opened"', flush=True)
last = -1
for message in reads.messages():
    values = message.array
    assert (values == values[0, 0]).all(), "a torn value"
    assert message.sequence > last
    last = message.sequence
print(last, flush=True)
"""


def test_readers_of_the_latest_value_see_it_whole_and_delay_no_sender(start_python):
    sends = Channel.create("frames", (480, 640), "i4", mode="latest", slots=4)
    readers = [start_python(READ_LATEST) for _ in range(2)]
    assert [reader.hear() for reader in readers] == ["opened"] * 2
    kept = Channel.open("frames")
    views = []
    for number in range(300):
        with sends.loan(timeout=0) as frame:
            frame[:] = number
        if number < 3:
            with kept.receive_message() as message:
                views.append(message.keep())
    sends.close()
    assert [reader.hear() for reader in readers] == [299] * 2
    assert [(v == number).all() for number, v in enumerate(views)] == [True] * 3


def test_full_channels_wait_or_raise():
    waits = numbers(slots=1)
    send(waits, 1)
    for attempt in (lambda: send(waits, 2, timeout=0.01), lambda: waits.loan(0).__enter__()):
        with pytest.raises(TimeoutError):
            attempt()
    raises = Channel.create("other", 2, "i4", slots=1, when_full="error")
    send(raises, 1)
    with pytest.raises(shmarray.Full):
        send(raises, 2)
    assert issubclass(shmarray.Full, shmarray.Error)


def test_shapes_vary_up_to_the_channels():
    channel = Channel.create("images", (4, 5), "u1", varying=True)
    for shape in [(4, 5), (2, 3), (), (0, 7), (20,)]:
        with channel.loan(shape=shape) as a:
            assert a.shape == shape
        with channel.receive() as a:
            assert a.shape == shape
    channel.send(np.ones((3, 2), "u1"))
    with channel.receive() as a:
        assert a.sum() == 6
    for shape in [(5, 5), (21,), (1,) * 9]:
        with pytest.raises(ValueError, match="shape"), channel.loan(shape=shape):
            pass


def test_any_strides_and_dtypes_are_sent():
    channel = Channel.create("images", (3, 2), "i8")
    whole = np.arange(24).reshape(4, 6)
    for part in (
        whole[:3, :2],
        whole[::-1][:3, ::3],
        whole.T[:3, :2],
        np.asfortranarray(whole)[:3, :2],
    ):
        channel.send(part)
        with channel.receive() as a:
            np.testing.assert_array_equal(a, part)
    record = np.dtype([("x", "<f8"), ("name", "S5"), ("when", "<M8[ns]")])
    structured = Channel.create("records", 2, record)
    structured.send(np.array([(1.5, b"one", 7), (2.5, b"two", 8)], record))
    with structured.receive() as a:
        assert a.dtype == record
        assert a["name"].tolist() == [b"one", b"two"]


def test_arrays_that_lie_elsewhere_are_held_by_their_messages():
    channel = Channel.create_by_handle("arrays")
    assert (channel.shape, channel.dtype) == (None, None)
    a = shmarray.zeros((100, 100))
    channel.send(a[10:20])
    channel.send(np.arange(7))
    del a
    with channel.receive() as first, channel.receive() as second:
        assert first.shape == (10, 100)
        assert second.tolist() == list(range(7))
        first[0, 0] = 4
    assert first[0, 0] == 4
    assert first.flags.writeable
    with pytest.raises(ValueError, match="handles"), channel.loan():
        pass


def test_the_fd_and_poll():
    sends = numbers()
    receives = Channel.open("numbers")
    fd = receives.fileno()
    assert not select.select([receives], [], [], 0)[0]
    assert not receives.poll()
    assert not receives.poll(0.01)
    send(sends, 1)
    assert select.select([fd], [], [])[0]
    assert receives.poll(None)
    assert received(receives) == 1
    assert not select.select([fd], [], [], 0)[0]
    sends.close()
    assert select.select([fd], [], [])[0]
    assert receives.poll(None)


def test_the_array_of_an_iteration_that_was_left_keeps_its_slot():
    channel = numbers(slots=1)
    send(channel, 7)
    for a in channel:
        part = a[1:]
        break
    del a
    with pytest.raises(TimeoutError):
        send(channel, 8, timeout=0)
    assert part.tolist() == [7]
    del part
    send(channel, 8, timeout=0)


def test_other_threads_run_while_one_waits():
    sends = numbers()
    receives = Channel.open("numbers")
    got = []
    thread = threading.Thread(target=lambda: got.append(received(receives)))
    thread.start()
    send(sends, 5)
    thread.join()
    assert got == [5]


def interrupted(call):
    """A program that waits in a call, is sent SIGINT, and says what came of it."""
    text = f"""
        import numpy as np, os, shmarray, sys
        channel = shmarray.Channel.create("numbers", 2, "i4", slots=1)
        full = shmarray.Channel.create("full", 2, "i4", slots=1)
        full.send(np.zeros(2, "i4"))
        print("waits", flush=True)
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(text)], stdout=subprocess.PIPE, text=True
    )


def sleeps(pid):
    """Whether a process waits in a call."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


@pytest.mark.parametrize(
    "call",
    [
        "channel.receive().__enter__()",
        "full.loan().__enter__()",
        "full.send(np.zeros(2, 'i4'))",
        "channel.poll(None)",
        "next(iter(channel))",
        "shmarray.Channel.open('nothing', timeout=None)",
    ],
)
def test_ctrl_c_works_in_every_wait(call):
    with interrupted(call) as program:
        assert program.stdout.readline() == "waits\n"
        while not sleeps(program.pid):
            pass
        program.send_signal(signal.SIGINT)
        assert program.stdout.readline() == "interrupted\n"


def echo(requests, answers):
    for a in requests:
        answers.send(a * 2)
    answers.close()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_gets_its_channels_as_arguments(method):
    context = multiprocessing.get_context(method)
    requests = numbers()
    answers = Channel.create("answers", 2, "i4")
    worker = context.Process(target=echo, args=(requests, answers))
    worker.start()
    for number in range(20):
        send(requests, number)
        assert received(answers) == 2 * number
    requests.close()
    worker.join()
    assert worker.exitcode == 0
    with pytest.raises(EOFError):
        received(answers)
    shmarray.sweep()  # a worker of multiprocessing ends by os._exit


def test_a_killed_process_costs_the_others_nothing():
    for mode in ("queue", "broadcast"):
        with numbers(slots=1, mode=mode) as channel:
            dead = Peer()
            dead.run("loan = shmarray.Channel.open('numbers').loan(); loan.__enter__()")
            with pytest.raises(TimeoutError):
                send(channel, 1, timeout=0)
            dead.kill()
            send(channel, 2)
            if mode == "queue":
                assert received(channel) == 2


def test_a_dead_sender_is_told_apart_from_one_that_closed():
    receives = numbers()
    dead = Peer()
    dead.run("channel = shmarray.Channel.open('numbers'); channel.send(np.ones(2, 'i4'))")
    dead.kill()
    assert received(receives) == 1
    assert not receives.sender_died
    assert list(receives) == []
    assert receives.sender_died
    with pytest.raises(EOFError, match="died"):
        received(receives)
    send(Channel.open("numbers"), 2)
    assert received(receives) == 2
    assert list(receives) == []
    assert not receives.sender_died


def test_an_exit_without_a_close_is_one(peer):
    receives = numbers()
    peer.run("channel = shmarray.Channel.open('numbers'); channel.send(np.ones(2, 'i4'))")
    peer.leave()
    assert received(receives) == 1
    with pytest.raises(EOFError, match="closed"):
        received(receives)


def test_a_copy_of_a_pickle_opens_the_same_channel():
    channel = numbers()
    other = pickle.loads(pickle.dumps(channel))
    send(channel, 4)
    assert received(other) == 4
    assert repr(other) == "<shmarray.Channel 'numbers'>"


def test_one_waits_for_a_channel_that_is_not_there_yet():
    with pytest.raises(FileNotFoundError):
        Channel.open("numbers")
    with pytest.raises(TimeoutError):
        Channel.open("numbers", timeout=0.01)
    opened = []
    thread = threading.Thread(target=lambda: opened.append(Channel.open("numbers", timeout=None)))
    thread.start()
    channel = numbers()
    thread.join()
    send(channel, 8)
    assert received(opened.pop()) == 8


def test_exist_ok_and_persist():
    first = numbers(exist_ok=True)
    second = numbers(exist_ok=True)
    send(first, 1)
    assert received(second) == 1
    with pytest.raises(FileExistsError):
        numbers()
    with pytest.raises(ValueError, match="slots"):
        numbers(exist_ok=True, slots=3)
    with pytest.raises(ValueError, match="ends"):
        numbers(exist_ok=True, ends=5)
    lasting = Channel.create("lasting", 2, "i4", persist=True)
    send(lasting, 6)
    del lasting
    assert received(Channel.open("lasting")) == 6
    shmarray.unlink("lasting")
    assert [info.kind for info in shmarray.segments()] == ["channel"]


@pytest.mark.parametrize(
    ("attempt", "error", "message"),
    [
        (lambda: Channel.create("b c", 2, "i4"), ValueError, "b c"),
        (lambda: Channel.create("b", -1, "i4"), ValueError, "shape"),
        (lambda: Channel.create("b", "x", "i4"), TypeError, "integer"),
        (lambda: Channel.create("b", 2, object), TypeError, "object"),
        (lambda: Channel.create("b", 2, "i4", slots=0), ValueError, "slots"),
        (lambda: Channel.create("b", 2, "i4", slots=-1), ValueError, "slots"),
        (lambda: Channel.create("b", 2, "i4", ends=5000), ValueError, "ends"),
        (lambda: Channel.create("b", 2, "i4", mode="other"), ValueError, "mode"),
        (lambda: Channel.create("b", 2, "i4", mode="latest", slots=2), ValueError, "at least 3"),
        (lambda: Channel.create_by_handle("b", mode="latest"), ValueError, "mode"),
        (lambda: Channel.create("b", 2, "i4").wait_newer(), ValueError, "no latest value"),
        (lambda: Channel.open("b", history=-1), ValueError, "history"),
        (lambda: Channel.open("b", history="x"), TypeError, "integer"),
        (lambda: Channel.create("b", 2, "i4", when_full="x"), ValueError, "when_full"),
        (lambda: Channel.create("b", 2, "i4", file_mode=0o644), ValueError, "file_mode"),
        (lambda: Channel.create("b", 1 << 50, "i4"), (MemoryError, OSError), "bytes asked"),
        (lambda: Channel("b"), TypeError, "Channel.create"),
        (lambda: Channel.open(7), TypeError, "str"),
    ],
)
def test_arguments_that_no_channel_can_have(attempt, error, message):
    with pytest.raises(error, match=message):
        attempt()


def test_arrays_that_do_not_fit_are_refused_and_nothing_is_lost():
    channel = numbers(slots=1)
    with pytest.raises(TypeError, match="<f8"):
        channel.send(np.zeros(2))
    with pytest.raises(ValueError, match="shape"):
        channel.send(np.zeros(3, "i4"))
    with pytest.raises(TypeError, match="ndarray"):
        channel.send([1, 2])
    with pytest.raises(ValueError, match="65 bytes"):
        send(channel, 1, meta=b"m" * 65)
    with pytest.raises(ValueError, match="65 bytes"):
        channel.loan(meta=b"m" * 65)
    with pytest.raises(ValueError, match="timeout"):
        received(channel, float("nan"))
    send(channel, 1, timeout=0, meta=b"m" * 64)
    assert received(channel) == 1
    channel.close()
    for attempt in (lambda: send(channel, 1), lambda: received(channel), channel.poll):
        with pytest.raises(ValueError, match="closed"):
            attempt()
    channel.close()
    _array = shmarray.zeros(3, name="array")
    with pytest.raises(ValueError, match="an array's"):
        Channel.open("array")
    _other = Channel.create("other", 2, "i4")
    with pytest.raises(ValueError, match="channel"):
        shmarray.attach("other")


def test_a_channel_that_finds_no_room_is_told_so_and_leaves_nothing(small_tmpfs):
    small_tmpfs("size=64m")  # as in a container
    with pytest.raises(MemoryError, match="shm-size"):
        Channel.create("frames", (6000, 1000), "u1", slots=100)
    channel = Channel.create("frames", (100, 100), "u1", slots=4)
    channel.send(np.ones((100, 100), "u1"))
    with channel.receive() as a:
        assert a.sum() == 10_000


@pytest.mark.skipif(os.geteuid() != 0, reason="it needs root, to become another user")
def test_another_user_follows_a_broadcast(directory):
    os.chmod(directory, 0o1777)
    channel = numbers(mode="broadcast", slots=2, file_mode=0o644)
    ready = os.pipe()
    go = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(64322)
        os.setuid(64322)
        follower = Channel.open("numbers")
        os.write(ready[1], b"r")
        os.read(go[0], 1)
        with follower.receive_message() as message:
            ok = follower.is_follower and message.array[0] == 4 and message.missed == 3
        del message  # with its copy, which `_exit` would leave
        try:
            send(follower, 1)
        except PermissionError:
            os._exit(0 if ok else 1)
        os._exit(2)
    os.read(ready[0], 1)
    for number in range(1, 6):
        send(channel, number)
    os.write(go[1], b"g")
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("mode", ["queue", "broadcast"])
def test_a_sender_that_has_waited_is_told_who_has_the_slots(mode):
    channel = Channel.create("numbers", 2, "i4", slots=3, mode=mode)
    sender = Channel.open("numbers", receive=False)
    channel.poll()  # it receives from now on
    for number in range(2):
        sender.send(np.full(2, number, "i4"))
    with channel.receive() as a:
        kept = a[:1]
    loan = sender.loan()
    loan.__enter__()
    mine = f"process {os.getpid()} has 1 "
    waits = "1 wait for a receiver" if mode == "queue" else f"{mine}received and 1 to receive"
    with pytest.raises(TimeoutError) as said:
        sender.send(np.zeros(2, "i4"), timeout=0.01)
    for part in (f"{mine}on loan", f"{mine}received", waits):
        assert part in str(said.value)
    with pytest.raises(TimeoutError, match=r"in that time$"):
        sender.send(np.zeros(2, "i4"), timeout=0)
    loan.__exit__(ValueError, None, None)
    del kept


@pytest.mark.parametrize("way", ["with", "stack", "by hand", "of the class"])
def test_a_context_manager_is_entered_and_left_by_every_way(way):
    channel = numbers(slots=2)
    other = Channel.open("numbers")

    def run(context, body):
        assert isinstance(context, contextlib.AbstractContextManager)
        if way == "with":
            with context as entered:
                return body(entered)
        if way == "stack":
            with contextlib.ExitStack() as stack:
                return body(stack.enter_context(context))
        if way == "by hand":
            result = body(context.__enter__())
            assert context.__exit__(None, None, None) is None
            return result
        result = body(type(context).__enter__(context))
        assert type(context).__exit__(context, None, None, None) is None
        return result

    for number in range(5):  # with two slots: each is given back
        run(channel.loan(meta=b"left"), lambda a, number=number: a.fill(number))
        receive, body = (
            (other.receive, lambda a: a.tolist())
            if number % 2
            else (other.receive_message, lambda message: message.array.tolist())
        )
        assert run(receive(), body) == [number, number]


def test_a_context_manager_refuses_what_is_no_call_of_a_with():
    channel = numbers()
    send(channel, 1)
    for context in channel.loan(), channel.receive(), channel.receive_message():
        enter, leave = type(context).__enter__, type(context).__exit__
        assert (enter.__name__, leave.__name__) == ("__enter__", "__exit__")
        for refused in (
            lambda enter=enter: enter(),
            lambda enter=enter: enter(channel),
            lambda leave=leave: leave(3, None, None, None),
            lambda context=context: context.__exit__(None, None, None, None),
            lambda context=context: context.__exit__(type=None),
            lambda context=context: type(context)(),
        ):
            with pytest.raises(TypeError):
                refused()
        assert context.__exit__(None, None, None) is None  # it was not entered
        with context, pytest.raises(RuntimeError, match="entered already"):
            context.__enter__()


def test_context_managers_that_are_not_entered_or_not_left_keep_no_channel():
    channel = numbers(slots=2)
    other = Channel.open("numbers")
    send(other, 1)
    contexts = [channel.loan(), channel.receive(), channel.receive_message()]
    contexts += [channel.loan(0), channel.receive(timeout=0)]
    entered = [context.__enter__() for context in contexts[-2:]]
    with pytest.raises(TimeoutError):
        send(other, 2, timeout=0)
    gone = weakref.ref(channel)
    del contexts, channel
    assert gone() is None
    assert len(entered) == 2
    for number in range(4):  # the two slots are free again
        send(other, number, timeout=0)
        assert received(other, 0) == number


def test_the_methods_of_messages_take_their_arguments_as_those_of_python_do():
    channel = numbers(slots=2)
    signature = inspect.signature(channel.loan)
    assert str(signature) == "(timeout=None, *, shape=None, meta=None)"
    assert str(inspect.signature(channel.receive)) == "(timeout=None)"
    assert Channel.receive_message.__qualname__ == "Channel.receive_message"
    assert "the next message" in Channel.receive_message.__doc__
    for wrong, says in (
        (lambda: channel.loan(0, (2,)), "without a name"),
        (lambda: channel.loan(0, timeout=0), "multiple values for argument 'timeout'"),
        (lambda: channel.receive(wait=1), "unexpected keyword argument 'wait'"),
        (lambda: channel.receive("1"), "real number"),
        (lambda: channel.loan(meta="left"), "str"),
        (lambda: channel.loan(shape=2), "."),
        (lambda: Channel.poll(), "."),
        (lambda: Channel.poll(3), "."),
        (lambda: shmarray._core.give_methods(dict), "no class of channels"),
    ):
        with pytest.raises(TypeError, match=says):
            wrong()
    for timeout in (0, 0.0, None, True):
        with channel.loan(timeout, shape=None, meta=None) as a:
            a[:] = 3
        assert channel.poll(timeout) is True
        with channel.receive(timeout=timeout) as a:
            assert a.tolist() == [3, 3]
    assert channel.poll() is False


def test_a_class_derived_from_channel_has_its_methods_and_may_replace_them():
    class Counting(Channel):
        loans = 0

        def loan(self, *arguments, **named):
            self.loans += 1
            return super().loan(*arguments, **named)

    channel = Counting.create("numbers", 2, "i4")
    for number in range(20):
        with channel.loan(meta=b"left") as a:
            a[:] = number
        assert received(channel, 0) == number
    assert channel.loans == 20


SENDER_WITHOUT_RECEIVER = """
import shmarray

camera = shmarray.Channel.create("frames", (4,), "f4", slots=4)
viewer = shmarray.Channel.open("frames")
for _ in range(5):
    with camera.loan():
        pass
"""


def test_a_sender_that_waits_for_nobody_says_so():
    program = subprocess.Popen(
        [sys.executable, "-c", SENDER_WITHOUT_RECEIVER], stderr=subprocess.PIPE, text=True
    )
    with program:
        said = program.stderr.readline()
        program.kill()
    sweep_after_deaths()
    assert 'the channel "frames": all 4 are taken, and nobody receives' in said
    assert "when_full=drop_oldest" in said
