"""A message arrives as what it was, whichever way its size makes it go."""

import pickle
import threading

import numpy as np
import pytest

import shmarray.multiprocessing as mp

SIZES = [59_000, 62_000, 70_000, 159_000, 160_000, 170_000, 1_100_000]
"""Around the sizes at which a message goes another way: one write of the pickler, the socket,
shared memory.
"""


def over(pipe, obj, how="send"):
    """Returns what arrives. A long message needs a receiver meanwhile."""
    here, there = pipe
    thread = threading.Thread(target=getattr(here, how), args=(obj,))
    thread.start()
    received = getattr(there, how.replace("send", "recv"))()
    thread.join()
    return received


@pytest.mark.parametrize("size", SIZES)
def test_bytes_and_texts_of_every_size_arrive(size):
    pipe = mp.Pipe()
    data = bytes(range(251)) * (size // 251)
    text = "é\ud800\U0001f600" * (size // 9)
    for sent in (data, bytearray(data), "x" * size, text, {"a": data, "b": [data, text]}):
        assert over(pipe, sent) == sent
    assert over(pipe, data, "send_bytes") == data
    assert over(pipe, memoryview(data)[1:-1], "send_bytes") == data[1:-1]


@pytest.mark.parametrize("size", SIZES)
def test_arrays_of_every_size_and_order_arrive(size):
    pipe = mp.Pipe()
    grid = np.arange(size // 1000 * 125, dtype="f8").reshape(-1, 125)
    fixed = grid.copy()
    fixed.flags.writeable = False
    for array in (
        grid,
        grid.T,
        grid[:, :60],
        grid[::-1],
        fixed,
        fixed[:, 1:],
        np.broadcast_to(grid, (2, *grid.shape)),
    ):
        alone = over(pipe, array)
        [listed] = over(pipe, [array])
        among = over(pipe, {"a": array, "b": grid + 1})
        np.testing.assert_array_equal(among["b"], grid + 1)
        for got in (alone, listed, among["a"]):
            np.testing.assert_array_equal(got, array)
            assert type(got) is np.ndarray
            assert got.flags.writeable == pickle.loads(pickle.dumps(array)).flags.writeable
            if 0 not in array.strides:
                assert np.sign(got.strides).tolist() == np.sign(array.strides).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_views_of_one_memory_become_arrays_of_their_own_at_every_size(size):
    grid = np.arange(size // 1000 * 125, dtype="f8").reshape(-1, 125)
    left, right, whole, again = over(mp.Pipe(), [grid[:, :60], grid[:, 30:], grid, grid])
    left[1, 59] = -1
    assert (right[1, 29], whole[1, 59], whole is again) == (184, 184, True)


def test_a_view_of_bytes_arrives_in_its_own_order():
    data = bytes(range(100))
    assert over(mp.Pipe(), memoryview(data)[::-1], "send_bytes") == data[::-1]


class Once:
    """Its pickling has an effect, and so must happen only once."""

    def __init__(self):
        self.left = ["it"]

    def __reduce__(self):
        return list, (self.left.pop(),)


@pytest.mark.parametrize("count", [3, 80])
def test_objects_beside_parts_of_different_arrays_are_pickled_once(count):
    rows = [np.full((10, 2 * count), number)[:, :count] for number in range(20)]
    *got, once = over(mp.Pipe(), [*rows, Once()])
    assert ([row[0, 0] for row in got], once) == (list(range(20)), ["i", "t"])
