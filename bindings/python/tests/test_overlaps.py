"""Arrays that overlap do so where they arrive, and little else is sent."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import shmarray
import shmarray.multiprocessing as mp
from shmarray._codec import _overlaps
from shmarray._ipc import _message
from ways import each_way, through_bytes

STRUCTURE = np.dtype([("x", "i1"), ("y", ">f8"), ("z", "<M8[us]", (2,))], align=True)


def fields(a):
    records = a.ravel()[:32].view(STRUCTURE)
    return [records["x"], records["y"][::-1], records["z"], records["z"][1:, 1]]


def records(a):
    every_second = a.ravel()[:32].view(STRUCTURE)[::2]
    return [every_second, every_second[1:]]


# Views of a matrix of 6 × 6 numbers in a message, and how many bytes are copied for them.
ALIASES = {
    "a view and its base": (lambda a: [a, a[1:3]], 288),
    "only views": (lambda a: [a[0:4], a[2:5]], 240),
    "a column twice": (lambda a: [a[:, 1], a[2:, 1]], 48),
    "columns side by side": (lambda a: [a[:, column] for column in range(0, 6, 2)], 144),
    "columns that overlap": (lambda a: [a[:, 0:2], a[:, 1:3], a[1:, 4:]], 224),
    "around the end of a row": (
        lambda a: [a[:4, 5], a[1:5, 0], as_strided(a[1, 5:], (4, 2), (48, 8))],
        80,
    ),
    "backwards": (lambda a: [a[::-2, ::-1], a[:, 3]], 264),
    "transposed": (lambda a: [a.T, a, a.T[::-1]], 288),
    "sparse both ways": (lambda a: [a[::2, ::3], a[::4, ::3], a[1::2]], 288),
    "a row that repeats": (lambda a: [as_strided(a[1], (5, 6), (0, 8)), a[1, 2:]], 48),
    "a column that repeats": (lambda a: [as_strided(a[:, 1], (6, 5), (48, 0)), a[2:, 1]], 48),
    "windows": (lambda a: [sliding_window_view(a[:, 2], 3, writeable=True), a[3:, 2]], 48),
    "bytes of a number": (
        lambda a: [a.view("u1")[:, 3], a.view("u1")[:, 4], a.view("u1")[2:, 3]],
        12,
    ),
    "other numbers": (lambda a: [a, a.view("<u4"), a.reshape(-1).view("<f2")[5:9]], 288),
    "fields": (fields, 8 * 25),
    "records with bytes between their fields": (records, 4 * 32),
    "sparse both ways, repeated": (lambda a: [as_strided(a, (4, 3, 2), (0, 96, 24))], 80),
    "an end of a row and the next": (
        lambda a: [a[:4, 5], as_strided(a[0, 5:], (4, 2), (48, 8))],
        64,
    ),
}  # fmt: skip


def bytes_of(array):
    """Including the bytes between fields."""
    return array.view(f"V{array.itemsize}").tobytes()


def flip_bits(arrays, at):
    chosen = arrays[at % len(arrays)]
    index = tuple(at % count for count in chosen.shape)
    chosen[index] = np.frombuffer(
        bytes(~byte & 255 for byte in chosen[index].tobytes()), chosen.dtype
    )[0]


@each_way
@pytest.mark.parametrize("views", [views for views, _ in ALIASES.values()], ids=ALIASES)
def test_views_of_one_memory_stay_views_of_one_memory(views, way):
    source = np.arange(36, dtype="<i8").reshape(6, 6) * 1_234_567
    for base in (source, shmarray.array(source)):
        sent = views(base)
        got = way(sent)
        for at in range(12):
            assert [bytes_of(array) for array in got] == [bytes_of(array) for array in sent]
            flip_bits(got, at)
            if base is source:
                flip_bits(sent, at)


@pytest.mark.parametrize(("views", "size"), ALIASES.values(), ids=ALIASES)
def test_little_is_copied_of_what_lies_between(views, size):
    arrays = views(np.zeros((6, 6), "<i8"))
    extents = [_overlaps.extent_of(place, array) for place, array in enumerate(arrays)]
    copied = sum(copy.source.nbytes for copy in _overlaps.copies(extents))
    assert size <= copied < size + 16  # it begins at an aligned address


def test_a_part_of_each_row_is_sent_without_the_rest():
    base = np.zeros((1000, 10_000))
    before = shmarray.copied_bytes()
    kept = shmarray.share([base[:, column] for column in range(0, 2000, 20)] + [base[100:, 40]])
    assert shmarray.copied_bytes() - before <= 100 * (8000 + 64)
    assert np.shares_memory(kept[2], kept[-1])
    assert not np.shares_memory(kept[2], kept[3])


class Counted:
    """Counts how often it is pickled."""

    def __init__(self):
        self.times = 0

    def __reduce__(self):
        self.times += 1
        return Counted, ()


ONCE = {
    "a view of it": lambda a: [a, a.T, a[1:3, ::-2], a[:, 1]],
    "rows": lambda a: [*a, a[1, 2:4]],
    "columns side by side": lambda a: [a[:, column] for column in range(6)],
    "backwards": lambda a: [a[::-1, ::-1]],
    "what repeats": lambda a: [as_strided(a[1], (5, 6), (0, 8))],
    "fields": lambda a: [a.ravel()[:32].view(STRUCTURE)[name] for name in STRUCTURE.names],
    "a row of what is large": lambda a: [b := np.resize(a, (6000, 60)), b[3], b[4:6, ::2]],
}


@pytest.mark.parametrize("views", ONCE.values(), ids=ONCE)
@pytest.mark.parametrize(
    "dumps", [shmarray.dumps, ForkingPickler.dumps, _message.pack], ids=["ours", "standard", "pipe"]
)
def test_an_object_beside_small_arrays_is_pickled_once(views, dumps):
    counted = Counted()
    data = dumps([counted, *views(np.arange(36).reshape(6, 6)), counted])
    if dumps is shmarray.dumps:
        shmarray.discard(data)
    assert counted.times == 1


class Flushes:
    """Writes what is pending when it is pickled."""

    def __init__(self, size):
        self.buffer = np.zeros(size)

    def __getstate__(self):
        self.buffer[:] = 7
        return {"buffer": self.buffer[:]}


@pytest.mark.parametrize("size", [4, 1000, 20_000])
def test_a_write_during_pickling_is_in_the_objects_pickled_later(size):
    here, there = mp.Pipe()
    flushes = Flushes(size)
    threading.Thread(target=here.send, args=([flushes.buffer, flushes],)).start()
    assert there.recv()[1].buffer.tolist() == [7] * size


@pytest.mark.parametrize("start", range(0, 9, 2))
def test_an_array_within_another_keeps_its_alignment(start):
    base = np.arange(64, dtype="u1")
    sent = [base[start:], base[8:].view("<i4"), base[8:56].view("<f8")]
    for got in (through_bytes(sent), pickle.loads(pickle.dumps(sent))):
        assert [array.tolist() for array in got] == [array.tolist() for array in sent]
    assert [array.flags.aligned for array in through_bytes(sent)] == [True, True, True]


ALIGNED = {
    "rows of bytes": lambda base: [base.view("f8")[::2], base.reshape(10, 16)[:, 4:14]],
    "columns": lambda base: [
        base.view("i4").reshape(10, 4)[:, 0:2].view("f8"),
        base.view("i4").reshape(10, 4)[:, 1:3],
    ],
    "one number": lambda base: [base.reshape(10, 16)[:, 3:9], base[16:24].view("f8").reshape(())],
}


@pytest.mark.parametrize("views", ALIGNED.values(), ids=ALIGNED)
def test_arrays_with_gaps_keep_their_alignment(views):
    sent = views(np.arange(160, dtype="u1"))
    got = through_bytes(sent)
    assert [array.tolist() for array in got] == [array.tolist() for array in sent]
    assert [array.flags.aligned for array in got] == [array.flags.aligned for array in sent]


class Shrinks:
    """Takes memory from an array when it is pickled."""

    def __init__(self, array):
        self.array = array

    def __reduce__(self):
        if len(self.array) > 1:
            self.array.resize(1, refcheck=False)
        return list, ([self.array[:1]],)


def test_an_array_that_was_given_other_memory_is_not_looked_at():
    array = np.arange(100_000.0)  # its memory goes back to the system
    here, there = mp.Pipe()
    threading.Thread(target=here.send, args=([array, Shrinks(array)],)).start()
    assert there.recv()[1] == [0]


def test_an_empty_part_of_an_array_has_nothing_in_common():
    counted, a, large = Counted(), np.arange(10.0), np.zeros(1 << 20)
    here, there = mp.Pipe()
    here.send([counted, a, a[3:][:0], np.zeros((0, 1000)), large, large[1:][:0], large[2:4]])
    assert counted.times == 1
    assert [array.shape for array in there.recv()[1:]] == [
        (10,),
        (0,),
        (0, 1000),
        (1 << 20,),
        (0,),
        (2,),
    ]


def some_view(a, random):
    """Another view of the same memory."""
    axis, step = int(random.integers(a.ndim)), int(random.choice([1, 2, 3, -1, -2]))
    match random.integers(5):
        case 0 | 1:
            first, last = sorted(random.integers(0, a.shape[axis] + 1, 2))
            return a[(slice(None),) * axis + (slice(first, last),)][
                (slice(None),) * axis + (slice(None, None, step),)
            ]
        case 2:
            return a.transpose(random.permutation(a.ndim))
        case 3 if a.ndim < 4:
            return as_strided(a, (int(random.integers(1, 4)), *a.shape), (0, *a.strides))
        case 4 if a.shape[axis] > 2:
            return sliding_window_view(a, 2, axis=axis, writeable=True)
    return a


@each_way
@pytest.mark.parametrize("seed", range(40))
def test_random_views_of_random_memory(seed, way):
    random = np.random.default_rng(seed)
    sent = []
    for dtype in random.choice(["u1", "<i4", ">f8", "V3"], 3):
        shape = random.integers(1, 8, random.integers(1, 4))
        base = (
            random.integers(0, 256, shape.prod() * np.dtype(dtype).itemsize, "u1")
            .view(dtype)
            .reshape(shape)
        )
        for _ in range(4):
            sent.append(some_view(some_view(some_view(base, random), random), random))
    random.shuffle(sent)
    got = way(sent)
    for at in random.integers(0, 1 << 20, 20):
        assert [(array.tobytes(), array.dtype, array.shape) for array in got] == [
            (array.tobytes(), array.dtype, array.shape) for array in sent
        ]
        if sent[at % len(sent)].size:
            flip_bits(got, at)
            flip_bits(sent, at)
