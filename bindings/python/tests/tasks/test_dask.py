"""Dask's comms carry handles where the receiver has the same shared memory, and else bytes."""

import asyncio
import gc
import logging
import os

import dask.config
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from distributed.comm import CommClosedError
from distributed.protocol import deserialize_bytes, serialize_bytes, to_serialize

import shmarray
import shmarray.dask
from dask_wire import sent, sent_through, wire
from shmarray.dask import _config, _frames, _handshakes, _host
from working import listed_arrays

COUNT = 100_000
NUMBERS = np.random.default_rng(7).random(COUNT)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Registered with a minimum size of 64 KiB, as if nothing was said yet."""
    monkeypatch.setattr(_host._State, "withdrawn", False)
    monkeypatch.setattr(_frames._State, "was_full", False)
    monkeypatch.setattr(_handshakes._State, "were_told", set())
    before = {name: getattr(_config.Settings, name) for name in ("min_bytes", "min_shared_bytes")}
    with dask.config.set({"distributed.shmarray.min-size": "64 KiB"}):
        shmarray.dask.register()
        yield
    for name, value in before.items():
        setattr(_config.Settings, name, value)
    assert [info.tickets for info in listed_arrays() if info.tickets] == []


def counted(call):
    """Returns what a call returns, and by how much each counter has grown."""
    before = shmarray.dask.counters()
    result = call()
    after = shmarray.dask.counters()
    return result, shmarray.dask.Counters(*(b - a for a, b in zip(before, after, strict=True)))


# What arrives.


def test_a_private_array_arrives_in_shared_memory_as_the_receivers_own():
    got, counts = counted(lambda: sent(NUMBERS))
    assert (shmarray.is_shared(got), got.flags.writeable) == (True, True)
    np.testing.assert_array_equal(got, NUMBERS)
    assert counts == (NUMBERS.nbytes, NUMBERS.nbytes, 0, 0)


def test_a_shared_array_arrives_as_the_same_memory_and_cannot_be_written():
    a = shmarray.array(NUMBERS)
    copied = shmarray.copied_bytes()
    got = sent(a)
    assert shmarray.copied_bytes() == copied
    a[3] = -1
    assert got[3] == -1
    with pytest.raises(ValueError, match="read-only"):
        got[3] = 0


def fortran():
    return np.asfortranarray(NUMBERS.reshape(100, 1000))


STRUCTURED = np.zeros(COUNT, [("a", "i4"), ("b", ">f8"), ("c", "S3", 2)])
ARRAYS = {
    "C order": lambda: NUMBERS.reshape(100, 1000),
    "Fortran order": fortran,
    "transposed": lambda: NUMBERS.reshape(10, 100, 100).transpose(1, 0, 2),
    "every other element": lambda: NUMBERS[::2],
    "backwards": lambda: NUMBERS[::-1],
    "broadcast": lambda: np.broadcast_to(NUMBERS[:50_000], (3, 50_000)),
    "big endian": lambda: NUMBERS.astype(">f4"),
    "a column of a big-endian one": lambda: NUMBERS.astype(">f8").reshape(-1, 4)[:, 1:3],
    "times": lambda: np.arange(COUNT).astype("M8[s]"),
    "texts": lambda: np.full(COUNT, "añ"),
    "structured": lambda: STRUCTURED,
    "structured, every other": lambda: STRUCTURED[::2],
    "read-only": lambda: np.frombuffer(NUMBERS.tobytes()),
    "no dimension": lambda: np.array(7.5),
    "empty": lambda: np.zeros((0, 100_000)),
    "matrix": lambda: np.matrix(NUMBERS.reshape(100, 1000)),
    "objects": lambda: np.array([NUMBERS, "b", None], object),
}


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_an_array_of_any_kind_arrives_as_dask_would_bring_it(name, is_shared):
    array = ARRAYS[name]()
    standard = deserialize_bytes(serialize_bytes(array))
    source = array
    if is_shared and not array.dtype.hasobject:
        whole = array if array.base is None else array.base
        if not isinstance(whole, np.ndarray) or type(array) is not np.ndarray or not array.size:
            pytest.skip("its memory is no array that can be shared")
        memory = shmarray.share(whole).base
        offset = array.ctypes.data - whole.ctypes.data
        source = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
        np.testing.assert_array_equal(source, array)
    before = shmarray.copied_bytes()
    got, counts = counted(lambda: sent(source))
    others_have_it = counts.sent_by_handle_bytes and shmarray.copied_bytes() == before
    assert (type(got), got.dtype, got.shape) == (type(array), array.dtype, array.shape)
    if array.dtype.hasobject:
        np.testing.assert_array_equal(got[0], array[0])
        return
    np.testing.assert_array_equal(got, array)
    assert got.flags.writeable == (standard.flags.writeable and not others_have_it)


def test_an_array_with_gaps_that_is_in_shared_memory_is_not_copied():
    a = shmarray.array(NUMBERS.reshape(100, 1000))
    before = shmarray.copied_bytes()
    got = sent(a[:, 10:900])
    assert (shmarray.copied_bytes(), got.strides) == (before, a.strides)
    a[5, 10] = -1
    assert (got[5, 0], got.flags.writeable) == (-1, False)


def test_an_array_with_gaps_that_must_not_be_written_arrives_so():
    a = NUMBERS.reshape(100, 1000)[:, 10:900]
    a.flags.writeable = False
    got, counts = counted(lambda: sent(a))
    assert (counts.sent_by_handle_bytes, got.flags.writeable) == (a.nbytes, False)


def test_a_small_part_of_a_large_array_does_not_keep_all_of_it():
    a = shmarray.array(np.arange(2_000_000))
    got = sent(a[100:100_000])
    np.testing.assert_array_equal(got, np.arange(100, 100_000))
    del a
    gc.collect()
    assert sum(info.segment_bytes for info in listed_arrays()) < 1_000_000
    assert got.flags.writeable


def test_smaller_arrays_go_as_bytes():
    for array in (np.arange(8000), shmarray.array(np.arange(2000))):
        got, counts = counted(lambda array=array: sent(array))
        np.testing.assert_array_equal(got, array)
        assert (shmarray.is_shared(got), counts) == (False, (0, 0, 0, 0))


OBJECTS = {
    "frame": lambda: pd.DataFrame({"a": NUMBERS, "b": np.arange(COUNT), "c": ["x"] * COUNT}),
    "series": lambda: pd.Series(NUMBERS, pd.date_range("2020", periods=COUNT, freq="s")),
    "dataset": lambda: xr.Dataset({"t": (("y", "x"), NUMBERS.reshape(200, 500))}),
    "masked": lambda: np.ma.masked_less(NUMBERS, 0.5),
    "dict": lambda: {"a": [NUMBERS, (NUMBERS[:50_000], "text")], "b": 7},
    "list": lambda: [NUMBERS, np.arange(10), {"c": NUMBERS + 1}],
    "bytearray": lambda: bytearray(NUMBERS.tobytes()),
}


def is_same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, pd.DataFrame | pd.Series):
        return one.equals(other)
    if isinstance(one, xr.Dataset):
        return one.identical(other)
    if isinstance(one, np.ma.MaskedArray):
        return is_same(one.mask, other.mask) and is_same(one.compressed(), other.compressed())
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("name", OBJECTS)
def test_the_arrays_inside_an_object_go_by_handle(name):
    obj = OBJECTS[name]()
    got, counts = counted(lambda: sent(obj))
    assert type(got) is type(obj)
    assert is_same(got, obj)
    if name != "bytearray":  # Dask's pickle has it in band
        assert counts.sent_by_handle_bytes == counts.received_by_handle_bytes >= 400_000


# pandas has the times of an index in the pickle itself.
@pytest.mark.parametrize("name", sorted(OBJECTS.keys() - {"bytearray", "series"}))
def test_the_arrays_of_an_object_that_is_shared_are_not_copied(name):
    obj = shmarray.share(OBJECTS[name]())
    before = shmarray.copied_bytes()
    got = sent(obj)
    assert is_same(got, obj)
    # Texts of pandas have buffers of their own, and sizes below the minimum.
    assert shmarray.copied_bytes() - before < 100_000 * 10 * (name == "frame") + 1


def test_arrays_of_a_message_are_all_given_back():
    got = sent([NUMBERS + number for number in range(20)])
    assert len(listed_arrays()) >= 20
    del got
    gc.collect()
    assert listed_arrays() == []


# Bytes.


def assert_by_wire(array, got, counts):
    assert is_same(got, array)
    assert (shmarray.is_shared(got), counts.sent_by_handle_bytes) == (False, 0)


def test_what_is_spilled_to_disk_holds_bytes():
    a = shmarray.array(NUMBERS)
    data = serialize_bytes(a)
    assert (len(data) > a.nbytes, [info.tickets for info in listed_arrays()]) == (True, [0])
    del a
    gc.collect()
    np.testing.assert_array_equal(deserialize_bytes(data), NUMBERS)


def test_a_scheduler_that_forwards_gets_bytes():
    got = sent(NUMBERS, is_scheduler=True)
    assert _frames.KEY not in got.header
    assert sum(memoryview(frame).nbytes for frame in got.frames) == NUMBERS.nbytes


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "0.0.9"},
        {"protocol": 0},
        {"boot": "of another host"},
        {"directory": "1:2"},
        {"user": 12345},
        {"comm": 0, "version": None},
        None,
        "no mapping",
    ],
)
def test_a_peer_without_this_memory_or_this_version_gets_bytes(changes):
    async def send():
        async with wire() as (here, there):
            entry = here.remote_info[_handshakes.KEY]
            is_other = isinstance(changes, dict)
            here.remote_info[_handshakes.KEY] = {**entry, **changes} if is_other else changes
            return await sent_through(here, there, NUMBERS)

    got, counts = counted(lambda: asyncio.run(send()))
    assert_by_wire(NUMBERS, got, counts)
    assert counts.sent_by_wire_bytes == NUMBERS.nbytes


def test_large_bytes_are_counted_and_a_peer_without_this_package_is_named_once(caplog):
    async def send():
        async with wire() as (here, there):
            del here.remote_info[_handshakes.KEY]
            return [await sent_through(here, there, NUMBERS) for _ in range(3)]

    with caplog.at_level(logging.WARNING, "shmarray.dask"):
        _, counts = counted(lambda: asyncio.run(send()))
    assert counts == (0, 0, 3 * NUMBERS.nbytes, 0)
    assert [record.message for record in caplog.records] == [
        "A peer does not use shmarray.dask: arrays go to it as bytes, as without shmarray.dask."
    ]


def test_nothing_is_said_of_what_is_small(caplog):
    async def send():
        async with wire() as (here, there):
            del here.remote_info[_handshakes.KEY]
            return await sent_through(here, there, {"a": 1})

    with caplog.at_level(logging.WARNING, "shmarray.dask"):
        assert asyncio.run(send()) == {"a": 1}
    assert caplog.records == []


def test_without_shared_memory_there_is_nothing_in_the_handshake(monkeypatch):
    with monkeypatch.context() as changed:
        changed.setenv("SHMARRAY_DIR", "/nonexistent")
        got, counts = counted(lambda: sent(NUMBERS))
    assert_by_wire(NUMBERS, got, counts)


def test_it_can_be_disabled():
    with dask.config.set({"distributed.shmarray.enabled": False}):
        shmarray.dask.register()
        got, counts = counted(lambda: sent(NUMBERS))
    shmarray.dask.register()
    assert_by_wire(NUMBERS, got, counts)
    assert shmarray.is_shared(sent(NUMBERS))


def test_a_full_shared_memory_sends_bytes_and_says_so_once(small_tmpfs, caplog):
    small_tmpfs("size=2m")
    large = np.arange(1_000_000)
    with caplog.at_level(logging.WARNING, "shmarray.dask"):
        for _ in range(2):
            got, counts = counted(lambda: sent(large))
            assert_by_wire(large, got, counts)
            assert counts == (0, 0, large.nbytes, large.nbytes)
    assert len(caplog.records) == 1
    assert "Arrays without room go as bytes" in caplog.records[0].message
    assert shmarray.is_shared(sent(large[:100_000]))


# What never arrives.


def test_a_comm_that_breaks_gives_back_what_nobody_has_read():
    async def send():
        async with wire() as (here, there):
            await here.write({"data": to_serialize([NUMBERS, NUMBERS + 1])})
            assert [info.tickets for info in listed_arrays()] == [1, 1]
            there.abort()
            here.abort()

    asyncio.run(send())
    gc.collect()
    assert listed_arrays() == []


def test_what_a_receiver_leaves_in_a_message_is_given_back_after_its_answer():
    class Odd:
        """Not for msgpack: Dask serializes the whole message a second time."""

    async def send():
        async with wire() as (here, there):
            message = {"data": to_serialize(NUMBERS), "odd": Odd}
            got = (await asyncio.gather(there.read(), here.write(message)))[0]
            assert got["data"][0] == NUMBERS[0]
            assert sum(info.tickets for info in listed_arrays()) == 1
            await asyncio.gather(here.read(), there.write("OK"))
            await asyncio.gather(there.read(), here.write("next"))
            assert [info.tickets for info in listed_arrays()] == [0]

    asyncio.run(send())


def test_what_is_not_answered_is_held_though_another_message_follows():
    async def send():
        async with wire() as (here, there):
            for number in range(2):
                await here.write({"data": to_serialize(NUMBERS + number)})
            return [(await there.read())["data"][0] - NUMBERS[0] for _ in range(2)]

    assert asyncio.run(send()) == pytest.approx([0, 1])


def test_a_comm_that_is_forgotten_gives_back_what_nobody_has_read():
    async def send():
        async with wire() as (here, _):
            await here.write({"data": to_serialize(NUMBERS)})

    asyncio.run(send())
    gc.collect()
    assert listed_arrays() == []


def test_sending_that_is_cancelled_in_the_thread_that_serializes_gives_back(monkeypatch):
    monkeypatch.setattr("distributed.comm.utils.OFFLOAD_THRESHOLD", 1)
    begun = []
    may_end = []
    by_handle = _frames.by_handle

    def slow(*arguments):
        begun.append(1)
        while not may_end:
            os.sched_yield()
        return by_handle(*arguments)

    monkeypatch.setattr(_frames, "by_handle", slow)

    async def send():
        async with wire() as (here, _):
            task = asyncio.create_task(here.write({"data": to_serialize(NUMBERS)}))
            while not begun:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            here.abort()
        may_end.append(1)

    asyncio.run(send())
    from distributed.utils import _offload_executor

    _offload_executor.submit(int).result()
    gc.collect()
    assert listed_arrays() == []


def test_memory_that_is_gone_is_a_lost_comm_and_dask_asks_again(caplog):
    # Dask logs the exception, and pytest keeps its frames, which have the memory.
    caplog.set_level(logging.CRITICAL + 1, "distributed.protocol.core")

    async def send():
        async with wire() as (here, there):
            await here.write({"data": to_serialize([NUMBERS, NUMBERS + 1])})
            here.abort()  # gives back what is on its way
            with pytest.raises(CommClosedError, match="died or given up"):
                await there.read()
        async with wire() as (here, there):
            return await sent_through(here, there, NUMBERS)

    assert shmarray.is_shared(asyncio.run(send()))
    gc.collect()
    assert listed_arrays() == []


def test_memory_that_cannot_be_attached_ends_the_use_of_handles(monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError("no")

    async def send():
        async with wire() as (here, there):
            monkeypatch.setattr("shmarray._tasks._internals.sent_memory", refuse)
            await here.write({"data": to_serialize(NUMBERS)})
            with pytest.raises(CommClosedError, match="could not be attached: no"):
                await there.read()
        async with wire() as (here, there):
            return await sent_through(here, there, NUMBERS)

    with caplog.at_level(logging.WARNING, "shmarray.dask"):
        got, counts = counted(lambda: asyncio.run(send()))
    np.testing.assert_array_equal(got, NUMBERS)
    assert (counts.received_by_handle_bytes, len(caplog.records)) == (0, 3)
    gc.collect()
    assert listed_arrays() == []


# Configuration.


@pytest.mark.parametrize("value", ["much", None, [1]])
def test_a_minimum_size_that_is_none_is_refused(value):
    with (
        dask.config.set({"distributed.shmarray.min-size": value}),
        pytest.raises(ValueError, match=r"distributed\.shmarray\.min-size"),
    ):
        shmarray.dask.register()


def test_the_keys_are_read_from_the_environment(run_python):
    code = (
        "import os\n"
        "os.environ['DASK_DISTRIBUTED__SHMARRAY__MIN_SIZE'] = '3 MB'\n"
        "import shmarray.dask\n"
        "shmarray.dask.register()\n"
        "from shmarray.dask._config import Settings\n"
        "print(Settings.min_bytes, Settings.min_shared_bytes, Settings.is_enabled)\n"
    )
    assert run_python(code) == "3000000 750000 True\n"


def test_servers_of_this_process_load_it_once_however_often_it_is_registered():
    for _ in range(3):
        shmarray.dask.register()
    for kind in ("worker", "nanny", "scheduler"):
        assert dask.config.get(f"distributed.{kind}.preload").count("shmarray.dask") == 1


def test_the_wheel_does_not_need_dask(run_python):
    code = (
        "import sys\n"
        "import shmarray\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('dask', 'distributed')])"
    )
    assert run_python(code) == "[]\n"
