"""Connections carry arrays by handle, bytes and fds, and fail as the standard ones do."""

import contextlib
import errno
import multiprocessing.connection
import os
import pickle
import socket
import threading
import types

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from process_work import arrays, as_pickled, assert_same
from shmarray.multiprocessing import connection
from shmarray.multiprocessing.connection import Connection, wait
from shmarray.multiprocessing.reduction import ForkingPickler


def test_arrays_of_every_kind_arrive():
    here, there = mp.Pipe()
    sent = arrays()
    here.send(sent)
    received = there.recv()
    assert received.keys() == sent.keys()
    for name in sent:
        assert_same(received[name], as_pickled(sent[name]))


@pytest.mark.parametrize("dtype", ["f8", ">f8", "g", "?", "M8[s]", "S8", "U2"])
def test_a_private_array_of_any_dtype_is_copied_once(dtype):
    here, there = mp.Pipe()
    array = np.zeros(2 << 20, dtype)
    before = shmarray.copied_bytes()
    here.send(array)
    assert shmarray.copied_bytes() - before == array.nbytes
    assert (there.recv() == array).all()


def test_shared_arrays_are_not_copied_and_private_ones_stay_private(files):
    here, there = mp.Pipe()
    shared = shmarray.zeros(50_000)
    private = np.zeros(50_000)
    before = shmarray.copied_bytes()
    here.send((shared[::2], shared))
    assert shmarray.copied_bytes() == before
    view, whole = there.recv()
    view[3] = 7
    assert (shared[6], whole[6]) == (7, 7)
    here.send(private)
    copy = there.recv()
    copy[0] = 7
    assert private[0] == 0
    assert not shmarray.is_shared(private)
    del shared, view, whole, copy
    assert files() == []


@pytest.mark.parametrize("size", [0, 1, 1000, 32 << 10, (32 << 10) + 1, 10_000_000])
def test_bytes_of_every_size_arrive(size):
    here, there = mp.Pipe()
    data = os.urandom(size)
    here.send_bytes(data)
    assert there.recv_bytes() == data
    here.send_bytes(data, size // 3)
    room = bytearray(size + 5)
    assert there.recv_bytes_into(room, 5) == size - size // 3
    assert room[5 : 5 + size - size // 3] == data[size // 3 :]


def test_bytes_and_objects_may_follow_one_another_and_be_taken_for_one_another():
    here, there = mp.Pipe()
    value = {"x": np.arange(20_000), "y": "text"}
    here.send(value)
    here.send_bytes(b"bytes")
    here.send(value)
    here.send_bytes(ForkingPickler.dumps(value))
    assert there.recv()["y"] == "text"
    assert there.recv_bytes() == b"bytes"
    assert pickle.loads(there.recv_bytes())["x"].tolist() == list(range(20_000))
    assert there.recv()["x"].tolist() == list(range(20_000))


def test_an_array_alone_may_be_taken_for_bytes():
    here, there = mp.Pipe()
    whole = shmarray.array(np.arange(24).reshape(4, 6))
    protected = shmarray.attach(shmarray.handle(whole), readonly=True)
    for array in (
        whole,
        whole[::2, 1:],
        whole.T,
        whole[:0],
        protected[1:],
        np.arange(5.0),
        np.zeros((0, 3), "i2"),
    ):
        here.send(array)
        copy = pickle.loads(there.recv_bytes())
        assert (copy.tolist(), copy.dtype) == (array.tolist(), array.dtype)
        assert not shmarray.is_shared(copy)


def test_bytes_that_are_no_pickle_raise_at_the_receiver():
    here, there = mp.Pipe()
    here.send_bytes(b"no pickle")
    with pytest.raises(pickle.UnpicklingError):
        there.recv()
    here.send("next")
    assert there.recv() == "next"


def test_an_unpicklable_object_raises_and_nothing_is_sent(files):
    here, there = mp.Pipe()
    with pytest.raises((AttributeError, pickle.PicklingError)):
        here.send([np.zeros(50_000), lambda: None])
    assert not there.poll()
    assert files() == []


def test_errors_are_those_of_the_standard_class():
    for pipe in (mp.Pipe, multiprocessing.Pipe):
        reader, writer = pipe(duplex=False)
        assert (reader.readable, reader.writable, writer.readable, writer.writable) == (
            True,
            False,
            False,
            True,
        )
        with pytest.raises(OSError, match="connection is read-only"):
            reader.send(1)
        with pytest.raises(OSError, match="connection is write-only"):
            writer.recv()
        writer.send_bytes(b"12345")
        with pytest.raises(mp.BufferTooShort) as short:
            reader.recv_bytes_into(bytearray(4))
        assert short.value.args == (b"12345",)
        for wrong in ({"offset": -1}, {"size": -1}, {"offset": 6}, {"size": 6}):
            with pytest.raises(ValueError, match=r"offset|size"):
                writer.send_bytes(b"12345", **wrong)
        with pytest.raises(ValueError, match="negative maxlength"):
            reader.recv_bytes(-1)
        writer.send_bytes(b"123456")
        with pytest.raises(OSError, match="bad message length"):
            reader.recv_bytes(5)
        assert reader.closed
        with pytest.raises(BrokenPipeError):
            writer.send(1)
        writer.close()
        writer.close()
        uses = (writer.fileno, lambda: writer.send(1), lambda: writer.send_bytes(b""))  # noqa: B023
        for use in uses:
            with pytest.raises(OSError, match="handle is closed"):
                use()


def test_the_end_is_told_after_the_last_message():
    here, there = mp.Pipe()
    with here:
        here.send("last")
    assert here.closed
    assert there.poll()
    assert there.recv() == "last"
    assert there.poll()
    with pytest.raises(EOFError):
        there.recv()


HANDLES = {
    "a negative one": (-1,),
    "none at all": (None,),
    "a text": ("3",),
    "one that is not open": (44977608,),
    "a huge one": (1 << 40,),
    "one for neither way": (0, False, False),
}
USES = ("fileno", "poll", "recv", "recv_bytes", "close")


def refusals(kind, handle):
    """Returns the error of making or then using it."""
    try:
        end = kind(*handle)
    except Exception as error:
        return type(error), str(error)
    raised = []
    for use in (
        lambda: end.send(1),
        lambda: end.send_bytes(b"1"),
        *(getattr(end, name) for name in USES),
    ):
        try:
            raised.append(use())
        except Exception as error:
            raised.append((type(error), str(error)))
    end._handle = None
    return raised


@pytest.mark.parametrize("handle", HANDLES.values(), ids=HANDLES)
def test_an_invalid_handle_is_refused_when_the_standard_class_refuses_it(handle):
    expected = refusals(multiprocessing.connection.Connection, handle)
    assert any(isinstance(one, tuple) for one in expected) or isinstance(expected, tuple)
    assert refusals(Connection, handle) == expected


@pytest.mark.parametrize(
    "other", [Connection, multiprocessing.connection.Connection], ids=["ours", "the standard one"]
)
def test_a_connection_over_another_fd_says_what_the_standard_class_says(other):
    for one, two in (os.pipe(), [end.detach() for end in socket.socketpair()]):
        reader = Connection(one, writable=False)
        writer = other(two, readable=False)
        writer.send({"a": np.arange(3)})
        writer.send_bytes(b"12345")
        assert reader.poll()
        assert reader.recv()["a"].tolist() == [0, 1, 2]
        assert reader.recv_bytes(5) == b"12345"
        with pytest.raises(OSError, match="connection is read-only"):
            reader.send(1)
        writer.close()
        with pytest.raises(EOFError):
            reader.recv()
        reader.close()
        for fd in (one, two):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)


def test_a_connection_over_another_fd_may_be_the_end_that_sends():
    one, two = os.pipe()
    with (
        multiprocessing.connection.Connection(one) as reader,
        Connection(two, readable=False) as writer,
    ):
        writer.send("text")
        writer.send_bytes(b"12345")
        assert (reader.recv(), reader.recv_bytes()) == ("text", b"12345")


def test_a_connection_over_another_fd_travels_in_messages():
    here, there = mp.Pipe()
    one, two = os.pipe()
    here.send(Connection(one, writable=False))
    with Connection(two, readable=False) as writer, there.recv() as reader:
        writer.send("text")
        assert reader.recv() == "text"


def test_an_fd_that_cannot_be_examined_raises_and_stays_the_callers(monkeypatch):
    def refuse(_):
        raise OSError(errno.EMFILE, "too many open files")

    reader, writer = os.pipe()
    monkeypatch.setattr(connection._internals, "Pipe", types.SimpleNamespace(from_fd=refuse))
    with pytest.raises(OSError, match="too many open files"):
        Connection(reader)
    os.write(writer, b"still open")
    assert os.read(reader, 100) == b"still open"
    os.close(reader)
    os.close(writer)


def test_a_connection_can_be_waited_for_with_others():
    ends = [mp.Pipe() for _ in range(3)]
    standard, its_other = multiprocessing.Pipe()
    readers = [there for _, there in ends] + [standard]
    assert wait(readers, 0) == []
    ends[1][0].send(1)
    its_other.send(1)
    assert wait(readers) == [ends[1][1], standard]
    ends[0][0].close()
    assert set(wait(readers)) == {ends[0][1], ends[1][1], standard}
    assert multiprocessing.connection.wait([ends[1][1]]) == [ends[1][1]]


def test_poll_waits_until_there_is_something():
    here, there = mp.Pipe()
    assert not there.poll()
    assert not there.poll(0.001)
    timer = threading.Timer(0.01, here.send, [1])
    timer.start()
    assert there.poll(None)
    timer.join()


def open_fds():
    return len(os.listdir("/proc/self/fd"))


def test_connections_and_sockets_travel_in_messages():
    here, there = mp.Pipe()
    inner, inner_other = mp.Pipe()
    standard, standard_other = multiprocessing.Pipe()
    one, other = socket.socketpair()
    before = open_fds()
    here.send({"ours": inner, "standard": standard, "socket": one, "array": np.arange(3)})
    received = there.recv()
    assert open_fds() == before + 3
    for end in (inner, standard, one):
        end.close()
    received["ours"].send(np.arange(5))
    assert inner_other.recv().tolist() == [0, 1, 2, 3, 4]
    received["standard"].send("x")
    assert standard_other.recv() == "x"
    received["socket"].send(b"y")
    assert other.recv(1) == b"y"
    for end in (
        standard_other,
        other,
        *(received[name] for name in ("ours", "standard", "socket")),
    ):
        end.close()


@pytest.mark.parametrize("count", [47, 48, 49, 500])
def test_any_number_of_connections_travels_in_one_message(count):
    here, there = mp.Pipe()
    pairs = [mp.Pipe() for _ in range(count)]
    before = open_fds()
    here.send([one for one, _ in pairs])
    received = there.recv()
    assert open_fds() == before + count
    for number, end in enumerate(received):
        end.send(number)
    assert [other.recv() for _, other in pairs] == list(range(count))


def test_a_connection_in_a_message_that_nobody_received_is_closed():
    here, there = mp.Pipe()
    inner, other = mp.Pipe()
    here.send([inner] * 2)
    inner.close()
    assert not other.poll()
    there.close()
    with pytest.raises(EOFError):
        other.recv()


def test_fds_of_a_message_that_cannot_be_unpickled_are_closed():
    here, there = mp.Pipe()
    inner, _other = mp.Pipe()
    before = open_fds()
    here.send([Unlucky(), inner])
    with pytest.raises(ZeroDivisionError):
        there.recv()
    assert open_fds() == before


class Unlucky:
    def __reduce__(self):
        return divmod, (1, 0)


def test_a_connection_goes_through_the_standard_module_too():
    here, there = multiprocessing.Pipe()
    inner, other = mp.Pipe()
    here.send(inner)
    there.recv().send(np.arange(3))
    assert other.recv().tolist() == [0, 1, 2]
    multiprocessing.resource_sharer.stop()


def test_one_end_can_be_shared_by_threads():
    here, there = mp.Pipe()
    got = []

    def receive():
        with contextlib.suppress(EOFError):
            while True:
                got.append(int(there.recv()[0]))

    threads = [threading.Thread(target=receive) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(500):
        here.send(np.full(10, number))
    here.close()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(500))
