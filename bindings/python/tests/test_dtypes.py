"""Every dtype without Python objects goes through another process and comes out the same."""

import json

import numpy as np
import pytest

import shmarray
from shmarray import _dtypes

PLAIN = [
    *"?bBhHiIlLqQefdgFDG",
    *(">i2", ">u8", ">f2", ">f4", ">f8", ">c8", ">c16", ">g"),
    *(
        f"{order}{kind}8[{unit}]"
        for order in "<>"
        for kind in "mM"
        for unit in ("Y", "M", "D", "25us", "ns", "as")
    ),
    *("m8", "M8", "M8[generic]"),
    *("S1", "S10", "U1", "U10", ">U3", "V1", "V16"),
]

STRUCTURED = {
    "two fields": np.dtype([("a", "<i4"), ("b", ">f8")]),
    "one field": np.dtype([("a", "i1")]),
    "no field": np.dtype([]),
    "no field but bytes": np.dtype({"names": [], "formats": [], "itemsize": 8}),
    "names as people write them": np.dtype(
        [("a b", "i1"), ("'\"\\", "i2"), ("größe", "i4"), ("日本", "u1"), ("%s{}", "?")]
    ),
    "padding": np.dtype(
        {"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [3, 16], "itemsize": 40}
    ),
    "aligned": np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True),
    "aligned without need": np.dtype([("a", "i4"), ("b", "i4")], align=True),
    "nested": np.dtype([("a", [("x", "i2"), ("y", [("z", "S3")])]), ("b", "f4")]),
    "nested aligned": np.dtype(
        [("a", np.dtype([("x", "i1"), ("y", "f8")], align=True)), ("b", "i1")]
    ),
    "aligned with nested unaligned": np.dtype(
        [("a", "i1"), ("b", [("x", "i1"), ("y", "f8")])], align=True
    ),
    "nested padding": np.dtype(
        [("a", {"names": ["x"], "formats": ["i2"], "offsets": [2], "itemsize": 8}), ("b", "u1")]
    ),
    "sub-array": np.dtype([("a", "i4", (3,)), ("b", "f8", (2, 2))]),
    "sub-array of structures": np.dtype([("a", [("x", "i1"), ("y", "f4")], (2, 3))]),
    "sub-array of aligned structures": np.dtype(
        [("a", np.dtype([("x", "i1"), ("y", "f4")], align=True), (2, 3))]
    ),
    "sub-array without elements": np.dtype([("a", "i4", (0,)), ("b", "i1")]),
    "overlapping": np.dtype(
        {"names": ["whole", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0]}
    ),
    "overlapping sub-array": np.dtype(
        {"names": ["a", "b"], "formats": [("i2", (4,)), "u1"], "offsets": [0, 3]}
    ),
    "out of order": np.dtype({"names": ["b", "a"], "formats": ["f8", "i4"], "offsets": [8, 0]}),
    "overlap inside": np.dtype(
        [("n", {"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 2]}), ("c", "i1")]
    ),
    "titles": np.dtype([(("the first", "a"), "i4"), ("b", "f8"), (("der dritte", "c"), "S3")]),
    "titles out of order": np.dtype(
        {"names": ["b", "a"], "formats": ["f8", "i4"], "offsets": [8, 0], "titles": ["B", None]}
    ),
    "empty items among fields": np.dtype([("s", "S0"), ("u", "U0"), ("v", "V0"), ("x", "i4")]),
    "times": np.dtype([("t", "M8[25s]"), ("d", ">m8[ns]")]),
    "a void field": np.dtype([("pad", "V4"), ("x", "i2")]),
    "many fields": np.dtype([(f"field {i}", "f4") for i in range(300)]),
}

EMPTY_ITEMS = ["S0", "U0", "V0", ">U0"]


def assert_same(found, expected):
    """Asserts that two dtypes are equal, also in what == ignores."""
    assert found == expected
    assert found.str == expected.str
    assert (found.itemsize, found.isalignedstruct) == (expected.itemsize, expected.isalignedstruct)
    assert (found.names, found.shape) == (expected.names, expected.shape)
    if expected.subdtype:
        assert_same(found.subdtype[0], expected.subdtype[0])
    for name in expected.names or ():
        (form, *place) = found.fields[name]
        (expected_form, *expected_place) = expected.fields[name]
        assert place == expected_place
        assert_same(form, expected_form)


@pytest.mark.parametrize(
    "dtype", [*map(np.dtype, PLAIN), *STRUCTURED.values()], ids=[*PLAIN, *STRUCTURED]
)
def test_a_dtype_round_trips_through_another_process(dtype, peer):
    array = shmarray.empty(3, dtype)
    assert_same(array.dtype, dtype)
    text = str(shmarray.handle(array))
    data = np.arange(array.nbytes, dtype="u1").tobytes()
    np.frombuffer(array.base, "u1", array.nbytes)[...] = np.frombuffer(data, "u1")
    code = (
        "b = shmarray.attach(text); answer = [b.tobytes().hex(), str(shmarray.handle(b)), "
        "str(b.dtype)]"
    )
    assert peer.run(code, text=text) == [array.tobytes().hex(), text, str(dtype)]
    for found in (shmarray.attach(text).dtype, shmarray.Handle(text).dtype):
        assert_same(found, dtype)


def test_a_big_endian_time_without_a_unit_round_trips(peer):
    # NumPy makes a little-endian one of it in a new array; a view stays as it is.
    a = shmarray.zeros(3, "i8").view(">M8")
    assert (
        peer.run("answer = shmarray.attach(text).dtype.str", text=str(shmarray.handle(a))) == ">M8"
    )


@pytest.mark.parametrize("dtype", EMPTY_ITEMS)
def test_items_without_bytes_round_trip(dtype, peer):
    # NumPy makes S1 of S0 in a new array; in a structure S0 stays S0.
    for array in (
        shmarray.zeros(3, [("a", dtype), ("b", "i4")])["a"],
        shmarray.share(np.zeros(3, [("a", dtype)])["a"]),
    ):
        assert array.dtype == np.dtype(dtype)
        assert array.itemsize == 0
        text = str(shmarray.handle(array))
        code = "b = shmarray.attach(text); answer = [b.dtype.str, b.shape, b.strides]"
        assert peer.run(code, text=text) == [array.dtype.str, [3], [*array.strides]]


@pytest.mark.parametrize("dtype", STRUCTURED.values(), ids=STRUCTURED)
def test_a_name_finds_a_structured_array_as_it_is(dtype):
    a = shmarray.zeros((2, 3), dtype, name="records")
    b = shmarray.attach("records")
    assert_same(b.dtype, dtype)
    assert shmarray.handle(a) == shmarray.handle(b)


def test_sharing_keeps_a_structured_array_as_it_is():
    source = np.zeros(3, STRUCTURED["aligned"])
    source["b"] = [1, 2, 3]
    a = shmarray.share(source)
    assert_same(a.dtype, source.dtype)
    assert a["b"].tolist() == [1, 2, 3]


def test_plain_dtypes_are_their_type_string_in_a_handle():
    for dtype in map(np.dtype, PLAIN):
        assert json.loads(str(shmarray.handle(shmarray.empty(0, dtype))))["dtype"] == dtype.str


def field_of(dtype):
    return json.loads(str(shmarray.handle(shmarray.empty(0, dtype))))["dtype"]


def test_structured_dtypes_are_what_numpys_descr_gives_with_the_item_size():
    for name in ("two fields", "padding", "nested", "sub-array", "titles"):
        dtype = STRUCTURED[name]
        descr = json.loads(json.dumps(np.lib.format.dtype_to_descr(dtype)))
        assert field_of(dtype) == {"descr": descr, "itemsize": dtype.itemsize}


def test_dtypes_beyond_numpys_descr_are_written_field_by_field():
    assert field_of(STRUCTURED["overlapping sub-array"]) == {
        "descr": {"names": ["a", "b"], "formats": [["<i2", [4]], "|u1"], "offsets": [0, 3]},
        "itemsize": 8,
    }
    assert field_of(np.dtype([("a", "i1"), ("b", "f8")], align=True)) == {
        "descr": {
            "names": ["a", "b"],
            "formats": ["|i1", "<f8"],
            "offsets": [0, 8],
            "aligned": True,
        },
        "itemsize": 16,
    }


def test_renaming_the_fields_of_an_attached_dtype_changes_no_other():
    a = shmarray.zeros(3, [("a", "i4")])
    shmarray.attach(shmarray.handle(a)).dtype.names = ("changed",)
    assert shmarray.attach(shmarray.handle(a)).dtype.names == ("a",)


def test_metadata_and_the_class_of_records_stay_behind():
    a = shmarray.share(np.zeros(3, np.dtype("i4", metadata={"unit": "m"})))
    assert shmarray.attach(shmarray.handle(a)).dtype == np.dtype("i4")
    b = shmarray.share(np.zeros(3, np.dtype((np.record, [("a", "i4")]))))
    assert shmarray.attach(shmarray.handle(b)).dtype.type is np.void


OBJECTS = {
    "object": "O",
    "a field": [("a", "i4"), ("b", "O")],
    "a nested field": [("a", [("b", "O")], (2,))],
}


@pytest.mark.parametrize("dtype", OBJECTS.values(), ids=OBJECTS)
def test_a_dtype_with_objects_is_refused_by_name(dtype):
    name = str(np.dtype(dtype))
    for make in (
        lambda: shmarray.empty(3, dtype),
        lambda: shmarray.zeros_like(np.zeros(3, dtype)),
        lambda: shmarray.share(np.zeros(3, dtype)),
        lambda: shmarray.array(np.zeros(3, dtype)),
        lambda: shmarray.handle(np.zeros(3, dtype)),
    ):
        with pytest.raises(TypeError) as caught:
            make()
        assert f"dtype {name} cannot be shared" in str(caught.value)


@pytest.mark.skipif(
    not hasattr(getattr(np, "dtypes", None), "StringDType"), reason="this NumPy has no StringDType"
)
def test_strings_of_any_length_are_refused():
    with pytest.raises(TypeError, match=r"StringDType.*cannot be shared"):
        shmarray.share(np.array(["a", "bc"], np.dtypes.StringDType()))


def test_a_title_that_is_no_text_is_refused():
    odd = np.dtype({"names": ["a"], "formats": ["i4"], "titles": [(1, 2)]})
    with pytest.raises(TypeError, match="cannot be shared"):
        shmarray.empty(3, odd)


HOSTILE = [
    "|O8",
    "|O",
    "<i3",
    "<f10",
    "<M8[parsec]",
    "|x4",
    '{"descr":[["a","|O8"]],"itemsize":8}',
    '{"descr":[["a",[["b","|O8"]]]],"itemsize":8}',
    '{"descr":[["a","object"]],"itemsize":8}',
    '{"descr":[["a","<i4"]],"itemsize":8}',
    '{"descr":[["a","<i4"]],"itemsize":-4}',
    '{"descr":[["a","<i4"]],"itemsize":"4"}',
    '{"descr":[["a","<i4"]],"itemsize":4.0}',
    '{"descr":[["a","<i4"]]}',
    '{"descr":[["a","<i4"]],"itemsize":4,"more":1}',
    '{"descr":[["a","<i4"],["a","<i4"]],"itemsize":8}',
    '{"descr":[["a","i4,i4"]],"itemsize":8}',
    '{"descr":[["a"]],"itemsize":8}',
    '{"descr":[[]],"itemsize":8}',
    '{"descr":[5],"itemsize":8}',
    '{"descr":["ab"],"itemsize":8}',
    '{"descr":[["a","<i4",[-1]]],"itemsize":8}',
    '{"descr":[["a","<i4",[99999999999]]],"itemsize":8}',
    '{"descr":[["a","<i4","3"]],"itemsize":12}',
    '{"descr":[[5,"<i4"]],"itemsize":4}',
    '{"descr":[["a",null]],"itemsize":4}',
    '{"descr":{"names":["a"],"formats":["|O8"],"offsets":[0]},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[-4]},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[6]},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[1e300]},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[99999999999999999999]},"itemsize":8}',
    '{"descr":{"names":["a","b"],"formats":["<i4"],"offsets":[0]},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[1],"aligned":true},"itemsize":8}',
    '{"descr":{"names":["a"],"formats":["<i4"]},"itemsize":4}',
    '{"descr":{"names":["a"],"formats":["<i4"],"offsets":[0],"colour":1},"itemsize":4}',
    '{"descr":{"names":["a"],"formats":[[]],"offsets":[0]},"itemsize":4}',
    '{"descr":' + "[" * 100 + "]" * 100 + ',"itemsize":4}',
]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_dtype_in_a_handle_is_refused_by_name(text):
    a = shmarray.zeros(16, "i8")[:2]  # room for larger items
    field = text if text.startswith("{") else json.dumps(text)
    handle = str(shmarray.handle(a)).replace('"<i8"', field)
    with pytest.raises(ValueError, match=r"invalid (dtype|handle: dtype)"):
        shmarray.attach(handle)


@pytest.mark.parametrize(
    "text", [*HOSTILE, "", "[]", "null", "i4", "float", "i4,i4", "{}", "{", '"<i4"']
)
def test_the_codec_itself_lets_no_hostile_text_through(text):
    with pytest.raises(ValueError, match="invalid dtype"):
        _dtypes.decode(text)


def test_decoding_checks_the_size_of_items_in_deep_places_too():
    inner = '{"descr":[["x","<i4"]],"itemsize":5}'
    with pytest.raises(ValueError, match="4 bytes, not 5"):
        _dtypes.decode(
            f'{{"descr":{{"names":["a"],"formats":[{inner}],"offsets":[0]}},"itemsize":8}}'
        )
