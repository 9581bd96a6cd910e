"""Fds travel in the message that names them, however many there are and in whatever order they are
taken.
"""

import socket

import numpy as np
import pytest

import shmarray.multiprocessing as mp


@pytest.mark.parametrize("count", [30, 49, 70])
def test_many_fds_travel_beside_arrays(count):
    here, there = mp.Pipe()
    base = np.arange(100, dtype="u1")
    pairs = [mp.Pipe() for _ in range(count)]
    here.send([[one for one, _ in pairs], base[:-1], base[1:]])
    ends, *arrays = there.recv()
    assert [array.tolist() for array in arrays] == [base[:-1].tolist(), base[1:].tolist()]
    for number, (end, (_, other)) in enumerate(zip(ends, pairs, strict=True)):
        end.send(number)
        assert other.recv() == number


class Backwards:
    """Takes the last of its fds first, and one not at all."""

    def __init__(self, sockets):
        self.sockets = sockets

    def __reduce__(self):
        return _detached, ([mp.reduction.DupFd(one.fileno()) for one in self.sockets],)


def _detached(duplicates):
    return [socket.socket(fileno=duplicate.detach()) for duplicate in duplicates[:0:-1]]


def test_fds_are_taken_in_any_order():
    here, there = mp.Pipe()
    pairs = [socket.socketpair() for _ in range(60)]
    here.send(Backwards([one for one, _ in pairs]))
    got = there.recv()[::-1]
    for one, (_, other) in zip(got, pairs[1:], strict=True):
        one.send(b"x")
        assert other.recv(1) == b"x"
    for one in [*got, *(end for pair in pairs for end in pair)]:
        one.close()
