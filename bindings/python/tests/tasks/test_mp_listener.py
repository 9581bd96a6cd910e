"""Listeners take clients of this machine and others, by key, and unpickle nothing of strangers."""

import contextlib
import multiprocessing.connection
import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from shmarray.multiprocessing.connection import Client, Listener, XmlClient, XmlListener


def answer(address, authkey):
    """The work of a client."""
    with Client(address, authkey=authkey) as client:
        while (array := client.recv()) is not None:
            array += 1
            client.send(array)


@pytest.mark.parametrize("authkey", [None, b"secret"])
def test_a_listener_of_this_machine_moves_arrays_by_handle(authkey, tmp_path):
    with Listener(str(tmp_path / "address"), authkey=authkey) as listener:
        process = mp.get_context("fork").Process(target=answer, args=(listener.address, authkey))
        process.start()
        with listener.accept() as connection:
            array = shmarray.zeros(50_000)
            before = shmarray.copied_bytes()
            connection.send(array[5:])
            assert connection.recv()[0] == 1
            assert (array[5], array[4], shmarray.copied_bytes() - before) == (1, 0, 0)
            connection.send(None)
        process.join()
        assert process.exitcode == 0
    assert os.listdir(tmp_path) == []


def test_a_listener_has_an_address_of_its_own_choice_or_in_the_abstract_namespace():
    for address in (None, f"\0shmarray-test-{os.getpid()}"):
        with Listener(address) as listener:
            assert isinstance(listener, multiprocessing.connection.Listener)
            client = Client(listener.address)
            with listener.accept() as accepted:
                client.send(1)
                assert accepted.recv() == 1
            client.close()
    with pytest.raises(OSError, match="listener is closed"):
        listener.accept()


def test_a_listener_over_tcp_carries_arrays_in_band():
    with Listener(("127.0.0.1", 0), authkey=b"secret") as listener:
        process = mp.get_context("fork").Process(target=answer, args=(listener.address, b"secret"))
        process.start()
        with listener.accept() as connection:
            assert type(connection) is multiprocessing.connection.Connection
            assert listener.last_accepted[0] == "127.0.0.1"
            array = shmarray.zeros(10_000)
            connection.send(array)
            assert connection.recv().tolist() == [1] * 10_000
            assert array[0] == 0
            connection.send(None)
        process.join()
        assert process.exitcode == 0


@pytest.mark.parametrize("authkey", [None, b"key"])
def test_a_client_connects_to_a_listener_of_the_standard_module(authkey, tmp_path):
    """Its socket has another type. The client failed where the standard one does not."""
    address = str(tmp_path / "address")
    with (
        multiprocessing.connection.Listener(address, authkey=authkey) as listener,
        ThreadPoolExecutor(1) as threads,
    ):
        accepted = threads.submit(listener.accept)
        client = Client(address, authkey=authkey)
        with client, accepted.result() as there:
            client.send(np.arange(3))
            there.send(there.recv() + 1)
            assert client.recv().tolist() == [1, 2, 3]


def test_a_wrong_key_is_refused():
    with Listener(authkey=b"right") as listener:
        process = mp.get_context("fork").Process(target=refused, args=(listener.address,))
        process.start()
        with pytest.raises(mp.AuthenticationError):
            listener.accept()
        process.join()
        assert process.exitcode == 0
    for wrong in (Listener, lambda authkey: Client("\0nobody", authkey=authkey)):
        with pytest.raises(TypeError, match="authkey should be a byte string"):
            wrong(authkey="text")


def refused(address):
    with pytest.raises(mp.AuthenticationError):
        Client(address, authkey=b"wrong")


def test_addresses_that_cannot_be_had_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        Client(str(tmp_path / "nobody"))
    with pytest.raises(FileNotFoundError):
        Listener(str(tmp_path / "no folder" / "address"))
    with Listener(str(tmp_path / "taken")), pytest.raises(OSError, match="in use"):
        Listener(str(tmp_path / "taken"))
    with pytest.raises(ValueError, match="Family AF_PIPE is not recognized"):
        Listener(family="AF_PIPE")


def test_connections_of_xml_carry_what_xml_can_say():
    with XmlListener() as listener:
        client = XmlClient(listener.address)
        with contextlib.closing(listener.accept()) as accepted:
            client.send([1, "two", None])
            assert accepted.recv() == [1, "two", None]
        client.close()


def test_bytes_are_not_unpickled_by_who_receives_them(tmp_path):
    """A client that has not shown its key must not get anything unpickled."""
    here, there = mp.Pipe()
    marks = Marks(tmp_path / "unpickled")
    here.send(marks)
    with pytest.raises((mp.AuthenticationError, AssertionError, OSError)):
        multiprocessing.connection.answer_challenge(there, b"key")
    here, there = mp.Pipe()
    here.send([marks, np.arange(50_000)])
    data = there.recv_bytes()
    assert os.listdir(tmp_path) == []
    assert pickle.loads(data)[1].tolist() == list(range(50_000))
    assert os.listdir(tmp_path) == ["unpickled"]


class Marks:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)
