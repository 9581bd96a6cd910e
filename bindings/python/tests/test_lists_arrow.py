"""Lists as arrays of Arrow and back. pyarrow says what they are."""

import ctypes
import datetime
import decimal
import gc
import threading

import numpy as np
import pytest

import shmarray
from shmarray import List
from test_lists import KINDS, Fixed, Point, Sample, is_same
from working import files_in

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

# Dtypes and items that Arrow has no type for, and their place.
REFUSED = {
    "complex numbers": "the items: .* no numbers of the dtype <c16",
    "structured scalars": "the items: .* no numbers of the dtype",
    "structured arrays": "the items: .* no numbers of the dtype",
    "dates": r"the items: .* no numbers of the dtype <M8\[D\]",
}
PICKLED = list(KINDS)[list(KINDS).index("ints beyond 64 bits") :]
MORE = {
    "moments": [np.datetime64("2026-11-30T01:02:03.004", "ms"), None],
    "durations": [np.timedelta64(5, "us"), None, np.timedelta64(-1, "us")],
    "small numbers": [np.uint8(3), None, np.uint8(255)],
    "halves": [np.float16(1.5), np.float16(-2)],
    "bools of arrays": [np.array([True, False]), np.array([], bool), None],
    "boxes": [np.arange(6.0).reshape(2, 3) + k for k in range(5)],
    "boxes of bools": [np.array([[True, False]]), np.array([[False, True]])],
    "rows": [np.arange(4, dtype="u2") + k for k in range(5)],
    "rows without elements": [np.zeros((0, 2), "f4")] * 3,
    "lists of arrays": [[np.arange(3.0), np.arange(2.0)], [], None],
    "lists of strings": [["a", None], [], None, ["ä"]],
    "tuples of several kinds": [(1, "a"), (2, "b"), None],
    "cubes": [np.ones((1, 2, 3), "f4"), None, np.zeros((2, 2, 2), "f4")],
}
ALL = {name: KINDS[name] for name in KINDS if name not in (*REFUSED, *PICKLED)} | MORE


def as_arrow(item):
    """What `to_pylist` makes of an item."""
    if isinstance(item, np.ndarray):
        return item.ravel().tolist()
    if isinstance(item, np.generic):
        return item.item()
    if isinstance(item, Sample | Fixed):
        names = type(item).__dataclass_fields__
        return {name: as_arrow(getattr(item, name)) for name in names}
    if isinstance(item, Point):
        return {name: as_arrow(value) for name, value in item._asdict().items()}
    if isinstance(item, dict):
        return {name: as_arrow(value) for name, value in item.items()}
    if isinstance(item, list):
        return [as_arrow(value) for value in item]
    return item


def is_equal_to(array, items):
    return array.to_pylist() == [as_arrow(item) for item in items]


def as_plain(item):
    """What `from_arrow` makes of an item that was exported."""
    if isinstance(item, Sample | Fixed):
        names = type(item).__dataclass_fields__
        return {name: as_plain(getattr(item, name)) for name in names}
    if isinstance(item, Point):
        return item._asdict()
    return item


@pytest.mark.parametrize("name", [name for name in ALL if name != "floats"])
def test_pyarrow_reads_the_items(name):
    items = List(ALL[name])
    array = items.to_arrow()
    array.validate(full=True)
    assert len(array) == len(items)
    assert array.null_count == sum(item is None for item in ALL[name])
    shapes = {item.ndim for item in ALL[name] if isinstance(item, np.ndarray)}
    if shapes and max(shapes) > 1 and items.to_arrow().type.__class__ is pa.StructType:
        for got, item in zip(array.to_pylist(), ALL[name], strict=True):
            expected = item and None if item is None else as_arrow(item)
            assert (got and got["data"]) == expected
            assert item is None or tuple(got["shape"]) == item.shape
    elif name in ("pairs", "tuples of several kinds"):
        expected = [item and {"0": as_arrow(item[0]), "1": item[1]} for item in ALL[name]]
        assert array.to_pylist() == expected
    elif name == "tuples":
        assert array.to_pylist() == [list(item) for item in ALL[name]]
    else:
        assert is_equal_to(array, ALL[name])


def back_again(items):
    return List.from_arrow(items.to_arrow())


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("part", ["[:]", "[1:]", "[1:2]", "[5:]", "[:0]"])
def test_the_way_back_gives_equal_items(name, part):
    items = eval(f"items{part}", {"items": List(ALL[name])})
    for source in (items, items.to_arrow(), pa.chunked_array([items.to_arrow()] * 2)):
        again = List.from_arrow(source)
        expected = [as_plain(item) for item in items]
        if isinstance(source, pa.ChunkedArray):
            expected += expected
        assert is_equal_items(again, expected), (list(again), expected)


def is_equal_items(got, expected):
    """Whether items are the same, but for Python's numbers in place of int64 and double."""
    return is_same([plain_number(item) for item in got], [plain_number(item) for item in expected])


def plain_number(item):
    if isinstance(item, np.int64 | np.float64 | np.bool_):
        return item.item()
    if isinstance(item, dict):
        return {name: plain_number(value) for name, value in item.items()}
    if isinstance(item, list):
        return [plain_number(value) for value in item]
    return item


@pytest.mark.parametrize("name", PICKLED)
def test_what_only_python_reads_is_refused(name):
    with pytest.raises(TypeError, match="pickles, which Arrow has no type for"):
        List(KINDS[name]).to_arrow()


@pytest.mark.parametrize("name", REFUSED)
def test_a_dtype_that_arrow_lacks_is_named(name):
    with pytest.raises(TypeError, match=REFUSED[name]):
        List(KINDS[name]).to_arrow()


def test_another_byte_order_is_refused():
    with pytest.raises(TypeError, match=r"the items: .* no numbers of the dtype >i2"):
        List([np.ones(2, ">i2")]).to_arrow()


def test_pickles_and_steps_are_refused():
    items = List([{"a": 1, "b": [{1}]}, {"a": 2, "b": [{2}]}])
    with pytest.raises(TypeError, match=r'^field "b", the items of each: .* pickles'):
        items.__arrow_c_schema__()
    with pytest.raises(TypeError, match="pickles"):
        items.to_arrow()
    for part in (slice(None, None, 2), slice(None, None, -1)):
        with pytest.raises(ValueError, match="step"):
            List(range(5))[part].__arrow_c_array__()
        assert List(List(range(5))[part]).to_arrow().to_pylist() == list(range(5))[part]
    assert List(range(5))[3:2:-1].to_arrow().to_pylist() == [3]


def addresses(array):
    return [buffer and buffer.address for buffer in array.buffers()]


def test_nothing_is_copied():
    rows = [{"n": k, "text": "ä" * k, "data": np.arange(k), "box": np.ones(3)} for k in range(9)]
    items = List(rows)
    array = items.to_arrow()
    assert array.field("n").buffers()[1].address == items.field("n").ctypes.data
    for name in ("text", "data"):
        column = items.field(name)
        found = [address for address in addresses(array.field(name)) if address]
        assert found == [column.offsets.ctypes.data, column.values.ctypes.data]
    assert addresses(array.field("box"))[-1] == items.field("box").ctypes.data
    part = items[3:5].to_arrow()
    assert (part.offset, len(part)) == (3, 2)
    assert addresses(part) == addresses(array)
    assert part.to_pylist() == array.to_pylist()[3:5]
    no_boxes = List([np.ones((1, 2)), np.ones((2, 1))])[:0]
    assert List.from_arrow(List.from_arrow(no_boxes).to_arrow()) == no_boxes
    before = shmarray.copied_bytes()
    assert pa.array(items).equals(array)
    assert items.__arrow_c_array__(requested_schema=items.__arrow_c_schema__())
    assert shmarray.copied_bytes() == before


def test_a_list_in_a_file_is_read_in_place(tmp_path):
    rows = [{"n": k, "text": "x" * k, "box": np.ones((k, 2))} for k in range(5)]
    List(rows).save(tmp_path / "rows")
    items = List.open(tmp_path / "rows")
    array = items.to_arrow()
    assert array.field("n").buffers()[1].address == items.field("n").ctypes.data
    again = List.from_arrow(items)
    assert is_same(list(again), rows)
    del items
    gc.collect()
    assert array.field("text").to_pylist() == ["x" * k for k in range(5)]


def test_records_are_batches_and_tables():
    items = List([{"a": 1, "b": "x"}, {"a": 2, "b": None}])
    for table in (pa.record_batch(items), pa.table(items)):
        assert table.to_pylist() == list(items)
        assert list(List.from_arrow(table)) == list(items)


def test_types_are_those_that_arrow_has():
    types = [
        ((True,), pa.bool8()),
        ((1,), pa.int64()),
        ((1.5,), pa.float64()),
        ((np.float16(1),), pa.float16()),
        ((np.datetime64(1, "ns"),), pa.timestamp("ns")),
        ((np.timedelta64(1, "s"),), pa.duration("s")),
        (("a",), pa.large_string()),
        ((b"a",), pa.large_binary()),
        ((None,), pa.null()),
        (((1.5, 2.5),), pa.large_list(pa.float64())),
    ]
    for items, kind in types:
        assert List(items).to_arrow().type == kind
    one, two = np.ones(3, "f4"), np.ones((2, 3), "u1")
    assert List([one, one]).to_arrow().type == pa.list_(pa.float32(), 3)
    assert List([two, two]).to_arrow().type == pa.fixed_shape_tensor(pa.uint8(), [2, 3])
    assert List([two, two]).to_arrow().to_numpy_ndarray().shape == (2, 2, 3)
    assert List([one, one[1:]]).to_arrow().type == pa.large_list(pa.float32())
    boxes = List([two, two[1:]]).to_arrow().type
    assert boxes == pa.struct({"data": pa.large_list(pa.uint8()), "shape": pa.list_(pa.int64(), 2)})
    record = List([{"a": 1, "b": "x"}]).to_arrow().type
    assert record == pa.struct({"a": pa.int64(), "b": pa.large_string()})


def test_the_memory_lives_as_long_as_an_array_of_it(directory):
    items = List([{"a": np.arange(k), "b": str(k)} for k in range(1000)])
    array = items.to_arrow()
    del items
    gc.collect()
    child = array.field("a")
    expected = [list(range(k)) for k in range(1000)]
    assert child.to_pylist() == expected
    del array
    gc.collect()
    shmarray.sweep()
    assert child.to_pylist() == expected
    assert len(files_in(directory)) > 0
    threads = [threading.Thread(target=child.to_pylist) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del child
    gc.collect()
    shmarray.sweep()
    assert files_in(directory) == []


def test_capsules_that_nobody_takes_release_the_memory(directory):
    items = List(np.arange(k) for k in range(100))
    for _ in range(1000):
        items.__arrow_c_array__()
        items.__arrow_c_schema__()
    capsules = items.__arrow_c_array__()
    del items
    gc.collect()
    shmarray.sweep()
    assert len(files_in(directory)) > 0
    del capsules
    shmarray.sweep()
    assert files_in(directory) == []


def test_an_array_is_released_at_the_end_of_the_interpreter(run_python):
    code = """
import numpy, pyarrow, shmarray, threading, time
array = shmarray.List([numpy.ones(1 << 21), numpy.ones(3)]).to_arrow()
small = shmarray.List(["a", "b"]).to_arrow()
class Late:
    def __del__(self, array=array):
        pass
late = Late()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print(len(array), small)
"""
    assert run_python(code).startswith("2 ")


ARROW = {
    "bits": pa.array([True, False, None] * 7),
    "all bits": pa.array([True, False] * 70),
    "int64": pa.array([1, None, -3]),
    "uint8": pa.array([1, None, 3], pa.uint8()),
    "double": pa.array([1.5, None, 2.5]),
    "float": pa.array([1.5, 2.5], pa.float32()),
    "strings": pa.array(["a", None, "ä" * 50, ""] * 5),
    "large strings": pa.array(["a", None, "ä" * 50, ""] * 5, pa.large_string()),
    "string views": pa.array(["a", None, "ä" * 50, "", "x" * 12, "y" * 13] * 5, pa.string_view()),
    "binary": pa.array([b"a", None, b"\0" * 50, b""]),
    "binary views": pa.array([b"a", None, b"\0" * 50, b""], pa.binary_view()),
    "large binary": pa.array([b"a", None], pa.large_binary()),
    "fixed binary": pa.array([b"abc", None, b"def"], pa.binary(3)),
    "lists of strings": pa.array([["a", None], [], None]),
    "lists of lists": pa.array([[["a"], []], None, [None]]),
    "fixed lists of strings": pa.array([["a", "b"], None], pa.list_(pa.string(), 2)),
    "records": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "nothing": pa.nulls(4),
    "nothing at all": pa.array([], pa.string()),
    "no lists": pa.array([], pa.list_(pa.list_(pa.string()))),
    "dictionary": pa.array(["a", "b", None, "a"]).dictionary_encode(),
    "run ends": pa.RunEndEncodedArray.from_arrays([2, 5], pa.array(["a", "b"])),
    "list views": pa.array([["a"], None, ["b", "c"]], pa.list_view(pa.string())),
    "large list views": pa.array([["a"], None, ["b"]], pa.large_list_view(pa.string())),
    "dictionaries in fixed lists": pa.array(
        [["x", "y"], None, ["y", None]], pa.list_(pa.dictionary(pa.int8(), pa.string()), 2)
    ),
    "dictionaries inside": pa.array(
        [{"a": ["x", "y"]}, None, {"a": None}, {"a": ["y"]}],
        pa.struct({"a": pa.list_(pa.dictionary(pa.int8(), pa.string()))}),
    ),
}


@pytest.mark.parametrize("name", ARROW)
def test_arrays_of_pyarrow_become_lists(name):
    array = ARROW[name]
    expected = array.to_pylist()
    check(array, expected)
    for first, length in ((1, 2), (1, None), (3, 1), (0, 0), (2, 9)):
        check(array.slice(first, length), expected[first:][:length])
    check(pa.chunked_array([array, array.slice(1), array.slice(0, 0)]), expected + expected[1:])
    check(pa.chunked_array([], array.type), [])
    empty = array.slice(0, 0)
    check(
        pa.StructArray.from_arrays([array, array], ["a", "b"]).slice(1),
        [{"a": item, "b": item} for item in expected[1:]],
    )
    check(
        pa.table({"a": pa.chunked_array([array, empty, array])}),
        [{"a": item} for item in expected * 2],
    )
    offsets = [0, len(array) // 2, len(array) // 2, len(array)]
    nested = [expected[: offsets[1]], [], expected[offsets[1] :]]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), array)
    check(lists, nested)
    check(lists.slice(2), nested[2:])


def check(array, expected):
    items = List.from_arrow(array)
    assert [as_arrow(item) for item in items] == expected
    assert List.from_arrow(items.to_arrow()) == items
    items.to_arrow().validate(full=True)


def test_numbers_are_pythons_where_pythons_are_the_same():
    table = pa.table(
        {
            "a": pa.array([1]),
            "b": pa.array([1.5]),
            "c": pa.array([True]),
            "d": pa.array([1], pa.int16()),
            "e": pa.array([1.5], pa.float32()),
        }
    )
    (row,) = List.from_arrow(table)
    types = [type(value) for value in row.values()]
    assert types == [int, float, bool, np.int16, np.float32]


def test_lists_of_numbers_are_arrays():
    ragged = pa.array([[1.5, 2.5], [], None, [3.5]])
    for array in (
        ragged,
        ragged.cast(pa.large_list(pa.float64())),
        pa.array(ragged.to_pylist(), pa.list_view(pa.float64())),
    ):
        items = List.from_arrow(array)
        assert (items.kind, items.dtype) == ("arrays", np.dtype("f8"))
        assert is_same(list(items), [np.array([1.5, 2.5]), np.array([]), None, np.array([3.5])])
        assert is_same(list(List.from_arrow(array.slice(1))), list(items)[1:])
    fixed = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2))
    assert List.from_arrow(fixed).values.tolist() == [1, 2, 3, 4, 5, 6]
    assert np.asarray(List.from_arrow(fixed.slice(1))).tolist() == [[3, 4], [5, 6]]
    holes = pa.array([[1, 2], None, [5, 6]], pa.list_(pa.int16(), 2))
    rows = List.from_arrow(holes)
    assert rows.values.tolist() == [1, 2, 5, 6]
    assert is_same(list(rows), [np.array([1, 2], "i2"), None, np.array([5, 6], "i2")])
    square = pa.array([[[1, 2], [3, 4]]] * 3, pa.list_(pa.list_(pa.int16(), 2), 2))
    assert np.asarray(List.from_arrow(square)).shape == (3, 2, 2)
    with_none = List.from_arrow(pa.array([[1, None], [], None, [3]]))
    assert is_same(list(with_none), [[1, None], [], None, [3]])
    bits = pa.array([[True, False], [True]])
    assert is_same(list(List.from_arrow(bits)), [np.array([True, False]), np.array([True])])
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12.0).reshape(2, 2, 3))
    assert np.asarray(List.from_arrow(tensor)).tolist() == tensor.to_numpy_ndarray().tolist()
    holes = pa.ExtensionArray.from_storage(
        tensor.type, pa.array([range(6), None], pa.list_(pa.float64(), 6))
    )
    assert is_same(list(List.from_arrow(holes)), [np.arange(6.0).reshape(2, 3), None])


def test_values_of_what_is_none_are_left_out():
    """An array of Arrow may have some where an item is None."""
    bits = pa.py_buffer(bytes([0b101]))
    offsets = pa.py_buffer(np.array([0, 2, 3, 5], "i4"))
    texts = pa.Array.from_buffers(pa.string(), 3, [bits, offsets, pa.py_buffer(b"abXcd")])
    items = List.from_arrow(texts)
    assert list(items) == ["ab", None, "cd"]
    assert bytes(items.values) == b"abcd"
    for values, kind, expected in (
        (pa.array([1, 2, 9, 3, 4]), np.array, [1, 2, 3, 4]),
        (pa.array(["a", "b", "X", "c", "d"]), list, ["a", "b", "c", "d"]),
    ):
        lists = pa.Array.from_buffers(pa.list_(values.type), 3, [bits, offsets], children=[values])
        items = List.from_arrow(lists)
        assert is_same(list(items), [kind(expected[:2]), None, kind(expected[2:])])
    fields = [pa.field("a", pa.string())]
    records = pa.StructArray.from_arrays(
        [pa.array(["x", "y"])], fields=fields, mask=pa.array([True, False])
    )
    assert list(List.from_arrow(records)) == [None, {"a": "y"}]


def test_times_and_dates():
    moment = datetime.datetime(2026, 11, 30, 1, 2, 3)
    for unit in ("s", "ms", "us", "ns"):
        (item, none) = List.from_arrow(pa.array([moment, None], pa.timestamp(unit)))
        assert is_same(item, np.datetime64("2026-11-30T01:02:03", unit))
        assert none is None
        aware = pa.array([moment], pa.timestamp(unit)).cast(pa.timestamp(unit, "Europe/Berlin"))
        assert is_same(List.from_arrow(aware)[0], item)
        duration = pa.array([datetime.timedelta(seconds=5)], pa.duration(unit))
        assert is_same(List.from_arrow(duration)[0], np.timedelta64(5, "s").astype(f"m8[{unit}]"))
    days = pa.array([datetime.date(2026, 11, 30), None, datetime.date(1969, 1, 1)])
    for array in (days, days.cast(pa.date64())):
        dates = [item and item.astype(datetime.datetime) for item in List.from_arrow(array)]
        assert [date and str(date)[:10] for date in dates] == ["2026-11-30", None, "1969-01-01"]
    assert List.from_arrow(days).dtype == np.dtype("M8[D]")


def test_maps_are_lists_of_pairs():
    maps = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64()))
    assert list(List.from_arrow(maps)) == [[("a", 1), ("b", None)], None, []]


def test_types_without_items_are_named():
    kinds = pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string()))
    cases = [
        (pa.array([[("a", "b")]], kinds), "in map<string, dictionary.* are not decoded"),
        (pa.array([decimal.Decimal("1.5")]), '^the items: .*"d:2,1"'),
        (pa.table({"a": [[datetime.time(1)]]}), '^field "a", the items of each: .*ttu'),
    ]
    for array, text in cases:
        with pytest.raises(TypeError, match=text):
            List.from_arrow(array)
    for wrong in (5, [1, 2], None):
        with pytest.raises(TypeError, match="__arrow_c_array__"):
            List.from_arrow(wrong)
    shape = pa.fixed_shape_tensor(pa.int8(), [2, 3], permutation=[1, 0])
    turned = pa.ExtensionArray.from_storage(shape, pa.array([range(6)], pa.list_(pa.int8(), 6)))
    with pytest.raises(TypeError, match=r"permuted to \[1, 0\]"):
        List.from_arrow(turned)
    twice = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r'the items: .*two are named "a"'):
        List.from_arrow(twice)


def test_a_name_a_mode_and_a_full_memory(small_tmpfs, peer):
    items = List.from_arrow(pa.array(["a", "b"]), name="words", persist=True, mode=0o640)
    assert peer.run("answer = list(shmarray.attach('words'))") == ["a", "b"]
    with pytest.raises(FileExistsError):
        List.from_arrow(pa.array(["a"]), name="words")
    shmarray.unlink("words")
    del items
    small_tmpfs("size=1m")
    with pytest.raises(MemoryError, match="a list of 1000000 items and 8000000 bytes"):
        List.from_arrow(pa.array(np.zeros(1_000_000)))


def test_a_stream_that_fails_says_why():
    def batches():
        yield pa.record_batch({"a": [1]})
        raise ZeroDivisionError("in the middle")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(ValueError, match="in the middle"):
        List.from_arrow(reader)
    done = pa.RecordBatchReader.from_batches(
        pa.schema({"a": pa.int64()}), [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})]
    )
    assert list(List.from_arrow(done)) == [{"a": 1}, {"a": 2}, {"a": 3}]


class Schema(ctypes.Structure):
    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


class Array(ctypes.Structure):
    _fields_ = [
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.POINTER(ctypes.c_void_p)),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    ]


POINTER = ctypes.pythonapi.PyCapsule_GetPointer
POINTER.restype = ctypes.c_void_p
POINTER.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Broken:
    """Capsules of an array that was changed, and later is as it was."""

    def __init__(self, array):
        self.capsules = array.__arrow_c_array__()
        schema, array = self.capsules
        self.schema = Schema.from_address(POINTER(schema, b"arrow_schema"))
        self.array = Array.from_address(POINTER(array, b"arrow_array"))

    def __arrow_c_array__(self, requested_schema=None):
        return self.capsules


@pytest.mark.parametrize("count", [3, 1 << 21])
def test_a_thread_releases_an_array_without_the_gil(count, directory):
    items = List([np.ones(count), np.ones(3)])
    capsules = items.__arrow_c_array__()
    del items
    address = POINTER(capsules[1], b"arrow_array")
    array = Array.from_address(address)
    release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(array.release)  # ctypes gives the GIL up
    thread = threading.Thread(target=release, args=(address,))
    thread.start()
    thread.join()
    assert array.release is None
    shmarray.sweep()
    assert files_in(directory) == []


TEXTS = pa.array(["a", "bc", None])


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("length", -1, "has -1 items"),
        ("offset", -1, "from -1 on"),
        ("offset", 2**62, "items from"),
        ("length", 2**61, "items from"),
        ("null_count", -2, "-2 None"),
        ("n_buffers", 2, "has 2 buffers"),
        ("n_buffers", -1, "has -1 buffers"),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)(), "no buffers"),
        ("release", None, "released already"),
    ],
)
def test_broken_arrays_are_refused(field, value, text):
    broken = Broken(TEXTS)
    before = getattr(broken.array, field)
    setattr(broken.array, field, value)
    with pytest.raises(ValueError, match=text):
        List.from_arrow(broken)
    if field == "release":
        broken.array.release = before  # nobody took it


@pytest.mark.parametrize(
    ("field", "value", "error", "text"),
    [
        ("format", b"what", TypeError, "the format 'what'|\"what\""),
        ("format", b"w:-3", ValueError, "the format"),
        ("format", b"w:x", ValueError, "the format"),
        ("format", b"+l", ValueError, "0 children"),
        ("format", b"+w:99999999999", ValueError, "the format"),
        ("format", b"\xff", ValueError, "UTF-8"),
        ("format", None, ValueError, "no format"),
        ("n_children", -1, ValueError, "no children"),
        ("n_children", 2, ValueError, "no children"),
        ("release", None, ValueError, "released already"),
    ],
)
def test_broken_schemas_are_refused(field, value, error, text):
    broken = Broken(TEXTS)
    before = getattr(broken.schema, field)
    setattr(broken.schema, field, value)
    with pytest.raises(error, match=text):
        List.from_arrow(broken)
    setattr(broken.schema, field, before)


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [-1, 0, 1, 2], [3, 2, 1, 0], [0, -5, 1, 3]])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("bits", [None, bytes([0b111]), bytes([0b011])])
def test_offsets_that_fall_are_refused(offsets, wide, bits):
    numbers = np.array([0, 1, 2, 3], "i8" if wide else "i4")
    buffers = [bits and pa.py_buffer(bits), pa.py_buffer(numbers)]
    text = pa.large_string() if wide else pa.string()
    texts = pa.Array.from_buffers(text, 3, [*buffers, pa.py_buffer(b"abc")])
    kind = pa.large_list if wide else pa.list_
    children = [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    lists = [
        pa.Array.from_buffers(kind(child.type), 3, buffers, children=[child]) for child in children
    ]
    numbers[:] = offsets  # pyarrow itself has checked those before
    for array in (texts, *lists):
        with pytest.raises(ValueError, match=r"offsets|values from"):
            List.from_arrow(array)


def test_children_that_are_too_short_are_refused():
    offsets = np.array([0, 2, 3], "i4")
    buffers = [None, pa.py_buffer(offsets)]
    child = pa.array([1, 2, 3])
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, buffers, children=[child])
    offsets[2] = 9
    with pytest.raises(ValueError, match="too few items: 9 from 0 on, of 3"):
        List.from_arrow(lists)
    records = pa.array([{"a": 1}] * 3)
    broken = Broken(TEXTS)
    broken.capsules = (records.__arrow_c_array__()[0], broken.capsules[1])
    with pytest.raises(ValueError, match="has 3 buffers"):
        List.from_arrow(broken)
    broken = Broken(records)
    broken.array.length = 4
    with pytest.raises(ValueError, match=r'field "a": .* too few items'):
        List.from_arrow(broken)


def test_views_that_lead_out_of_their_buffers_are_refused():
    view = np.array([20, 0, 0, 0], "i4")
    for changed in ([20, 0, 1, 0], [20, 0, -1, 0], [20, 0, 0, -1], [20, 0, 0, 1], [-1, 0, 0, 0]):
        buffers = [None, pa.py_buffer(np.array(changed, "i4")), pa.py_buffer(b"x" * 20)]
        views = pa.Array.from_buffers(pa.string_view(), 1, buffers)
        with pytest.raises(ValueError, match="a view of Arrow leads out of it"):
            List.from_arrow(views)
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"x" * 20)]
    assert list(List.from_arrow(pa.Array.from_buffers(pa.string_view(), 1, buffers))) == ["x" * 20]


def test_objects_that_give_no_capsules_are_refused():
    class Odd:
        def __init__(self, given):
            self.given = given

        def __arrow_c_array__(self, requested_schema=None):
            return self.given

    for given in (None, 5, (1, 2), (1,), TEXTS.__arrow_c_array__()[::-1]):
        with pytest.raises((TypeError, ValueError)):
            List.from_arrow(Odd(given))


def test_without_pyarrow_the_errors_say_what_to_install(monkeypatch):
    array = pa.array(["a"]).dictionary_encode()
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        List([1]).to_arrow()
    with pytest.raises(ImportError, match=r"decodes dictionaries.*pip install pyarrow"):
        List.from_arrow(array)


def test_many_arrays_come_and_go(directory):
    for _ in range(300):
        items = List.from_arrow(pa.table({"a": ["x"] * 100, "b": [[1.5, 2.5]] * 100}))
        items.to_arrow()
    before = pa.total_allocated_bytes()
    source = pa.array(np.arange(100_000))
    List.from_arrow(source)
    del source, items
    gc.collect()
    assert pa.total_allocated_bytes() <= before
    shmarray.sweep()
    assert files_in(directory) == []


def test_polars():
    pl = pytest.importorskip("polars", reason="Polars is not installed")
    items = List([{"a": k, "text": "x" * k, "data": np.arange(k)} for k in range(20)])
    frame = pl.DataFrame(pa.RecordBatch.from_struct_array(items.to_arrow()))
    assert frame["text"].to_list() == ["x" * k for k in range(20)]
    assert pl.Series(items.field("data").to_arrow()).to_list()[3] == [0, 1, 2]
    assert pl.Series([1, 2]).equals(pl.Series(List([1, 2])))
    assert pl.from_arrow(List(["a", None, "b"]).to_arrow()).to_list() == ["a", None, "b"]
    again = List.from_arrow(frame)
    assert again == List.from_arrow(items)
    assert list(List.from_arrow(pl.Series(["a", None, "y" * 30]))) == ["a", None, "y" * 30]
    kinds = pl.Series(["a", "b", "a"], dtype=pl.Categorical)
    assert list(List.from_arrow(kinds)) == ["a", "b", "a"]
    frame = pl.DataFrame({"n": [1, None], "l": [["a"], []], "d": [[1.5], [2.5]], "b": [True, None]})
    assert list(List.from_arrow(frame)) == [
        {"n": 1, "l": ["a"], "d": np.array([1.5]), "b": True},
        {"n": None, "l": [], "d": np.array([2.5]), "b": None},
    ]


def test_duckdb():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    items = List([{"a": k, "text": str(k)} for k in range(1000)])
    shared = pa.Table.from_struct_array(items.to_arrow())  # noqa: F841 (DuckDB finds it)
    assert duckdb.sql("SELECT sum(a), max(length(text)) FROM shared").fetchall() == [(499500, 3)]
    found = duckdb.sql("SELECT a, text FROM shared WHERE a < 3 ORDER BY a")
    assert list(List.from_arrow(found)) == [{"a": k, "text": str(k)} for k in range(3)]


def test_pandas():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    assert list(List.from_arrow(frame)) == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    items = List([{"a": 1, "b": "x"}])
    table = pa.Table.from_struct_array(items.to_arrow())
    assert table.to_pandas().to_dict("records") == [{"a": 1, "b": "x"}]


def test_offsets_that_lead_out_of_the_list_reach_no_reader(tmp_path):
    path = tmp_path / "items"
    List([b"xx", b""]).save(path)
    whole = bytearray(path.read_bytes())
    place = whole.index((2).to_bytes(8, "little"), 192)
    whole[place] = 64
    path.write_bytes(whole)
    with pytest.raises(shmarray.Error, match="offsets"):
        List.open(path).to_arrow()
