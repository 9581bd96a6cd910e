"""Lists: what is put in comes out, as a tuple of the same items would give it."""

import base64
import collections
import copy
import dataclasses
import enum
import gc
import itertools
import json
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import tracemalloc
from pathlib import Path
from urllib.parse import DefragResult

import numpy as np
import pytest

import shmarray
from processes import run_forked
from shmarray import List
from shmarray._list import is_equal
from working import files_in, sweep_after_deaths

GOLDEN = Path(__file__).parents[3] / "ci/checks/golden/lists"
Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Sample:
    image: np.ndarray
    label: int
    caption: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    number: float
    text: str


class Odd(dict):
    """No plain dict, so its objects are pickled."""


@dataclasses.dataclass
class MoreSlots:
    __slots__ = ("extra", "x")
    x: int

    def __getstate__(self):
        return None, {"x": self.x, "extra": self.extra}


class Doubled:
    def __get__(self, instance, owner=None):
        return 0 if instance is None else instance.__dict__["x"]

    def __set__(self, instance, value):
        instance.__dict__["x"] = 2 * value


@dataclasses.dataclass
class Described:
    x: int = Doubled()


class Half(np.float64):
    pass


class Letter(enum.StrEnum):
    A = "a"


def more_slots():
    made = MoreSlots(1)
    made.extra = "more"
    return made


@dataclasses.dataclass
class Pickled:
    number: int

    def __reduce__(self):
        return Pickled, (abs(self.number),)


RECORD = {"label": 3, "text": "ä", "data": np.arange(3.0), "none": None}
KINDS = {
    "nothing": [],
    "only None": [None, None],
    "bools": [True, False, None],
    "ints": [1, -(2**63), 2**63 - 1, None],
    "floats": [1.5, float("inf"), None, -0.0],
    "complex numbers": [1 + 2j, None, 3j],
    "scalars of NumPy": [np.float32(1.5), None, np.float32(-2)],
    "dates": [np.datetime64("2026-11-30"), None, np.datetime64("1970-01-01")],
    "structured scalars": list(np.array([(1, 2.5), (3, 4.5)], "i4,f8")),
    "strings": ["", "ä", None, "text", "\0", "😀" * 100],
    "bytes": [b"", b"\0\xff", None, bytes(1000)],
    "ragged": [np.arange(3.0), None, np.array([]), np.arange(5.0)],
    "images": [np.ones((2, 3), "u1"), np.zeros((0, 4), "u1"), None, np.ones((1, 1), "u1")],
    "one shape": [np.full((2, 2), k, "<i2") for k in range(4)],
    "Fortran order": [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(6.0).reshape(3, 2),
    ],
    "views": [np.arange(10)[::3], np.arange(10)[::-2], np.arange(5)],
    "structured arrays": [np.zeros(2, "i4,f8"), np.ones(3, "i4,f8")],
    "records": [RECORD, RECORD | {"none": 1}, None, RECORD | {"text": None}],
    "records of records": [{"a": {"b": 1, "c": [1, 2]}}, None, {"a": None}],
    "empty records": [{}, {}, None],
    "dataclasses": [Sample(np.ones(2), 1, "one"), Sample(np.ones(3), 2), None],
    "frozen dataclasses with slots": [Fixed(1.5, "a"), Fixed(2.5, "b")],
    "named tuples": [Point(1, 2.5), Point(3, 4.5), None],
    "lists": [[1, 2], [], None, [3, None]],
    "tuples": [(1.5, 2.5), (), (3.5,)],
    "pairs": [(np.ones(3, "f4"), 1), (np.ones(2, "f4"), 2), None],
    "lists of lists": [[["a"], ["b", "c"]], [], [[]]],
    # What is no column of one kind is pickled.
    "ints beyond 64 bits": [1, 2**64, None],
    "ints and floats": [1, 2.5, 3],
    "bools and ints": [True, 1],
    "surrogates": ["a", "\ud800"],
    "arrays of several dtypes": [np.ones(2), np.ones(2, "f4"), np.ones((2, 2))],
    "arrays of no dimension": [np.array(1.5), np.array(2.5)],
    "arrays of objects": [np.array([1, "a"], object)],
    "masked arrays": [np.ma.array([1, 2], mask=[True, False])],
    "subclasses": [Odd(a=1), Odd(b=2)],
    "dicts with other keys": [{1: 2}, {(3, 4): "x"}],
    "texts of NumPy": [np.str_("a\0"), np.str_("")],
    "bytes of NumPy": [np.bytes_(b"a\0"), np.bytes_(b"")],
    "subclasses of scalars": [Half(1), np.float64(2)],
    "a scalar and a subclass": [np.float64(2), Half(1)],
    "records of NumPy": [np.rec.array([(1, 2.0)], dtype="i4,f8")[0]],
    "members as keys": [{"a": 1}, {Letter.A: 2}],
    "slots beside the fields": [more_slots()],
    "descriptors": [Described(1), Described(2)],
    "sets": [{1, 2}, frozenset("a")],
    "a record and a string": [{"a": 1}, "b"],
    "a field of several kinds": [{"a": 1}, {"a": "text"}, {"a": [np.ones(2)]}],
    "their own pickling": [Pickled(-1)],
    "functions and classes": [len, dict, Point],
    "tuples of several lengths": [(1, "a"), (1, "a", 2)],
}


def as_unpickled(items):
    return pickle.loads(pickle.dumps(items))


def is_same(one, other):
    """Whether two items are of one type, and equal."""
    if isinstance(one, float):
        return type(one) is type(other) and repr(one) == repr(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, MoreSlots):
        return (one.x, one.extra) == (other.x, other.extra)
    if isinstance(one, np.ndarray):
        equal = np.array_equal(np.asarray(one), np.asarray(other))
        return one.dtype == other.dtype and one.shape == other.shape and equal
    if isinstance(one, dict):
        if list(map(type, one)) != list(map(type, other)):
            return False
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    return is_equal(one, other)


def check(items, expected):
    assert len(items) == len(expected)
    assert is_same(list(items), expected), items
    for index in range(-len(expected), len(expected)):
        assert is_same(items[index], expected[index])


@pytest.mark.parametrize("name", KINDS)
def test_items_come_out_as_unpickling_would_make_them(name):
    items = as_unpickled(KINDS[name])
    check(List(iter(KINDS[name])), items)


def test_another_process_has_the_same_items(peer, tmp_path):
    for number, (name, items) in enumerate(KINDS.items()):
        made = List(items, name=f"items.{number}")
        made.save(tmp_path / "items")
        peer.run(
            "import test_lists; expected = test_lists.as_unpickled(test_lists.KINDS[name]);"
            "test_lists.check(shmarray.attach(text), expected);"
            "test_lists.check(shmarray.attach(by_name), expected);"
            "test_lists.check(shmarray.List.open(path), expected)",
            name=name,
            text=str(shmarray.handle(made)),
            by_name=f"items.{number}",
            path=str(tmp_path / "items"),
        )


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("part", ["[:]", "[1:]", "[::-1]", "[-2::-2]", "[5:2]", "[::2][::-1][1:]"])
def test_slices_are_those_of_a_tuple(name, part):
    items = as_unpickled(KINDS[name])
    check(eval(f"items{part}", {"items": List(items)}), eval(f"items{part}"))


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("ways", ["pickle", "shmarray", "copy"])
def test_a_list_and_a_part_of_one_are_sent_and_copied(name, ways):
    send = {
        "pickle": lambda items: pickle.loads(pickle.dumps(items)),
        "shmarray": lambda items: shmarray.loads(shmarray.dumps(items)),
        "copy": copy.deepcopy,
    }[ways]
    items = List(KINDS[name])
    sent = send(items)
    assert type(sent) is List
    assert is_same(list(sent), list(items))
    assert is_same(list(send(items[::-1])), list(items)[::-1])


def as_in_the_index(item):
    match item:
        case np.ndarray():
            return {"shape": list(item.shape), "elements": item.ravel().tolist()}
        case bytes():
            return item.hex()
        case tuple() if hasattr(item, "_asdict"):
            return item._asdict()
        case list() | tuple():
            return [as_in_the_index(part) for part in item]
        case dict():
            return {name: as_in_the_index(part) for name, part in item.items()}
        case np.generic():
            return item.item()
    return item


def test_golden_lists_are_what_they_were():
    index = json.loads((GOLDEN / "index.json").read_text())
    assert len(index) > 9
    for name, expected in index.items():
        items = list(List.open(GOLDEN / name))
        if name == "pairs":
            assert all(type(item) is tuple for item in items)
            items = [dict(zip("01", item, strict=True)) for item in items]
        assert [as_in_the_index(item) for item in items] == expected, name
    assert [type(item) for item in List.open(GOLDEN / "scalars")] == [float, type(None), float]
    assert [type(item) for item in List.open(GOLDEN / "tuples")] == [tuple, tuple, type(None)]
    assert type(List.open(GOLDEN / "of_a_class")[0]) is DefragResult
    table = shmarray.Dict.open(GOLDEN / "dictionary")
    assert dict(table) == {"": 0, "ä": 1} | {f"key {k}": k + 2 for k in range(19)} | {
        "key 19": None
    }


def test_a_large_list_is_sent_without_a_copy(peer):
    items = List([np.arange(1000.0) for _ in range(1000)])
    before = shmarray.copied_bytes()
    message = shmarray.dumps(items)
    assert len(message) < 1000
    assert shmarray.copied_bytes() == before
    assert peer.run(
        "import base64; items = shmarray.loads(base64.b64decode(message));"
        "answer = [len(items), float(items[999].sum()), shmarray.copied_bytes()]",
        message=base64.b64encode(message).decode(),
    ) == [1000, 499500.0, 0]


def test_arrays_are_views_of_the_shared_memory_and_read_only():
    for items in (
        List([np.arange(3), np.arange(2)]),
        List([{"a": np.arange(3)}, {"a": np.arange(2)}]).field("a"),
        List([np.arange(3), "other"]),
    ):
        array = items[0]
        assert shmarray.is_shared(array)
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True
        del items
        gc.collect()
        assert array.tolist() == [0, 1, 2]


def test_whoever_asks_can_write():
    items = List([np.arange(3), np.arange(2)], writeable=True)
    items[1][0] = 7
    assert items.values.tolist() == [0, 1, 2, 7, 1]
    seen = shmarray.attach(str(shmarray.handle(items)))
    assert not seen[1].flags.writeable
    seen.view(writeable=True)[0][2] = 9
    assert items[0].tolist() == [0, 1, 9]
    assert not items.view(writeable=False)[0].flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        shmarray.attach(str(shmarray.handle(items)), readonly=True).view(writeable=True)


def test_columns_are_ndarrays_of_the_same_memory():
    rows = [
        {"label": k, "name": str(k), "ragged": np.arange(k), "box": np.ones(4) * k}
        for k in range(5)
    ]
    items = List(rows)
    assert items.kind == "records"
    assert items.fields == ("label", "name", "ragged", "box")
    assert items.field("label").tolist() == [0, 1, 2, 3, 4]
    assert items.field("box").shape == (5, 4)
    assert items[1:4].field("box")[2].tolist() == [3.0] * 4
    assert items[::-2].field("label").tolist() == [4, 2, 0]
    ragged = items.field("ragged")
    assert (ragged.kind, ragged.dtype) == ("arrays", np.dtype("i8"))
    assert ragged.offsets.tolist() == [0, 0, 1, 3, 6, 10]
    assert [ragged.values[a:b].tolist() for a, b in itertools.pairwise(ragged.offsets)] == [
        list(range(k)) for k in range(5)
    ]
    assert ragged[2:4].offsets.tolist() == [1, 3, 6]
    names = items.field("name")
    assert bytes(names.values) == b"01234"
    assert names.offsets.tolist() == [0, 1, 2, 3, 4, 5]
    one_shape = List([np.ones((2, 2))] * 3)
    assert one_shape.values.shape == (12,)
    assert one_shape.offsets.tolist() == [0, 4, 8, 12]
    for array in (items.field("label"), items.field("box"), ragged.values, ragged.offsets):
        assert shmarray.is_shared(array)
        assert not array.flags.writeable


def test_numpy_takes_numbers_and_arrays_of_one_shape_without_a_copy():
    numbers, boxes = List(range(10)), List([np.ones((2, 2))] * 3)
    assert np.asarray(numbers).sum() == 45
    assert shmarray.is_shared(np.asarray(numbers))
    assert np.asarray(boxes[1:]).shape == (2, 2, 2)
    assert np.asarray(numbers, "f4").dtype == np.float32
    assert np.asarray(List([1.5, None])).tolist() == [1.5, None]
    assert np.asarray(List(["a", "b"])).tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="copy"):
        np.array(List(["a"]), copy=False)


def test_in_index_count_and_equality_are_those_of_a_tuple():
    for plain in ((1, 2, 2, None), ("a", "b"), (1.5, "x", (1, 2))):
        items = List(plain)
        for value in (*plain, 7, "z", None):
            assert (value in items) == (value in plain)
            assert items.count(value) == plain.count(value)
        assert items.index(plain[1]) == plain.index(plain[1])
        with pytest.raises(ValueError, match="not in the list"):
            items.index("nowhere")
        assert items == List(plain)
        assert items != List(plain[1:])
        assert items == items[:]
    assert List([float("nan")]) != List([float("nan")])
    one = List([{"a": np.arange(3)}])
    assert one == List([{"a": np.arange(3)}])
    assert one != List([{"a": np.arange(4)}])
    assert np.arange(3) in List([np.arange(2), np.arange(3)])
    assert one != [{"a": np.arange(3)}]
    with pytest.raises(TypeError):
        hash(one)


def test_it_is_a_sequence():
    items = List("abc")
    assert isinstance(items, collections.abc.Sequence)
    assert list(reversed(items)) == ["c", "b", "a"]
    assert [*iter(items)] == ["a", "b", "c"]
    assert iter(items).__length_hint__() == 3
    match items:
        case [first, *rest]:
            assert (first, rest) == ("a", ["b", "c"])
    for index in (3, -4, 2**70):
        with pytest.raises(IndexError, match="out of range"):
            items[index]
    for index in ("a", 1.0, None):
        with pytest.raises(TypeError, match="index"):
            items[index]
    assert items[np.int64(1)] == "b"
    with pytest.raises(TypeError):
        items[0] = "x"
    assert repr(items) == "<shmarray.List of 3 strings>"
    assert repr(List([{"a": 1}])) == "<shmarray.List of 1 records of a>"


class Images:
    """A data set as torch has them: it may never raise IndexError."""

    def __len__(self):
        return 3

    def __getitem__(self, index):
        return np.full(2, index), index


def test_a_data_set_without_iter_is_as_long_as_it_says():
    items = List(Images())
    assert [label for _, label in items] == [0, 1, 2]
    assert items.field("0").shape == (3, 2)
    assert items.field("1").tolist() == [0, 1, 2]


def test_progress_counts_each_item_once():
    steps = []
    assert len(List((k for k in range(100_000)), progress=steps.append)) == 100_000
    assert sum(steps) == 100_000


def test_a_generator_is_not_collected_before():
    tracemalloc.start()
    items = List(np.zeros(100_000) for _ in range(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(items) == 100
    assert peak < 5_000_000, "more than a few of the arrays were there at once"


def test_bad_input_is_named_and_leaves_nothing(directory):
    lock = threading.Lock()
    cases = [
        (TypeError, r"item 1: cannot pickle", [1, lock]),
        (TypeError, r'item 1, field "b": cannot pickle', [{"a": 1, "b": 2}, {"a": 1, "b": lock}]),
        (TypeError, r'item 0, field "a", item 1: cannot pickle', [{"a": [1, lock]}]),
        (
            ValueError,
            r"item 1 has the fields \['b'\], and those before it have \['a'\]",
            [{"a": 1}, {"b": 1}],
        ),
        (ValueError, r"item 1 has the fields \['a', 'b'\]", [{"a": 1}, {"a": 1, "b": 1}]),
    ]
    for kind, text, items in cases:
        with pytest.raises(kind, match=text):
            List(items)
    with pytest.raises(TypeError, match="iter"):
        List(5)
    with pytest.raises(ZeroDivisionError):
        List(1 / (2 - k) for k in range(5))
    with pytest.raises(ValueError, match="part of a list has no handle"):
        shmarray.handle(List([1, 2])[1:])
    shmarray.sweep()
    assert files_in(directory) == []


def test_deep_lists_are_pickled_below_the_last_column():
    deep = "bottom"
    for _ in range(40):
        deep = [deep]
    assert is_same(list(List([deep])), [deep])
    own = []
    own.append(own)
    assert List([own])[0][0] is not None


def test_a_list_lives_as_long_as_its_name_or_a_holder(peer):
    items = List(["a", "b"], name="words", persist=True, mode=0o640)
    del items
    gc.collect()
    assert peer.run("answer = list(shmarray.attach('words'))") == ["a", "b"]
    shmarray.unlink("words")
    with pytest.raises(FileNotFoundError):
        shmarray.attach("words")


def test_a_killed_creator_leaves_nothing(peer, directory):
    text = peer.run(
        "import numpy; items = shmarray.List([numpy.arange(1000.0)] * 1000);"
        "answer = str(shmarray.handle(items))"
    )
    held = shmarray.attach(text)
    peer.kill()
    sweep_after_deaths()
    assert held[999].tolist() == list(range(1000))
    del held
    shmarray.sweep()
    assert files_in(directory) == []


@pytest.mark.parametrize("name", KINDS)
def test_a_list_in_a_file_has_the_same_items(name, tmp_path):
    expected = as_unpickled(KINDS[name])
    List(KINDS[name]).save(tmp_path / "items")
    for checked in (False, True):
        check(List.open(tmp_path / "items", check=checked), expected)
    List(KINDS[name])[::-1].save(tmp_path / "items")
    check(List.open(str(tmp_path / "items")), expected[::-1])


def test_a_list_in_a_file_is_sent_as_its_path(tmp_path):
    path = tmp_path / "items"
    List([{"a": np.arange(1000), "b": k} for k in range(100)]).save(path)
    items = List.open(path)
    for send in (pickle.dumps, shmarray.dumps):
        assert len(send(items[50:])) < 1000
        again = pickle.loads(pickle.dumps(items[50:]))
        assert len(again) == 50
        assert again == items[50:]
    message = pickle.dumps(items)
    items.save(path)
    assert items[3]["b"] == 3, "the file that it maps was replaced, and stays"
    with pytest.raises(ValueError, match="replaced or changed"):
        pickle.loads(message)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(message)
    with pytest.raises(ValueError, match="others open it by its path"):
        shmarray.handle(items)


def test_stores_to_a_list_in_a_file_change_no_file(tmp_path):
    path = tmp_path / "items"
    List([np.arange(3), np.arange(2)]).save(path)
    before = path.read_bytes()
    assert not List.open(path)[0].flags.writeable
    items = List.open(path, writeable=True)
    items[0][0] = 7
    assert items.values.tolist() == [7, 1, 2, 0, 1]
    assert path.read_bytes() == before


def test_a_file_that_is_no_list_is_refused(tmp_path):
    path = tmp_path / "items"
    for wrong in (b"", b"short", bytes(100), b"shmalist" + bytes(1000)):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"items.*(magic|version)"):
            List.open(path)
    List(["a", "b"]).save(path)
    changed = bytearray(path.read_bytes())
    changed[-20] ^= 1
    path.write_bytes(changed)
    with pytest.raises(ValueError, match="checksum"):
        List.open(path, check=True)
    path.write_bytes(changed[:-100])
    with pytest.raises(ValueError, match="bytes"):
        List.open(path)
    with pytest.raises(FileNotFoundError):
        List.open(tmp_path / "none")


def test_a_killed_writer_leaves_the_older_file_or_the_new_one(tmp_path, peer):
    path = tmp_path / "items"
    List(["older"]).save(path)
    peer.run("import numpy; items = shmarray.List([numpy.zeros(1000)] * 20_000)")
    save = "threading.Thread(target=items.save, args=(path,), daemon=True).start()"
    peer.run(f"import threading; {save}", path=str(path))
    peer.kill()
    assert len(List.open(path, check=True)) in (1, 20_000)
    sweep_after_deaths()


def test_an_empty_part_is_empty_and_steps_may_be_large():
    for items in (List([1, 2, 3]), List([np.ones(2)] * 3), List([{"a": 1}] * 3).field("a")):
        empty = items[0:0][::-1]
        assert len(empty) == len(np.asarray(empty)) == 0
        assert len(items[-5:-10:-1]) == 0
    assert List(["a"])[0:0][::-1].offsets.tolist() == [0]
    assert np.asarray(List(range(10))[:: 2**62][::4]).tolist() == [0]


def test_what_says_where_items_are_is_never_written_to():
    items = List([np.ones(3), np.ones(2)], writeable=True)
    assert items.values.flags.writeable
    assert not items.offsets.flags.writeable
    assert not List(["abc"], writeable=True).values.flags.writeable
    assert List([np.ones(3), "x"], writeable=True)[0].flags.writeable


def test_comparisons_are_those_of_the_items():
    assert List([2**53 + 1]) != List([2.0**53])
    assert List([np.zeros(1, "i4,i4")[0]]) != List([1])
    assert List(["a", "b"]).index("b", -(10**30), 10**30) == 1


def test_an_exception_of_a_signal_is_not_lost():
    def interrupt(*_):
        raise KeyboardInterrupt

    def make():
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # it may come before the list is begun
        List(items)

    signal.signal(signal.SIGALRM, interrupt)
    items = [list(range(3_000_000))] * 100
    try:
        with pytest.raises(KeyboardInterrupt):
            make()
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_arrays_keep_their_byte_order():
    found = List([np.arange(3, dtype=">i2"), np.arange(2, dtype=">i2")])[1]
    assert (found.dtype, found.tolist()) == (np.dtype(">i2"), [0, 1])


def test_records_of_very_many_fields_are_pickled():
    wide = {str(number): number for number in range(70_000)}
    assert List([wide, wide])[1] == wide


def samples(count):
    """Yields arrays of 400 KB."""
    for number in range(count):
        yield np.full(100_000, number, "f4")


def build_within_little_private_memory():
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmData"))
    most = (int(line.split()[1]) << 10) + (100 << 20)
    resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))
    with pytest.raises(MemoryError):
        np.zeros(200 << 20, "u1")
    items = shmarray.List(samples(800))
    assert items.nbytes > 300 << 20
    assert all((items[number] == number).all() for number in range(800))


def test_a_generator_gives_more_than_the_private_memory():
    run_forked(build_within_little_private_memory)


def build_in_nearly_all_of_the_shared_memory():
    items = shmarray.List(samples(76))  # 29 of 32 MiB
    assert all((items[number] == number).all() for number in range(76))
    del items
    with pytest.raises(MemoryError, match="a list of 100 items and 4000"):
        shmarray.List(samples(100))
    assert shmarray.segments() == []


def test_a_list_needs_its_memory_once(small_tmpfs):
    small_tmpfs(f"size={32 << 20}")
    run_forked(build_in_nearly_all_of_the_shared_memory)


def make_and_keep(items, reader):
    """Says the handle of a list, and keeps the list until its reader has ended.

    A reader that may only read cannot remove what it holds last.
    """
    items = shmarray.List(items, mode=0o644)
    reader.send_bytes(str(shmarray.handle(items)).encode())
    assert reader.recv_bytes() == b"read"


def read_as_another_user(maker):
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    items = shmarray.attach(maker.recv_bytes().decode())
    assert items[1]["pixels"].tolist() == [0, 1]
    assert items[0]["name"] == "one"
    with pytest.raises(ValueError, match="read-only"):
        items.view(writeable=True)


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_another_user_reads_a_list_whose_mode_says_so():
    os.chmod(os.environ["SHMARRAY_DIR"], 0o1777)
    rows = [{"name": name, "pixels": np.arange(k)} for k, name in ((1, "one"), (2, "two"))]
    reader, maker = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=make_and_keep, args=(rows, reader))
    process.start()
    reader.close()
    with maker:
        run_forked(read_as_another_user, maker)
        maker.send_bytes(b"read")
    process.join()
    assert process.exitcode == 0
