"""Dictionaries: a key finds what a dict would, and nothing else."""

import copy
import gc
import pickle
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import shmarray
from shmarray import Dict, List
from shmarray._list import is_equal
from working import files_in

SAMPLES = {
    "strings": {"a": 1, "ä": None, "": 3, "a" * 1000: 4},
    "bytes": {b"": "x", b"\0": None, b"\xff" * 100: "y"},
    "integers": {0: 1.5, -1: 2.5, 2**63 - 1: None, -(2**63): 4.5},
    "arrays": {str(k): np.arange(k) for k in range(100)},
    "records": {k: {"label": k, "text": str(k)} for k in range(1000)},
    "anything": {"a": 1, "b": "x", "c": {1: np.ones(3)}},
    "nothing": {},
}
NO_KEYS = ["nowhere", b"nowhere", 12345, 1.5, None, (1, 2), "\ud800", 2**70, float("nan")]


def check(found, expected):
    assert len(found) == len(expected)
    assert list(found) == list(expected)
    assert [type(key) for key in found] == [type(key) for key in expected]
    for key, value in expected.items():
        assert key in found
        assert is_equal(found[key], value)
        assert is_equal(found.get(key), value)
    for key in [*NO_KEYS, *SAMPLES["strings"], *SAMPLES["integers"]]:
        assert (key in found) == (key in expected), key
        assert is_equal(found.get(key, "none"), expected.get(key, "none"))
    assert is_equal(list(found.values()), list(expected.values()))
    assert is_equal(list(found.items()), list(expected.items()))
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("name", SAMPLES)
def test_it_is_the_dict_that_it_was_made_of(name, peer, tmp_path):
    expected = SAMPLES[name]
    made = Dict(expected, name="samples")
    check(made, expected)
    check(Dict(iter(expected.items())), expected)
    assert made == expected
    assert expected == made
    assert made == Dict(expected)
    made.save(tmp_path / "samples")
    check(Dict.open(tmp_path / "samples", check=True), expected)
    for sent in (
        pickle.loads(pickle.dumps(made)),
        shmarray.loads(shmarray.dumps(made)),
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(Dict.open(tmp_path / "samples"))),
    ):
        assert type(sent) is Dict
        check(sent, expected)
    peer.run(
        "import test_dicts; expected = test_dicts.SAMPLES[name];"
        "test_dicts.check(shmarray.attach(text), expected);"
        "test_dicts.check(shmarray.attach('samples'), expected);"
        "test_dicts.check(shmarray.Dict.open(path), expected)",
        name=name,
        text=str(shmarray.handle(made)),
        path=str(tmp_path / "samples"),
    )


def test_keys_that_are_equal_find_the_same():
    numbers = Dict({1: "one"})
    for key in (1, True, 1.0, np.int64(1), np.float32(1), 1 + 0j, Decimal(1), Fraction(1)):
        assert numbers[key] == "one"
    assert Dict({-1: "x"})[np.int64(-1)] == "x"
    assert Dict([["a", 1]])["a"] == 1
    assert Dict({"a": 1})[np.str_("a")] == 1
    assert "1" not in numbers
    assert b"a" not in Dict({"a": 1})


def test_it_is_a_mapping_of_read_only_arrays():
    made = Dict({"a": np.arange(3), "b": np.arange(2)})
    assert isinstance(made, Mapping)
    assert dict(made).keys() == {"a", "b"}
    assert {**made}.keys() == {"a", "b"}
    match made:
        case {"a": found}:
            assert found.tolist() == [0, 1, 2]
    assert type(made.values()) is List
    assert made.values().offsets.tolist() == [0, 3, 5]
    with pytest.raises(TypeError):
        made["a"] = 1
    array = made["a"]
    assert shmarray.is_shared(array)
    assert not array.flags.writeable
    made.view(writeable=True)["a"][0] = 7
    del made
    gc.collect()
    assert array.tolist() == [7, 1, 2]
    for send in (pickle, shmarray):
        values = Dict({"a": 1, "b": 2}).values()
        assert list(send.loads(send.dumps(values[1:]))) == [2]
    assert repr(Dict({"a": 1})) == "<shmarray.Dict of 1 strings to numbers>"


def test_bad_keys_and_values_are_named_and_leave_nothing(directory):
    cases = [
        (TypeError, "key 1 is 2, and those before it are strings", {"a": 1, 2: 3}),
        (TypeError, r"key 0: expected str, bytes or int of 64 bits, not \(1, 2\)", {(1, 2): 3}),
        (TypeError, "key 0: expected .*, not an int beyond 64 bits", {2**64: 3}),
        (TypeError, "key 0: expected .*, not True", {True: 3}),
        (TypeError, "key 0: expected .*, not 1.0", {1.0: 3}),
        (ValueError, "number 0 and number 2 are the same", [("a", 1), ("b", 2), ("a", 3)]),
        (TypeError, "item 1: cannot pickle", {"a": 1, "b": (k for k in "ab")}),
        (ValueError, "item 1 has the fields", {"a": {"x": 1}, "b": {"y": 1}}),
        (TypeError, "iter", 5),
        (TypeError, "item 0 is no pair", [1]),
        (ValueError, "item 1 has 3 parts, and a pair has 2", [("a", 1), ("b", 2, 3)]),
    ]
    for kind, text, mapping in cases:
        with pytest.raises(kind, match=text):
            Dict(mapping)
    with pytest.raises(KeyError, match="nowhere"):
        Dict({"a": 1})["nowhere"]
    with pytest.raises(TypeError, match="unhashable"):
        Dict({"a": 1})[["a"]]
    shmarray.sweep()
    assert files_in(directory) == []


def test_a_list_is_no_dictionary(tmp_path):
    List(["a"]).save(tmp_path / "list")
    Dict({"a": 1}).save(tmp_path / "dict")
    values = Dict.open(tmp_path / "dict").values()
    assert list(pickle.loads(pickle.dumps(values))) == [1]
    with pytest.raises(ValueError, match="it is a list"):
        Dict.open(tmp_path / "list")
    with pytest.raises(ValueError, match="it is a dictionary"):
        List.open(tmp_path / "dict")
