"""What dumps, loads and share keep of an object:

dtypes, order, identity, buffers; and what they leave.
"""

import abc
import array
import decimal
import gc
import pickle
import re
import threading
import weakref

import numpy as np
import pytest

import shmarray
from shmarray import _core
from shmarray._codec import _pickler
from shmarray._core import SegmentMemory
from ways import LARGE, WAYS, each_way, shared, through_bytes, through_bytes_beside_something_large
from working import listed_arrays

STRUCTURE = np.dtype([("x", "i1"), ("y", ">f8"), ("z", "<M8[us]", (2,))], align=True)
TITLES = np.dtype(
    {"names": ["a", "b"], "formats": ["i1", "f8"], "titles": ["A", "B"], "offsets": [0, 8]}
)
CUBE = np.arange(24.0).reshape(2, 3, 4)

PLAIN = {
    "C order": CUBE,
    "Fortran's order": np.asfortranarray(CUBE),
    "transposed": CUBE.transpose(1, 0, 2),
    "reversed": CUBE[::-1, :, ::-1],
    "broadcast": np.broadcast_to(CUBE[0], (5, 3, 4)),
    "windows": np.lib.stride_tricks.sliding_window_view(np.arange(9), 4),
    "0-d": np.array(5.5),
    "long numbers of another machine": np.zeros(512, np.dtype(np.longdouble).newbyteorder()),
    "nothing": np.zeros((0, 3)),
    "nothing in Fortran's order": np.zeros((3, 0, 2), order="F"),
    "of no bytes": np.ndarray((3,), "V0"),
    "texts of no length": np.ndarray((2, 2), np.dtype("U0"), b""),
    "of no fields": np.zeros((2, 3), np.dtype([])),
    "read-only": np.frombuffer(b"abcdefgh", "<u2"),
    "unaligned": np.arange(25, dtype="u1")[1:].view("f8"),
    "times": np.array(["2020-01-01T12", "NaT"], "M8[25us]"),
    "spans": np.arange(3).astype("m8[ns]"),
    "times of no unit": np.zeros(2, "M8"),
    "big-endian": np.arange(4, dtype=">i2"),
    "half": np.arange(3, dtype="f2"),
    "long double": np.arange(3, dtype="g"),
    "long complex": np.arange(3, dtype="G"),
    "bytes": np.array([b"ab", b""]),
    "texts": np.array(["äö", "x"]),
    "void": np.zeros(2, "V5"),
    "structured": np.zeros((3, 2), STRUCTURE),
    "titles": np.zeros(3, TITLES),
    "metadata": np.zeros(3, np.dtype("f8", metadata={"unit": "m"})),
    "records' dtype": np.zeros(3, np.dtype((np.record, [("a", "i4")]))),
}


@each_way
@pytest.mark.parametrize("source", PLAIN.values(), ids=PLAIN)
def test_plain_arrays_stay_what_they_are(source, way):
    copy = way(source)
    assert (type(copy), copy.dtype, copy.shape) == (np.ndarray, source.dtype, source.shape)
    assert (copy.dtype.metadata, copy.dtype.isalignedstruct) == (
        source.dtype.metadata,
        source.dtype.isalignedstruct,
    )
    assert copy.tobytes() == source.tobytes()
    assert copy.strides == source.strides
    assert copy.flags.writeable == source.flags.writeable
    assert copy.flags.aligned >= source.flags.aligned
    assert not np.shares_memory(copy, source)


def span(array):
    """Returns the bytes from its lowest to behind its highest."""
    reach = [
        (count - 1) * abs(stride) for count, stride in zip(array.shape, array.strides, strict=True)
    ]
    return sum(reach) + array.itemsize


GAPS = {
    "every second": np.arange(48.0).reshape(4, 3, 4)[::2],
    "a column": CUBE[:, :, 1],
    "a part, in Fortran's order": np.asfortranarray(np.arange(600.0).reshape(20, 30))[3:5, ::-2],
    "a field": np.zeros(5, STRUCTURE)["y"],
}


@each_way
@pytest.mark.parametrize("source", GAPS.values(), ids=GAPS)
def test_bytes_between_elements_are_not_sent(source, way):
    copy = way(source)
    np.testing.assert_array_equal(copy, source)
    assert (copy.dtype, copy.flags.writeable, span(copy)) == (
        source.dtype,
        source.flags.writeable,
        source.nbytes,
    )
    assert np.sign(copy.strides).tolist() == np.sign(source.strides).tolist()
    assert np.argsort(np.abs(copy.strides)).tolist() == np.argsort(np.abs(source.strides)).tolist()


@each_way
def test_aligned_arrays_stay_aligned(way):
    memory = np.zeros(LARGE, "u1")
    for sent in (
        [np.zeros(3, "u1"), np.zeros(3)],
        [memory[1:], memory[8:].view(float)],
        [memory[1:9], memory[8:16].view(float)],
    ):
        assert [array.flags.aligned for array in way(sent)] == [True, True]


OBJECTS = [
    None,
    "text",
    {"a": [1, (2.5, b"x")], 3: {4}},
    array.array("H", [1, 2]),
    bytearray(b"abc"),
    np.float64(2.5),
    np.void(b"abc"),
    np.dtype("M8[ns]"),
    range(3),
]


@each_way
@pytest.mark.parametrize("source", OBJECTS, ids=lambda source: type(source).__name__)
def test_other_objects_are_pickled_in_the_ordinary_way(source, way):
    copy = way(source)
    assert (type(copy), copy) == (type(source), source)


@each_way
def test_arrays_of_objects_are_pickled_in_the_ordinary_way_and_the_arrays_in_them_are_not(way):
    source = np.empty(4, object)
    inner = np.arange(LARGE)
    source[:] = [inner, {"inner": inner[1:]}, "text", None]
    copy = way({"deep": [source, np.array([(1, "x")], [("a", int), ("b", object)])]})["deep"]
    assert copy[1].tolist() == [(1, "x")]
    assert (copy[0][2:].tolist(), copy[0].dtype) == (["text", None], object)
    assert isinstance(copy[0][0].base, SegmentMemory)
    assert not np.shares_memory(copy[0][0], copy[0][1]["inner"])
    np.testing.assert_array_equal(copy[0][0], inner)
    cycle = np.empty(1, object)
    cycle[0] = [cycle]
    copy = way(cycle)
    assert copy[0][0] is copy


def test_texts_of_any_length_are_pickled_in_the_ordinary_way():
    kind = getattr(getattr(np, "dtypes", None), "StringDType", None)
    if kind is None:
        pytest.skip("NumPy 2 has texts of any length")
    assert through_bytes(np.array(["a", "b" * 100], kind())).tolist() == ["a", "b" * 100]


@each_way
def test_the_same_array_twice_is_one_array(way):
    for one in (
        np.zeros(3),
        np.zeros(LARGE),
        shmarray.zeros(3),
        np.ma.zeros(3),
        np.zeros(2).view(np.recarray),
    ):
        copies = way([one, {"again": one}, one.view(np.ndarray)])
        assert copies[0] is copies[1]["again"]
        assert copies[0] is not copies[2]


@each_way
def test_views_of_shared_arrays_are_never_copied(way):
    whole = shmarray.array(np.arange(LARGE))
    once_read_only = whole[3:]
    once_read_only.flags.writeable = False
    protected = shmarray.attach(shmarray.handle(whole), readonly=True)
    sent = [
        whole[4::-2],
        whole.reshape(2, -1)[:, 1:3],
        once_read_only,
        protected[::2],
        whole[:0],
        whole.view("u1")[1:],
    ]
    del whole
    before = shmarray.copied_bytes()
    got = way(sent)
    assert shmarray.copied_bytes() - before == (
        0 if way is not through_bytes_beside_something_large else LARGE
    )
    assert [shmarray.handle(copy) for copy in got] == [shmarray.handle(array) for array in sent]
    assert [copy.flags.writeable for copy in got] == [array.flags.writeable for array in sent]
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        got[3].flags.writeable = True
    got[0][:] = 77
    assert (sent[1][0, 1], got[3][1], sent[0].tolist()) == (77, 77, [77] * 3)


@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way.__name__)
def test_private_arrays_arrive_private(way):
    for size in (3, LARGE, 4 * LARGE):
        sent = np.zeros(size, "u1")
        got = way(sent)
        assert not shmarray.is_shared(got)
        with pytest.raises(ValueError, match="private"):
            shmarray.handle(got)
        sent[0] = 1
        got[1] = 2
        assert (sent[:3].tolist(), got[:3].tolist()) == ([1, 0, 0], [0, 2, 0])
        again = way(got)
        again[2] = 3
        assert (got[:3].tolist(), again[:3].tolist()) == ([0, 2, 0], [0, 2, 3])


class Buffers:
    """Passes its buffers as protocol 5 does."""

    def __init__(self, *buffers):
        self.buffers = buffers

    def __reduce_ex__(self, protocol):
        return Buffers, tuple(map(pickle.PickleBuffer, self.buffers))


@each_way
def test_buffers_are_memory_wherever_they_arrive(way):
    numbers = np.arange(LARGE)
    changing = bytearray(b"x" * LARGE)
    small = b"abc"
    got = way(Buffers(changing, small, b"", np.asfortranarray(CUBE), numbers, numbers[1:])).buffers
    assert [bytes(buffer) for buffer in got[:4]] == [changing, small, b"", CUBE.tobytes("F")]
    assert {type(buffer) for buffer in got} <= {memoryview, bytes, bytearray}
    assert [memoryview(buffer).readonly for buffer in got] == [
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    assert not np.shares_memory(np.frombuffer(got[4], int), np.frombuffer(got[5], int))
    again = way(Buffers(*got[4:])).buffers
    assert np.shares_memory(np.frombuffer(again[0]), np.frombuffer(got[4])) == (way is shared)


def test_refusals_are_those_of_pickle(files):
    class Local:
        pass

    for thing in (
        Buffers(CUBE[:, ::2]),
        memoryview(b"abc"),
        Local(),
        threading.Lock(),
        [np.zeros(LARGE), lambda: None],
    ):
        with pytest.raises((pickle.PicklingError, TypeError, AttributeError, BufferError)) as ours:
            shmarray.dumps(thing)
        with pytest.raises(ours.type, match=f"^{re.escape(str(ours.value).split('<')[0])}"):
            pickle.dumps(thing, 5, buffer_callback=[].append)
        with pytest.raises(ours.type):
            shmarray.share([thing])
    assert files() == []


@pytest.mark.parametrize("size", [1, 3, 600])
def test_plain_objects_are_packed_as_all_others_and_the_rest_is_searched(size):
    for item in (None, True, 5, 2.5, "text", b"x", shmarray.share):
        for plain in (
            (item,) * size,
            [item] * size,
            {number: [item] for number in range(size)},
            [[[item]] * size],
        ):
            assert _core.is_plain(plain, ()) == (size < 100)  # it has few parts
            assert not _core.is_plain([plain, np.zeros(3)], ())
            assert through_bytes([plain]) == [plain]
    cycle = []
    cycle.append(cycle)
    for other in (
        np.zeros(3),
        np.float64(1),
        1j,
        bytearray(),
        {1},
        type("List", (list,), {})(),
        object(),
        int,
        cycle,
    ):
        assert not _core.is_plain(other, ())
        assert not _core.is_plain([other], ())


class Bare:
    def __init__(self, **attributes):
        vars(self).update(attributes)


class Derived(Bare):
    """Has only what its base has."""


class ByReduce(Bare):
    def __reduce__(self):
        return Bare, ()


class ByState(Derived):
    def __getstate__(self):
        return {"array": np.zeros(3)}


class ByArguments(Bare):
    def __getnewargs__(self):
        return ()


class ByMissing(Bare):
    def __getattr__(self, name):
        raise AttributeError(name)


class BySlots(Bare):
    __slots__ = ("array",)


class Items(Bare, list):
    pass


class ByMetaclass(Bare, metaclass=abc.ABCMeta):
    pass


@pytest.mark.parametrize("kind", [Bare, Derived])
def test_objects_whose_class_only_names_their_attributes_are_plain(kind):
    one = kind(a=1, b=[kind(), "two"])
    assert _core.is_plain(one, ({},))
    assert not _core.is_plain(kind(array=np.zeros(3)), ({},))
    assert not _core.is_plain(one, ({}, {kind: None}))
    assert vars(through_bytes(one)).keys() == {"a", "b"}


@pytest.mark.parametrize(
    "kind", [ByReduce, ByState, ByArguments, ByMissing, BySlots, Items, ByMetaclass]
)
def test_objects_whose_class_says_how_they_are_pickled_are_not_plain(kind):
    assert not _core.is_plain(kind(), ())
    assert not _core.is_plain([kind()], ())


def test_ten_thousand_arrays_in_one_object_take_few_segments():
    for size in (3, 1000):
        sent = [np.full(size, number) for number in range(10_000)]
        data = shmarray.dumps({"all": sent})
        sizes = [info.segment_bytes for info in listed_arrays()]
        assert len(data) < 40_000
        assert len(sizes) <= 20  # each is twice as large as the one before
        got = shmarray.loads(data)["all"]
        del data
        assert [array[-1] for array in got] == list(range(10_000))
        assert {array.shape for array in got} == {(size,)}


class Leases:
    """The arrays of a message that is not sent."""

    def __init__(self, holds):
        self._holds = holds

    def memory(self, index, _mode):
        return self._holds[index]


class InACycle(_pickler.ArrayPickler):
    """A pickler whose ``dispatch_table`` has a method of its own."""

    def __init__(self):
        super().__init__()
        self.itself = self


def packed_in_a_cycle(obj):
    payload, holds = _pickler.encode(obj, InACycle)
    return _pickler.decode(b"".join(payload), Leases(holds))


def test_nothing_waits_for_the_collector_of_garbage(files):
    gc.collect()
    gc.disable()
    try:
        for way in (*WAYS, packed_in_a_cycle):
            a = shmarray.ones(LARGE)
            private = np.ones(LARGE)
            gone = weakref.ref(private)
            way([a, private, np.ma.array(private), {"a": a[1:]}, Buffers(memoryview(private))])
            del a, private
            assert gone() is None
            assert files() == []
    finally:
        gc.enable()
        gc.collect()


def test_threads_pack_at_once():
    results = []

    def work(number):
        for _ in range(20):
            got = through_bytes([np.full(LARGE, number), {"n": np.full(3, number)}])
            results.append(
                (got[0].min(), got[0].max(), got[1]["n"].tolist()) == (number, number, [number] * 3)
            )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


class Nested:
    """Packs its contents while it is packed itself."""

    def __init__(self, content):
        self.content = content

    def __reduce__(self):
        return unwrap, (shmarray.dumps(self.content),)


def unwrap(data):
    return Nested(shmarray.loads(data))


def test_a_message_in_a_message(files):
    sent = [np.ones(LARGE), Nested([np.full(LARGE, 2), Nested(shmarray.full(3, 3))])]
    one, two = through_bytes(sent)
    three = two.content[1].content
    assert (one[-1], two.content[0][-1], three.tolist()) == (1, 2, [3, 3, 3])
    assert np.shares_memory(three, sent[1].content[1].content)
    del sent, one, two, three
    assert files() == []


def test_share_gives_a_plain_array_itself_and_everything_else_anew():
    a = shmarray.zeros(3)
    assert shmarray.share(a) is a
    (copy,) = shmarray.share([a])
    assert copy is not a
    assert shmarray.handle(copy) == shmarray.handle(a)
    source = {"a": np.zeros(3), "b": [np.zeros((LARGE, 2)), CUBE.T], "c": "text"}
    got = shmarray.share(source)
    assert (list(got), got["c"]) == (["a", "b", "c"], "text")
    assert [shmarray.is_shared(array) for array in (got["a"], *got["b"])] == [True] * 3
    assert not shmarray.is_shared(source["a"])
    data = pickle.dumps(shmarray.handle(got["b"][1]))
    assert shmarray.attach(pickle.loads(data)).tolist() == CUBE.T.tolist()


class OfDecimals(_pickler.ArrayPickler):
    """A pickler with more reducers, as launchers of processes have."""

    dispatch_table = {decimal.Decimal: lambda number: (float, (str(number),))}  # noqa: RUF012


def test_a_pickler_with_more_reducers():
    payload, holds = _pickler.encode([decimal.Decimal("2.5"), np.ones(LARGE)], OfDecimals)
    got = _pickler.decode(b"".join(payload), Leases(holds))
    assert (got[0], type(got[0]), got[1].sum()) == (2.5, float, LARGE)
