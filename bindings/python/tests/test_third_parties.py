"""Objects of other libraries travel by shared memory, though these libraries do not know this
one.
"""

import ctypes
import importlib.util
import io

import awkward as ak
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import xarray as xr
from PIL import Image

import shmarray

COUNT = 100_000
NUMBERS = np.random.default_rng(7).random(COUNT)
TEXTS = [f"text {number % 99}" for number in range(COUNT)]
TIMES = pd.date_range("2020", periods=COUNT, freq="s", tz="Europe/Berlin")
# The bytes of a message beside memory: the structure of objects, and arrays below 32 KiB.
STRUCTURE_BYTES = 50_000


def sent(obj):
    """Returns it as another process has it, and how many bytes were copied for that."""
    before = shmarray.copied_bytes()
    data = shmarray.dumps(obj)
    copied = shmarray.copied_bytes() - before
    assert len(data) < STRUCTURE_BYTES
    return shmarray.loads(data), copied


def check(obj, is_same, arrays, size):
    """Checks that it travels by shared memory, and without a copy once it was shared."""
    got, copied = sent(obj)
    assert type(got) is type(obj)
    assert is_same(got, obj)
    assert copied >= size
    assert not any(map(shmarray.is_shared, arrays(got)))
    shared_once = shmarray.share(obj)
    assert type(shared_once) is type(obj)
    assert is_same(shared_once, obj)
    assert [shmarray.is_shared(array) for array in arrays(shared_once)] == [True] * len(arrays(obj))
    again, copied = sent(shared_once)
    assert copied == 0
    assert is_same(again, obj)
    for there, here in zip(arrays(again), arrays(shared_once), strict=True):
        assert np.shares_memory(there, here)


def test_xarray_dataset():
    dataset = xr.Dataset(
        {
            "t": (("y", "x"), NUMBERS.reshape(200, 500)),
            "when": (("y",), TIMES[:200].tz_localize(None)),
        },
        coords={"x": np.arange(500.0)},
        attrs={"unit": "K"},
    )
    check(dataset, xr.Dataset.identical, lambda dataset: [dataset["t"].values], NUMBERS.nbytes)


def test_xarray_data_array():
    cube = xr.DataArray(NUMBERS.reshape(4, 50, 500), dims=("t", "y", "x"), name="cube").transpose(
        "x", "t", "y"
    )
    check(cube, xr.DataArray.identical, lambda cube: [cube.values], NUMBERS.nbytes)


def test_many_fields_in_one_dataset_are_not_many_copies():
    names = [f"field {number}" for number in range(100)]
    shared = shmarray.zeros((100, 70, 140))
    dataset = xr.Dataset({name: (("y", "x"), shared[number]) for number, name in enumerate(names)})
    got, copied = sent(dataset)
    assert copied == 0
    got[names[3]][0, 0] = 5
    assert shared[3, 0, 0] == 5


COLUMNS = {
    "numbers": NUMBERS,
    "whole": np.arange(COUNT),
    "times": TIMES.tz_localize(None),
    "local times": TIMES,
    "spans": pd.to_timedelta(np.arange(COUNT), "s"),
    "categories": pd.Categorical([f"c{number % 7}" for number in range(COUNT)]),
    "nullable": pd.array(np.arange(COUNT), dtype="Int64"),
}


def test_pandas_frame():
    frame = pd.DataFrame(COLUMNS, index=pd.Index(NUMBERS[::-1], name="key"))

    def arrays(frame):
        return [frame[name].to_numpy() for name in ("numbers", "whole", "times")]

    check(frame, pd.DataFrame.equals, arrays, 6 * NUMBERS.nbytes)


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_pandas_series(values):
    check(pd.Series(values, name="s"), pd.Series.equals, lambda _: [], COUNT)


ARROW_COLUMNS = {
    "texts": pd.array(TEXTS, dtype="string[pyarrow]"),
    "numbers": pd.array(np.arange(COUNT), dtype="int64[pyarrow]"),
    "with nulls": pd.array([1.5, None] * (COUNT // 2), dtype="double[pyarrow]"),
}


def test_nothing_is_imported_that_a_program_has_put_off(run_python):
    program = """
import importlib.util, sys
import shmarray
for name in ("pandas", "polars"):
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
assert shmarray.loads(shmarray.dumps({1})) == {1}
kinds = [type(sys.modules[name]).__name__ for name in ("pandas", "polars")]
print(kinds, "pandas.arrays" in sys.modules)
"""
    assert run_python(program) == "['_LazyModule', '_LazyModule'] False\n"


@pytest.mark.parametrize("values", ARROW_COLUMNS.values(), ids=ARROW_COLUMNS)
def test_pandas_columns_of_arrow(values):
    is_same = lambda one, other: one.equals(other) and one.dtypes.equals(other.dtypes)  # noqa: E731
    check(pd.DataFrame({"a": values}), is_same, lambda _: [], 8 * COUNT)


def test_little_of_an_arrow_column_stays_in_the_message():
    for frame in (pd.DataFrame({"a": values}) for values in ARROW_COLUMNS.values()):
        part = frame[50:60]
        before = shmarray.copied_bytes()
        got = shmarray.loads(shmarray.dumps(part))
        assert (shmarray.copied_bytes(), got.equals(part)) == (before, True)
        part = frame[: COUNT // 10]  # pandas copies it out of the whole, and the copy is sent
        got, copied = sent(part)
        assert got.equals(part)
        assert 0 < copied < 20 * len(part)


def is_same_matrix(one, other):
    return one.shape == other.shape and one.dtype == other.dtype and abs(one - other).sum() == 0


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_scipy_sparse(form, kind):
    places = np.random.default_rng(7).integers(0, 2000, (2, COUNT))
    matrix = getattr(scipy.sparse, f"{form}_{kind}")(
        scipy.sparse.coo_array((NUMBERS, places), (2000, 2000))
    )
    check(matrix, is_same_matrix, lambda matrix: [matrix.data], matrix.data.nbytes)


ARROW = {
    "array": pa.array(NUMBERS),
    "texts": pa.array(TEXTS),
    "lists": pa.array([[1, 2], None, [3]] * 20_000),
    "table": pa.table({"a": NUMBERS, "b": TEXTS}),
    "batch": pa.record_batch({"a": NUMBERS, "b": TEXTS}),
}


@pytest.mark.parametrize("thing", ARROW.values(), ids=ARROW)
def test_pyarrow(thing):
    check(thing, lambda one, other: one.equals(other), lambda _: [], thing.nbytes // 2)


def test_an_arrow_array_over_shared_memory_is_sent_without_a_copy():
    shared = shmarray.array(NUMBERS)
    got, copied = sent(pa.table({"a": shared}))
    assert copied == 0
    shared[1] = 5
    assert got["a"][1].as_py() == 5
    assert shmarray.is_shared(got["a"].chunk(0).to_numpy())
    assert got.schema == pa.schema({"a": pa.float64()})


FRAMES = {
    "numbers": pl.DataFrame({"a": NUMBERS, "b": np.arange(COUNT, dtype="u2")}),
    "texts": pl.DataFrame({"a": TEXTS, "b": [True, None] * (COUNT // 2)}),
    "times": pl.DataFrame(
        {"a": pl.Series(np.arange(COUNT)).cast(pl.Datetime("ms", "Europe/Berlin"))}
    ),
    "a slice": pl.DataFrame({"a": np.arange(10 * COUNT)})[100:20_000],
    "in pieces": pl.concat(
        [pl.DataFrame({"a": NUMBERS}), pl.DataFrame({"a": NUMBERS[:9]})], rechunk=False
    ),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_polars(frame):
    def is_same(one, other):
        return one.equals(other, null_equal=True) and one.schema == other.schema

    check(frame, is_same, lambda _: [], COUNT // 8)
    series = frame["a"]
    got, copied = sent(series)
    assert copied >= COUNT // 8
    assert (type(got), got.name, got.equals(series)) == (pl.Series, "a", True)


OTHER_FRAMES = {
    "small": pl.DataFrame({"a": [1, 2], "b": ["x", None]}),
    "nothing": pl.DataFrame(),
    "a slice of texts": pl.DataFrame({"a": [text * 9 for text in TEXTS]})[100:2000],
    "lists": pl.DataFrame({"a": [[1, 2], None] * 5000}),
    "categories": pl.DataFrame({"a": pl.Series(TEXTS[:9000]).cast(pl.Categorical)}),
}


@pytest.mark.parametrize("frame", OTHER_FRAMES.values(), ids=OTHER_FRAMES)
def test_frames_that_polars_pickles_itself_stay_in_the_message(frame):
    before = shmarray.copied_bytes()
    got = shmarray.loads(shmarray.dumps(frame))
    assert got.equals(frame)
    assert got.schema == frame.schema
    assert shmarray.copied_bytes() == before


def test_polars_without_pyarrow(monkeypatch):
    monkeypatch.setattr("shmarray._codec._arrow.find_spec", lambda _: None)
    before = shmarray.copied_bytes()
    assert shmarray.loads(shmarray.dumps(FRAMES["numbers"])).equals(FRAMES["numbers"])
    assert shmarray.copied_bytes() == before


def test_awkward():
    jagged = ak.zip(
        {"x": ak.unflatten(NUMBERS, np.full(COUNT // 4, 4)), "y": np.arange(COUNT // 4)}
    )
    got, copied = sent(jagged)
    assert copied >= NUMBERS.nbytes
    assert ak.array_equal(got, jagged)
    assert ak.array_equal(shmarray.share(jagged), jagged)
    check(ak.Array(NUMBERS), ak.array_equal, lambda array: [ak.to_numpy(array)], NUMBERS.nbytes)


def test_pillow():
    image = Image.fromarray((NUMBERS.reshape(200, 500) * 255).astype("u1"))
    pixels, copied = sent(np.asarray(image))
    assert copied == 200 * 500
    assert Image.fromarray(pixels).tobytes() == image.tobytes()
    shared = shmarray.share(np.asarray(image))
    shared[0, :3] = 1, 2, 3
    assert [Image.frombuffer("L", (500, 200), shared).getpixel((x, 0)) for x in range(3)] == [
        1,
        2,
        3,
    ]
    assert shmarray.loads(shmarray.dumps(image)).tobytes() == image.tobytes()


def test_the_buffer_protocol():
    a = shmarray.array(np.arange(6, dtype="<u4"))
    ours = memoryview(a)
    assert (ours.format, ours.shape, ours.readonly) == ("I", (6,), False)
    ours[2] = 77
    io.BytesIO(bytes(range(8))).readinto(ours.cast("B")[16:])
    (ctypes.c_uint32 * 6).from_buffer(a)[0] = 5
    assert a.tolist() == [5, 1, 77, 3, 0x03020100, 0x07060504]
    for again in (
        np.asarray(ours),
        np.frombuffer(ours, "<u4"),
        np.frombuffer(pa.py_buffer(a), "<u4"),
    ):
        assert shmarray.is_shared(again)
        got, copied = sent(again)
        assert (copied, shmarray.handle(got)) == (0, shmarray.handle(a))


def test_dlpack():
    a = shmarray.array(NUMBERS)
    b = np.from_dlpack(a)
    assert shmarray.handle(b) == shmarray.handle(a)
    got, copied = sent(b)
    assert (copied, np.shares_memory(got, a)) == (0, True)
    column = np.from_dlpack(pa.array(a))
    assert shmarray.is_shared(column)
    assert sent(column)[1] == 0


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed: it takes 6 GB"
)
def test_torch():
    import torch

    a = shmarray.array(NUMBERS)
    for tensor in (torch.from_numpy(a), torch.from_dlpack(a), torch.asarray(a)):
        tensor += 1
        for array in (tensor.numpy(), np.from_dlpack(tensor)):
            got, copied = sent(array)
            assert (copied, shmarray.handle(got)) == (0, shmarray.handle(a))
    np.testing.assert_array_equal(a, NUMBERS + 1 + 1 + 1)
    got, _ = sent({"frame": torch.arange(COUNT).numpy()})
    assert torch.from_numpy(got["frame"]).sum() == torch.arange(COUNT).sum()
    assert torch.equal(shmarray.loads(shmarray.dumps(torch.ones(3))), torch.ones(3))
