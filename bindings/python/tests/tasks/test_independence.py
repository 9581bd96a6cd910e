"""Arrays are as independent at the receiver as the standard pickle makes them."""

import pickle
import threading
from multiprocessing.reduction import ForkingPickler

import joblib
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import dask_wire
import shmarray
import shmarray.dask
import shmarray.joblib
import shmarray.multiprocessing as mp
from shmarray._tasks._ipc import _message
from shmarray.concurrent import ProcessPoolExecutor
from ways import WAYS, each_way, through_bytes

STRUCTURE = np.dtype([("x", "i1"), ("y", ">f8"), ("z", "<M8[us]", (2,))], align=True)


def fields(a):
    records = a.ravel()[:32].view(STRUCTURE)
    return [records["x"], records["y"][::-1], records["z"], records["z"][1:, 1]]


def records(a):
    every_second = a.ravel()[:32].view(STRUCTURE)[::2]
    return [every_second, every_second[1:]]


# Views of a matrix of 6 × 6 numbers in a message.
ALIASES = {
    "a view and its base": lambda a: [a, a[1:3]],
    "only views": lambda a: [a[0:4], a[2:5]],
    "a column twice": lambda a: [a[:, 1], a[2:, 1]],
    "columns side by side": lambda a: [a[:, column] for column in range(0, 6, 2)],
    "columns that overlap": lambda a: [a[:, 0:2], a[:, 1:3], a[1:, 4:]],
    "around the end of a row": lambda a: [
        a[:4, 5],
        a[1:5, 0],
        as_strided(a[1, 5:], (4, 2), (48, 8)),
    ],
    "backwards": lambda a: [a[::-2, ::-1], a[:, 3]],
    "transposed": lambda a: [a.T, a, a.T[::-1]],
    "sparse both ways": lambda a: [a[::2, ::3], a[::4, ::3], a[1::2]],
    "a row that repeats": lambda a: [as_strided(a[1], (5, 6), (0, 8)), a[1, 2:]],
    "a column that repeats": lambda a: [as_strided(a[:, 1], (6, 5), (48, 0)), a[2:, 1]],
    "windows": lambda a: [sliding_window_view(a[:, 2], 3, writeable=True), a[3:, 2]],
    "windows in a row": lambda a: [sliding_window_view(a.ravel(), 3, writeable=True)],
    "bytes of a number": lambda a: [
        a.view("u1")[:, 3],
        a.view("u1")[:, 4],
        a.view("u1")[2:, 3],
    ],
    "other numbers": lambda a: [a, a.view("<u4"), a.reshape(-1).view("<f2")[5:9]],
    "fields": fields,
    "records with bytes between their fields": records,
    "sparse both ways, repeated": lambda a: [as_strided(a, (4, 3, 2), (0, 96, 24))],
    "one object twice": lambda a: [a, a, a[1], (b := a[2:]), b],
}


def bytes_of(array):
    """Returns the bytes of the elements, without those between fields, in the machine's byte order:
    NumPy's pickles may change it.
    """
    if array.dtype.names is not None:
        return b"".join(bytes_of(array[name]) for name in array.dtype.names)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array.tobytes()


def flip_bits(arrays, at):
    chosen = arrays[at % len(arrays)]
    index = tuple(slice(start := at % count, start + 1) for count in chosen.shape)
    flipped = bytes(~byte & 255 for byte in chosen[index].tobytes())
    chosen[index] = np.frombuffer(flipped, chosen.dtype).reshape(chosen[index].shape)


def through_pickle(obj):
    return pickle.loads(pickle.dumps(obj))


def through_a_pipe(obj):
    here, there = mp.Pipe()
    here.send(obj)
    return there.recv()


def through_a_full_pipe(obj):
    """Sends in a thread, which waits if there is no room."""
    here, there = mp.Pipe()
    sending = threading.Thread(target=here.send, args=(obj,))
    sending.start()
    got = there.recv()
    sending.join()
    return got


each_message = pytest.mark.parametrize("way", [*WAYS, through_a_pipe], ids=lambda way: way.__name__)


def flipped(arrays):
    """Flips bits in each array in turn. Yields the bytes of all arrays after each."""
    for at in range(12):
        flip_bits(arrays, at)
        yield [bytes_of(array) for array in arrays]


@each_message
@pytest.mark.parametrize("views", ALIASES.values(), ids=ALIASES)
def test_views_of_private_memory_become_what_a_pickle_makes_of_them(views, way):
    sent = views(np.arange(36, dtype="<i8").reshape(6, 6) * 1_234_567)
    assert list(flipped(way(sent))) == list(flipped(through_pickle(sent)))


@each_message
@pytest.mark.parametrize("views", ALIASES.values(), ids=ALIASES)
def test_views_of_shared_memory_stay_views_of_it(views, way):
    sent = views(shmarray.array(np.arange(36, dtype="<i8").reshape(6, 6)))
    got = way(sent)
    for at, there in enumerate(flipped(got)):
        assert there == [bytes_of(array) for array in sent], at


@each_message
def test_large_views_of_private_memory_become_what_a_pickle_makes_of_them(way):
    base = np.arange(300_000.0)
    sent = [base, base[:200_000], base[100_000:], base[::-1], base[50_000:][:3], base]
    got = way(sent)
    assert got[0] is got[-1]
    for at, array in enumerate(got[:-1]):
        array += at + 1
    wanted = through_pickle(sent)
    for at, array in enumerate(wanted[:-1]):
        array += at + 1
    assert all(np.array_equal(*pair) for pair in zip(got, wanted, strict=True))


def halve(frame):
    """Changes its argument, as programs do with frames that they were given."""
    frame *= 0.5
    return float(frame.sum())


def windows(size):
    samples = np.arange(20.0 * size)
    return [samples[start : start + size] for start in range(0, 19 * size, size // 2)]


def by_map(frames):
    with mp.get_context("fork").Pool(2) as pool:
        return pool.map(halve, frames)


def by_starmap(frames):
    with mp.get_context("fork").Pool(2) as pool:
        return pool.starmap(halve, [(frame,) for frame in frames])


def by_imap(frames):
    with mp.get_context("fork").Pool(2) as pool:
        return list(pool.imap(halve, frames, chunksize=5))


def by_executor(frames):
    with ProcessPoolExecutor(2, mp.get_context("fork")) as executor:
        return list(executor.map(halve, frames, chunksize=8))


def by_joblib(frames):
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        batches = joblib.Parallel(batch_size=8, max_nbytes=None)
        return batches(joblib.delayed(halve)(frame) for frame in frames)


@pytest.mark.parametrize("tasks", [by_map, by_starmap, by_imap, by_executor, by_joblib])
def test_tasks_with_views_that_overlap_do_not_see_one_another(tasks):
    for size in (16, 256, 4096, 300_000):
        wanted = [halve(through_pickle(frame)) for frame in windows(size)]
        assert tasks(windows(size)) == wanted, size


def test_dask_brings_views_that_overlap_as_arrays_of_their_own():
    shmarray.dask.register()
    source = np.arange(600_000.0)
    got = dask_wire.sent([source[:400_000], source[200_000:]])
    assert shmarray.is_shared(got[0])
    got[0] *= 2
    assert np.array_equal(got[1], source[200_000:])


def test_columns_side_by_side_are_sent_without_what_lies_between():
    base = np.zeros((1000, 10_000))
    before = shmarray.copied_bytes()
    shmarray.share([base[:, column] for column in range(0, 2000, 20)])
    assert shmarray.copied_bytes() - before <= 100 * (8000 + 64)


def test_a_read_only_array_that_repeats_is_sent_once():
    row = np.arange(100_000.0)
    before = shmarray.copied_bytes()
    got = through_bytes([np.broadcast_to(row, (50, 100_000)), sliding_window_view(row, 9)])
    assert shmarray.copied_bytes() - before <= 3 * row.nbytes
    assert np.array_equal(got[0][49], row)
    assert np.array_equal(got[1], sliding_window_view(row, 9))
    assert [array.flags.writeable for array in got] == [False, False]


def test_bytes_that_nobody_can_write_to_are_sent_once():
    pyarrow = pytest.importorskip("pyarrow")
    column = pyarrow.array(np.arange(100_000.0))
    before = shmarray.copied_bytes()
    got = through_bytes([column.slice(start, 9) for start in range(0, 90, 9)])
    assert shmarray.copied_bytes() - before <= 2 * column.nbytes
    assert got[3].to_pylist() == list(range(27, 36))


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
    "windows": lambda a: [a.ravel()[start : start + 8] for start in range(0, 28, 4)],
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
    flushes = Flushes(size)
    assert through_a_full_pipe([flushes.buffer, flushes])[1].buffer.tolist() == [7] * size


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
    assert through_a_full_pipe([array, Shrinks(array)])[1] == [0]


def test_an_empty_part_of_an_array_has_nothing_in_common():
    counted = Counted()
    a = np.arange(10.0)
    large = np.zeros(1 << 20)
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
    axis = int(random.integers(a.ndim))
    step = int(random.choice([1, 2, 3, -1, -2]))
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
    wanted = through_pickle(sent)
    for at in random.integers(0, 1 << 20, 20):
        for here, there, original in zip(got, wanted, sent, strict=True):
            assert (here.dtype, here.shape) == (original.dtype, original.shape)
            assert bytes_of(here) == bytes_of(there)
        if sent[at % len(sent)].size:
            flip_bits(got, at)
            flip_bits(wanted, at)
