"""Functions of a worker whose results are born shared: what programs do with NumPy, SciPy, pandas
and xarray, and what they keep of it.
"""

import collections
import ctypes
import dataclasses
import functools
import io
import pickle
import threading
import weakref

import numpy as np
import pandas as pd
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.sparse
import xarray as xr

COUNT = 200_000
MOVED = {}
"""The functions of whose results nothing is copied."""
COPIED = {}
"""The functions of whose results something is copied, each with the reasons."""
HOSTILE = []
"""Functions that keep something of their result, or change it while it is sent. Each is called
several times. Of the result the first array is looked at.
"""

kept = {}


def moved(function):
    MOVED[function.__name__] = function
    return function


def copied(*reasons):
    def decorate(function):
        COPIED[function.__name__] = function, set(reasons)
        return function

    return decorate


def hostile(function):
    HOSTILE.append(function)
    return function


def numbers(seed=7):
    return np.random.default_rng(seed)


def frame_of_columns():
    return pd.DataFrame(
        {
            "a": np.arange(COUNT) % 7,
            "b": np.arange(COUNT, dtype=float),
            "c": np.ones(COUNT, "f4"),
            "t": pd.date_range("2020", periods=COUNT, freq="s"),
        }
    )


def grid():
    return xr.Dataset(
        {"a": (("y", "x"), np.ones((400, 500))), "b": (("y", "x"), np.zeros((400, 500), "f4"))},
        coords={
            "x": np.arange(500.0),
            "y": np.arange(400.0),
            "z": (("y", "x"), np.ones((400, 500))),
        },
    )


# NumPy and SciPy.


@moved
def full():
    return np.full(COUNT, 3.0)


@moved
def temporaries():
    a = np.ones(COUNT)
    return a * 2 + a


@moved
def zeros_that_are_filled():
    a = np.zeros((COUNT, 3))
    a[:] = 1
    return a


@moved
def transposed():
    return np.ones((400, 500)).T


@moved
def half():
    return np.ones(2 * COUNT)[COUNT:]


@moved
def split():
    return np.split(np.ones(COUNT * 4), 4)


@moved
def many():
    return [np.full(COUNT // 4, number) for number in range(10)]


@moved
def stacked():
    return np.stack([np.ones((200, 200)) for _ in range(10)])


@moved
def structured():
    return np.zeros(COUNT, [("x", "f8"), ("y", "i4")])


@moved
def dates():
    return np.arange(COUNT).astype("M8[s]")


@moved
def texts():
    return np.arange(COUNT).astype("U10")


@moved
def chosen():
    a = np.arange(COUNT * 2)
    return a[a % 2 == 0]


@moved
def in_order():
    return np.sort(numbers().random(COUNT))


@moved
def unique():
    return np.unique(numbers().integers(0, COUNT, COUNT), return_inverse=True)


@moved
def mesh():
    return np.meshgrid(np.arange(400.0), np.arange(500.0))


@moved
def masked():
    return np.ma.masked_less(numbers().random(COUNT), 0.5)


@moved
def read_only():
    a = np.ones(COUNT)
    a.flags.writeable = False
    return a


@moved
def from_a_file():
    file = io.BytesIO()
    np.save(file, np.ones(COUNT))
    file.seek(0)
    return np.load(file)


@moved
def transform():
    return np.fft.fft(np.ones(COUNT))


@moved
def real_transform():
    return scipy.fft.rfft2(np.ones((400, 500)))


@moved
def filtered():
    return scipy.ndimage.gaussian_filter(np.ones((400, 500)), 2)


@moved
def factors():
    return scipy.linalg.lu_factor(numbers().random((300, 300)))


@moved
def sparse():
    return scipy.sparse.random(3000, 3000, 0.02, format="csr", random_state=7)


@moved
def resized():
    a = np.ones(COUNT // 2)
    a.resize(COUNT)
    return a


@moved
def nothing():
    return np.ones((0, COUNT)), np.float64(3), None


# pandas and xarray.


@moved
def frame():
    return frame_of_columns()


@moved
def two_columns():
    return frame_of_columns()[["a", "b"]]


@moved
def query():
    made = frame_of_columns()
    return made[made.a > 2]


@moved
def new_column():
    made = frame_of_columns()
    made["d"] = made.b * 2
    return made


@moved
def merged():
    return frame_of_columns().merge(pd.DataFrame({"a": range(7), "k": np.arange(7.0)}), on="a")


@moved
def grouped():
    return frame_of_columns().groupby("a").b.transform("mean")


@moved
def concatenated():
    return pd.concat([frame_of_columns() for _ in range(3)], ignore_index=True)


@moved
def by_index():
    made = frame_of_columns().set_index("a").sort_index()
    made.loc[3]
    return made


@moved
def categories():
    made = frame_of_columns()
    made["a"] = made.a.astype("category")
    return made


@moved
def pivoted():
    made = frame_of_columns()
    made["i"] = made.index // 7
    return made.pivot(index="i", columns="a", values="b")


@moved
def hours():
    made = frame_of_columns()
    made["h"] = made.t.dt.hour
    return made


@moved
def values_of_a_column():
    return frame_of_columns().b.values


@moved
def data_set():
    return grid()


@moved
def data_set_of_an_expression():
    made = grid()
    made["c"] = made.a * made.b
    return made


@moved
def mean_of_data_sets():
    return xr.concat([grid() for _ in range(3)], "time").mean("time")


@moved
def interpolated():
    return grid().a.interp(x=np.linspace(0, 499, 300))


@moved
def values_of_a_variable():
    return grid().a.values


@moved
def frame_of_a_data_set():
    return grid().to_dataframe()


# Objects.


@dataclasses.dataclass
class Record:
    name: str
    image: np.ndarray
    more: dict


class Model:
    def __init__(self):
        self.weights = np.ones((300, 300))
        self.me = None

    def fit(self, rows):
        self.fitted = rows.copy()
        return self


class Node:
    def __init__(self, parent=None):
        self.parent = parent
        self.children = []
        self.data = np.ones(COUNT)
        if parent is not None:
            parent.children.append(self)


class Lazy:
    @functools.cached_property
    def data(self):
        return np.ones(COUNT)


@moved
def record():
    return Record("a", np.ones((400, 500)), {"k": np.zeros(COUNT)})


@moved
def model():
    return Model().fit(np.ones((2000, 50)))


@moved
def model_that_refers_to_itself():
    made = Model()
    made.me = made
    return made.fit(np.ones((2000, 50)))


@moved
def tree():
    root = Node()
    Node(root)
    Node(root)
    return root


@moved
def cached_property():
    return Lazy().data


@moved
def object_with_a_cached_property():
    made = Lazy()
    assert len(made.data) == COUNT
    return made


@moved
def after_an_exception():
    a = np.ones(COUNT)
    try:
        raise ValueError(1)
    except ValueError as error:
        str(error)
    return a


@moved
def exception_in_a_local():
    a = np.ones(COUNT)
    kept_error = None
    try:
        raise ValueError(1)
    except ValueError as error:
        kept_error = error  # a cycle: the frame, the exception, its traceback
    return a if kept_error else None


@moved
def closure():
    a = np.ones(COUNT)

    def again(count):
        return a if count == 0 else again(count - 1)  # a cycle

    return again(3)


@moved
def generator():
    return list(np.full(COUNT // 2, number) for number in range(3))  # noqa: C400


@moved
def thread():
    made = []
    other = threading.Thread(target=lambda: made.append(np.ones(COUNT) * 2))
    other.start()
    other.join()
    return made[0]


# Copied, and rightly.


@copied("part")
def tenth():
    return np.ones(10 * COUNT)[:COUNT]


@copied("gaps")
def column():
    return np.ones((COUNT, 4))[:, 1]


@copied("gaps")
def selection():
    return grid().a.sel(x=slice(0, 400))


@copied("shared")
def twice_and_a_part():
    a = np.ones(COUNT)
    return {"all": a, "part": a[: COUNT // 2 + 100_000 // 8], "again": a}


@copied("part")
def end_of_a_large_one():
    return np.ones(40 * COUNT)[-COUNT:]


@copied("alignment")
def off_by_a_byte():
    return np.zeros(8 * COUNT + 1, "u1")[1:].view("f8")


@functools.lru_cache
def cached(count):
    return np.full(count, 7.0)


@copied("held")
def in_a_cache():
    return cached(COUNT)


@copied("held")
def in_a_global():
    kept["last"] = np.ones(COUNT)
    return kept["last"]


@copied("held")
def with_a_view():
    a = np.ones(COUNT)
    kept["view"] = a[:10]
    return a


@copied("held")
def with_a_memoryview():
    a = np.ones(COUNT)
    kept["memory"] = memoryview(a)
    return a


@copied("held")
def in_a_traceback():
    a = np.ones(COUNT)
    try:
        raise ValueError(1)
    except ValueError as error:
        kept["error"] = error
    return a


class Refuses(type):
    def __getattr__(cls, name):
        raise KeyError(name)


class Odd(metaclass=Refuses):
    """An object whose class cannot be asked for an attribute."""

    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return list, ([self.data],)


@copied("finalizer")
def of_an_odd_class():
    return [Odd(np.ones(COUNT))]


@copied("finalizer")
def with_a_proxy():
    made = Record("a", np.ones(COUNT), {})
    kept["proxy"] = weakref.proxy(made)
    return [made]


# Hostile.


class Wiper:
    def __init__(self):
        self.data = np.ones(COUNT)

    def __del__(self):
        self.data[:] = 0


class Packs:
    def __init__(self, data):
        self.data = data

    def __reduce__(self):
        return Packs, (self.data * 2,)


free = collections.deque()


class Pooled:
    def __init__(self):
        self.data = free.pop() if free else np.empty(COUNT)
        self.data[:] = 3

    def __del__(self):
        free.append(self.data)

    def __reduce__(self):
        return list, ([self.data],)


@hostile
def wiped_by_its_finalizer():
    return Wiper()


def where_data_outlives_callbacks(function):
    """From NumPy 2.5 on an array's memory is freed before its weak references are called."""
    return hostile(function) if np.lib.NumpyVersion(np.__version__) < "2.5.0" else function


@where_data_outlives_callbacks
def wiped_by_a_callback():
    a = np.ones(COUNT)
    weakref.finalize(a, ctypes.memset, a.ctypes.data, 0, a.nbytes).atexit = False
    return a


@where_data_outlives_callbacks
def base_wiped_by_a_callback():
    return wiped_by_a_callback()[:]


@hostile
def temporary_of_reduce():
    return Packs(np.ones(COUNT))


@hostile
def buffer_of_a_free_list():
    return Pooled()


class OwnBase(np.ndarray):
    """A subclass with an attribute that hides NumPy's."""

    @property
    def base(self):
        return self


@hostile
def view_of_an_own_base():
    a = np.ndarray.__new__(OwnBase, COUNT)
    a[:] = 3
    return np.ndarray.view(a, np.ndarray)


class Guard:
    def __init__(self, data):
        self.data = data

    def __del__(self):
        self.data[:] = 0


@hostile
def beside_garbage_that_wipes():
    a = np.ones(COUNT)
    guard = Guard(a)
    guard.me = guard
    return a


@hostile
def beside_a_generator_that_wipes():
    def wipes(data):
        try:
            yield
        finally:
            data[:] = 0

    a = np.ones(COUNT)
    kept["generator"] = wipes(a)
    next(kept["generator"])
    return a


@hostile
def with_ctypes():
    a = np.ones(COUNT)
    kept["ctypes"] = (ctypes.c_char * 8).from_buffer(a)
    return a


@hostile
def with_dlpack():
    a = np.ones(COUNT)
    kept["dlpack"] = a.__dlpack__()
    return a


@hostile
def with_a_pickle_buffer():
    a = np.ones(COUNT)
    kept["buffer"] = pickle.PickleBuffer(a)
    return a


@hostile
def with_strides():
    a = np.ones(COUNT)
    kept["strides"] = np.lib.stride_tricks.as_strided(a, (COUNT // 2,), (16,))
    return a


@hostile
def output_buffer():
    a = kept.setdefault("output", np.empty(COUNT))
    np.add(1, 2, out=a)
    return a


@hostile
def with_an_iterator():
    a = np.ones(COUNT)
    kept["iterator"] = np.nditer(a)
    return a


@hostile
def with_its_flat():
    a = np.ones(COUNT)
    kept["flat"] = a.flat
    return a


@hostile
def with_a_method():
    a = np.ones(COUNT)
    kept["method"] = a.sum
    return a


@hostile
def windows():
    return np.lib.stride_tricks.sliding_window_view(np.ones(COUNT), 3)


@hostile
def overlapping():
    a = np.arange(COUNT, dtype=float)
    return [a[1:], a[:-1], a]
