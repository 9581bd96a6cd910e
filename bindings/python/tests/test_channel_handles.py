"""Channels that are handed over by their handles."""

import pickle
import sys

import numpy as np
import pytest

import shmarray
from shmarray import Channel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has channels")


def numbers():
    return Channel.create("numbers", 2, "i4")


def received(channel):
    with channel.receive() as a:
        return a.tolist()


def test_a_channel_is_handed_over_by_its_handle():
    channel = numbers()
    handle = channel.handle
    assert (handle.shape, handle.dtype, handle.offset) == ((2,), np.dtype("i4"), 0)
    by_handle = Channel.open(handle)
    by_text = Channel.open(str(handle))
    assert by_handle.name == by_text.name == "numbers"
    assert by_text.handle == handle
    for message in ([1, 2], [3, 4]):
        channel.send(np.array(message, "i4"))
    assert (received(by_handle), received(by_text)) == ([1, 2], [3, 4])


def test_a_pickle_of_a_channel_leads_to_no_other_channel_of_its_name():
    first = numbers()
    pickled = pickle.dumps(first)
    shmarray.unlink("numbers")
    second = numbers()
    with pickle.loads(pickled) as again:
        assert again.handle == first.handle != second.handle
    first.close()
    del first
    with pytest.raises(FileNotFoundError):
        pickle.loads(pickled)


def test_handles_that_are_no_channels_are_refused():
    array = shmarray.empty(3)
    large = shmarray.empty(1 << 20)
    channel = numbers()
    with pytest.raises(ValueError, match="it is an array's, not a channel's"):
        Channel.open(shmarray.handle(array))
    with pytest.raises(ValueError, match="not a channel"):
        Channel.open(shmarray.handle(large))
    with pytest.raises(ValueError, match="not an array"):
        shmarray.attach(channel.handle)
    with pytest.raises(TypeError, match="Handle or str"):
        Channel.open(array)
