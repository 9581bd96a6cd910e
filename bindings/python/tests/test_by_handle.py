"""Plain pickles have handles in the place of shared arrays where that was asked for, whoever
pickles.
"""

import copy
import copyreg
import importlib.util
import io
import json
import multiprocessing.reduction
import os
import pickle
import subprocess
import sys
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import shmarray
from working import in_child, listed_arrays, sweep_after_deaths

PROGRAM = Path(__file__).with_name("by_handle_program.py")
WAYS = [
    *(("pool", method) for method in ("fork", "forkserver", "spawn")),
    *(("queue", method) for method in ("fork", "forkserver", "spawn")),
    ("futures", "spawn"),
    ("loky", "-"),
    ("dask", "-"),
    ("mpire", "spawn"),
    ("pathos", "-"),
    ("p_tqdm", "-"),
]
each_way = pytest.mark.parametrize(("way", "method"), WAYS, ids=["-".join(way) for way in WAYS])
# Without handles in a pickle it does not matter how its receiver was started.
by_one_method = pytest.mark.parametrize(("way", "method"), dict(reversed(WAYS)).items())


def said(way, method, switch):
    """What the program prints for each kind of processes."""
    if way in ("dask", "mpire", "pathos", "p_tqdm") and importlib.util.find_spec(way) is None:
        pytest.skip(f"{way} is not installed")
    command = [sys.executable, str(PROGRAM), way, method, switch]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


@each_way
def test_arrays_stay_shared_there_and_back_when_asked_for(way, method, files):
    assert said(way, method, "on") == [True, [1, 1, 1], True, [3] * 4, [2] * 4, [0]]
    sweep_after_deaths()
    assert files() == []


@by_one_method
def test_else_a_plain_pickle_is_a_copy_and_a_store_is_lost(way, method):
    assert said(way, method, "off") == [
        way == "queue",
        [float(way == "queue")] * 3,
        False,
        [3] * 4,
        [2] * 4,
        [0],
    ]


def forking(obj, _):
    return bytes(multiprocessing.reduction.ForkingPickler.dumps(obj))


def in_python(obj, protocol):
    file = io.BytesIO()
    pickle._Pickler(file, protocol).dump(obj)
    return file.getvalue()


PICKLERS = [pickle.dumps, in_python, cloudpickle.dumps, forking]
if importlib.util.find_spec("dill") is not None:
    import dill

    PICKLERS.append(dill.dumps)
each_pickler = pytest.mark.parametrize(
    "dumps", PICKLERS, ids=lambda dumps: f"{dumps.__module__}.{dumps.__name__}"
)
each_protocol = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


def fixed(array):
    array.flags.writeable = False
    return array


def shared():
    whole = shmarray.array(np.arange(24.0).reshape(2, 3, 4))
    record = np.dtype([("a", "<i2"), ("b", "S3", (2,))], metadata={"unit": "K"})
    return {
        "whole": whole,
        "a view": whole[1:, ::-1, ::2],
        "turned": whole.T,
        "read-only": fixed(whole[0]),
        "of a read-only segment": shmarray.attach(shmarray.handle(whole), readonly=True),
        "nothing": whole[:0],
        "one": whole[1, 1, 1:2].reshape(()),
        "records": shmarray.zeros(5, record),
        "times": shmarray.zeros(5, "M8[ns]"),
    }


@each_pickler
@each_protocol
def test_every_array_in_shared_memory_is_the_same_memory_again(dumps, protocol):
    sent = shared()
    with shmarray.pickle_by_handle():
        data = dumps(sent, protocol)
    assert len(data) < 800 * len(sent)
    got = pickle.loads(data)
    for name, array in sent.items():
        other = got[name]
        assert (type(other), other.dtype, other.shape, other.strides) == (
            np.ndarray,
            array.dtype,
            array.shape,
            array.strides,
        )
        assert other.flags.writeable == array.flags.writeable, name
        assert shmarray.handle(other).segment == shmarray.handle(array).segment, name
    got["a view"][0, 0, 0] = 99
    assert sent["whole"][1, 2, 0] == 99
    assert {info.tickets for info in listed_arrays()} == {0}


def private():
    whole = np.arange(24.0).reshape(2, 3, 4)
    return {
        "whole": whole,
        "a view": whole[1:, ::-1, ::2],
        "turned": whole.T,
        "read-only": fixed(whole.copy()),
        "permuted": whole.transpose(1, 0, 2),
        "big-endian": whole.astype(">f4"),
        "records": np.zeros(3, [("a", "<i2"), ("b", "S3")]),
        "objects": np.array([1, "text", None], object),
        "nothing": np.zeros((0, 3)),
        "one": np.array(5),
        "masked": np.ma.masked_array([1, 2], [True, False]),
        "subclass": np.zeros(3, [("a", "<i2")]).view(np.recarray),
    }


@each_pickler
@each_protocol
def test_private_arrays_are_what_they_are_without_it(dumps, protocol):
    sent = private()
    expected = pickle.loads(dumps(sent, protocol))
    with shmarray.pickle_by_handle():
        data = dumps(sent, protocol)
    got = pickle.loads(data)
    for name, array in expected.items():
        np.testing.assert_array_equal(got[name], array)
        assert (type(got[name]), got[name].dtype, got[name].strides) == (
            type(array),
            array.dtype,
            array.strides,
        ), name
        assert str(got[name].flags) == str(array.flags), name


def test_private_arrays_go_out_of_band_still():
    sent = [np.arange(1000), np.arange(1000).reshape(10, 100).T]
    buffers = []
    with shmarray.pickle_by_handle():
        data = pickle.dumps(sent, 5, buffer_callback=buffers.append)
    assert (len(buffers), len(data) < 1000) == (2, True)
    for array, buffer, other in zip(
        sent, buffers, pickle.loads(data, buffers=buffers), strict=True
    ):
        assert np.shares_memory(array, other)
        assert buffer.raw().nbytes == array.nbytes


def test_the_bytes_of_private_arrays_are_loaded_where_this_package_is_not(run_python):
    with shmarray.pickle_by_handle():
        data = pickle.dumps([np.arange(3), np.arange(3)[::2]])
    code = """
import pickle, sys
got = pickle.loads(bytes.fromhex(sys.argv[1]))
print([array.tolist() for array in got], "shmarray" in sys.modules)
"""
    assert run_python(code, data.hex()) == "[[0, 1, 2], [0, 2]] False\n"


def test_an_array_of_objects_may_be_in_itself():
    array = np.empty(2, object)
    array[:] = array, shmarray.ones(3)
    with shmarray.pickle_by_handle():
        got = pickle.loads(pickle.dumps(array))
    assert got[0] is got
    got[1][0] = 7
    assert array[1].tolist() == [7, 1, 1]
    array[0] = got[0] = None  # NumPy's arrays are not found by the garbage collector


def test_an_array_twice_in_a_pickle_is_one_array():
    for array in (shmarray.zeros(3), np.zeros(3)):
        with shmarray.pickle_by_handle():
            one, two = pickle.loads(pickle.dumps([array, array]))
        assert one is two


def test_it_ends_with_the_last_of_those_who_asked():
    a = shmarray.zeros(3)

    def is_shared():
        return shmarray.is_shared(pickle.loads(pickle.dumps(a)))

    before = dict(copyreg.dispatch_table)
    outer = shmarray.pickle_by_handle()
    with shmarray.pickle_by_handle() as inner:
        outer.off()
        assert (is_shared(), os.environ["SHMARRAY_PICKLE_BY_HANDLE"]) == (True, "1")
        inner.off()
        assert not is_shared()
    outer.off()
    assert (copyreg.dispatch_table, "SHMARRAY_PICKLE_BY_HANDLE" in os.environ) == (before, False)


def test_another_reducer_of_arrays_is_asked_for_private_ones_and_stands_again_afterwards(
    monkeypatch,
):
    def reduce(array):
        return np.full, (array.shape, 5)

    monkeypatch.setitem(copyreg.dispatch_table, np.ndarray, reduce)
    with shmarray.pickle_by_handle():
        one, two = pickle.loads(pickle.dumps([np.zeros(2), shmarray.zeros(2)]))
        assert (one.tolist(), two.tolist()) == ([5, 5], [0, 0])
    assert copyreg.dispatch_table[np.ndarray] is reduce
    with shmarray.pickle_by_handle():
        copyreg.dispatch_table[np.ndarray] = other = lambda array: reduce(array)
    assert copyreg.dispatch_table[np.ndarray] is other


def test_a_deep_copy_is_a_copy():
    a = shmarray.zeros(3)
    with shmarray.pickle_by_handle():
        assert not any(
            np.shares_memory(a, other) for other in (copy.deepcopy([a])[0], copy.copy(a))
        )


def test_a_pickle_of_a_killed_sender_is_loaded(files):
    own = shmarray.ones(3)  # this process is of the sender's family in this directory
    with shmarray.pickle_by_handle():
        data = in_child(lambda: pickle.dumps([own, shmarray.full(100_000, 7)]))
    sweep_after_deaths()
    one, other = pickle.loads(data)
    one[0] = 5
    assert (own.tolist(), other.sum()) == ([5, 1, 1], 700_000)
    del one, other
    assert len(files()) == 1  # empties the pool


def test_a_pickle_that_nobody_loads_holds_until_its_family_has_ended(peer, files):
    data = bytes.fromhex(
        peer.run(
            "import pickle; shmarray.pickle_by_handle(); answer = "
            "pickle.dumps(shmarray.ones(3)).hex()"
        )
    )
    assert (shmarray.sweep().segments, [info.tickets for info in listed_arrays()]) == (0, [1])
    peer.kill()
    sweep_after_deaths()
    assert files() == []
    with pytest.raises(FileNotFoundError, match="all processes of the sender's family had ended"):
        pickle.loads(data)


def test_a_pickle_is_loaded_again_as_long_as_somebody_has_the_array():
    a = shmarray.ones(3)
    with shmarray.pickle_by_handle():
        data = pickle.dumps(a)
    assert [pickle.loads(data).tolist() for _ in range(3)] == [[1, 1, 1]] * 3
    del a
    with pytest.raises(FileNotFoundError, match="was loaded before, and nobody has the array"):
        pickle.loads(data)
