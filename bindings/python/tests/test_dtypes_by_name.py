"""The dtypes of ml_dtypes go everywhere by their names, and have the values that it gives them."""

import io
import json
import math
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from numpy._core._rational_tests import rational  # a dtype of somebody else's

import shmarray
import shmarray.multiprocessing as mp
from later import is_later
from shmarray import _core

PACKAGE = vars(ml_dtypes).values()
EVERY = {
    scalar.__name__: np.dtype(scalar)
    for scalar in PACKAGE
    if isinstance(scalar, type) and issubclass(scalar, np.generic)
}
DTYPES = {name: dtype for name, dtype in EVERY.items() if not is_later(dtype)}
BYTES = [name for name, dtype in DTYPES.items() if dtype.itemsize == 1]

every_dtype = pytest.mark.parametrize("name", DTYPES)


def some(name, shape=(2, 3)):
    """Returns an array with different elements."""
    dtype = EVERY[name]
    size = math.prod(shape) * dtype.itemsize
    return (np.arange(size, dtype="u4") % 251).astype("u1").view(dtype).reshape(shape)


def test_the_package_has_the_dtypes_that_this_library_was_made_for():
    assert len(DTYPES) >= 20


@pytest.mark.parametrize("name", EVERY.keys() - DTYPES.keys() or ["bfloat16"])
def test_what_a_later_package_adds_goes_to_another_process_too(name, peer):
    shared = shmarray.share(some(name))
    code = "b = shmarray.attach(text); answer = [str(b.dtype), b.tobytes().hex()]"
    assert peer.run(code, text=str(shmarray.handle(shared))) == [name, shared.tobytes().hex()]
    assert shmarray.loads(shmarray.dumps([shared]))[0].dtype == EVERY[name]


@every_dtype
def test_a_shared_array_has_the_name_in_its_handle(name, peer):
    array = some(name)
    shared = shmarray.share(array)
    text = str(shmarray.handle(shared))
    assert json.loads(text)["dtype"] == name
    code = (
        "b = shmarray.attach(text); "
        "answer = [str(b.dtype), b.tobytes().hex(), str(shmarray.handle(b))]"
    )
    assert peer.run(code, text=text) == [name, array.tobytes().hex(), text]
    assert shmarray.Handle(text).dtype == shared.dtype == array.dtype


@every_dtype
def test_the_functions_that_create_take_the_dtype(name):
    dtype = DTYPES[name]
    assert shmarray.empty((2, 3), dtype).dtype == dtype
    ones = shmarray.ones(3, dtype.type, name="named")
    assert ones.tobytes() == np.ones(3, dtype).tobytes()
    assert shmarray.attach("named").dtype == dtype
    strided = shmarray.zeros((4, 6), dtype)[::2, ::-3]
    assert shmarray.attach(shmarray.handle(strided)).strides == strided.strides


@every_dtype
@pytest.mark.parametrize("shape", [(3,), (300_000,)], ids=["small", "large"])
def test_messages_take_arrays_of_the_dtype(name, shape):
    for array in (some(name, shape), shmarray.share(some(name, shape))):
        back = shmarray.loads(shmarray.dumps({"a": array, "b": array[::2]}))
        assert back["a"].dtype == back["b"].dtype == array.dtype
        assert back["a"].tobytes() == array.tobytes()
        assert back["b"].tobytes() == array[::2].tobytes()


@every_dtype
def test_channels_take_arrays_of_the_dtype(name):
    array = some(name)
    with (
        shmarray.Channel.create("frames", array.shape, array.dtype) as channel,
        shmarray.Channel.open("frames") as other,
    ):
        assert channel.dtype == array.dtype
        channel.send(array)
        with other.receive() as received:
            assert received.dtype == array.dtype
            assert received.tobytes() == array.tobytes()


def reversed_copy(array):
    return array[::-1].copy()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float4_e2m1fn", "int4"])
def test_workers_take_and_give_arrays_of_the_dtype(name):
    array = some(name, (100_000,))
    with mp.Pool(1) as pool:
        (result,) = pool.map(reversed_copy, [array])
    assert result.dtype == array.dtype
    assert result.tobytes() == array[::-1].tobytes()


@every_dtype
def test_a_file_is_what_numpy_writes_where_numpy_can_read_it(name):
    array = some(name)
    ours, theirs = io.BytesIO(), io.BytesIO()
    shmarray.save_npy(ours, array)
    np.save(theirs, array)
    theirs.seek(0)
    try:
        np.load(theirs)
    except ValueError:  # numpy.load refuses the type string that numpy.save writes for some
        assert ours.getvalue() != theirs.getvalue()
    else:
        assert ours.getvalue() == theirs.getvalue()
    ours.seek(0)
    assert np.load(ours).view(array.dtype).tobytes() == array.tobytes()
    assert shmarray.load_npy(ours.getvalue()).dtype == f"V{array.itemsize}"


def test_a_file_with_a_name_is_read_as_numpy_reads_it_once_the_package_is_imported():
    array = some("bfloat16", (4,))
    file = io.BytesIO()
    np.save(file, array.view("u2"))
    data = file.getvalue().replace(b"'<u2', ", b"'bfloat16', ").replace(b"      \n", b"\n", 1)
    data = data[:8] + (len(data) - 10 - array.nbytes).to_bytes(2, "little") + data[10:]
    assert np.load(io.BytesIO(data)).dtype == array.dtype
    loaded = shmarray.load_npy(data)
    assert loaded.dtype == array.dtype
    assert loaded.tobytes() == array.tobytes()


def test_a_structured_dtype_has_names_in_its_fields(peer):
    dtype = np.dtype(
        [("a", ml_dtypes.bfloat16), ("b", ml_dtypes.int4, (2,)), ("c", "<i4")], align=True
    )
    array = shmarray.zeros(3, dtype)
    array["a"] = [1.5, -2, 0.25]
    text = str(shmarray.handle(array))
    assert json.loads(text)["dtype"]["descr"]["formats"] == ["bfloat16", ["int4", [2]], "<i4"]
    found = shmarray.attach(text)
    assert (found.dtype, found.dtype.isalignedstruct) == (dtype, True)
    code = "answer = [str(d[0]) for d in shmarray.attach(text).dtype.fields.values()]"
    assert peer.run(code, text=text) == ["bfloat16", "(int4, (2,))", "int32"]
    assert found["a"].astype("f4").tolist() == [1.5, -2, 0.25]


def test_a_list_of_fields_may_have_names(peer):
    array = shmarray.zeros(2, "V6")
    field = '{"descr":[["x","bfloat16"],["y","<f4"]],"itemsize":6}'
    text = str(shmarray.handle(array)).replace('"|V6"', field)
    assert peer.run("answer = str(shmarray.attach(text).dtype.fields['x'][0])", text=text) == (
        "bfloat16"
    )


def test_the_package_is_imported_when_a_handle_needs_it(peer):
    text = str(shmarray.handle(some_shared := shmarray.share(some("bfloat16"))))
    code = (
        "import sys; before = 'ml_dtypes' in sys.modules; a = shmarray.attach(text); "
        "answer = [before, 'ml_dtypes' in sys.modules, a.tobytes().hex()]"
    )
    assert peer.run(code, text=text) == [False, True, some_shared.tobytes().hex()]


def test_without_the_package_the_error_says_what_to_do_and_the_bytes_are_there(peer):
    shared = shmarray.share(some("bfloat16"))
    code = """
import sys
sys.modules["ml_dtypes"] = None  # as if it were not installed
try:
    shmarray.attach(text)
except ImportError as error:
    said = str(error)
answer = [said, shmarray.attach(text, dtype="V2").tobytes().hex()]
"""
    said, found = peer.run(code, text=str(shmarray.handle(shared)))
    assert "dtype bfloat16 is one of ml_dtypes: install it" in said
    assert "shmarray.attach(…, dtype=…)" in said
    assert found == shared.tobytes().hex()


def test_elements_are_seen_as_another_dtype_of_their_size():
    shared = shmarray.share(some("bfloat16"))
    seen = shmarray.attach(shmarray.handle(shared), dtype="u2", readonly=True)
    assert (seen == shared.view("u2")).all()
    assert not seen.flags.writeable
    with pytest.raises(ValueError, match=r"float32 has 4 bytes.*\(bfloat16\) has 2"):
        shmarray.attach(shmarray.handle(shared), dtype="f4")
    with pytest.raises(TypeError, match="holds Python objects"):
        shmarray.attach(shmarray.handle(shared), dtype=object)


def test_a_name_of_a_later_package_says_so_and_keeps_its_bytes():
    shared = shmarray.share(some("bfloat16"))
    field = '{"descr":"float9_e4m4","itemsize":2}'
    text = str(shmarray.handle(shared)).replace('"bfloat16"', field)
    with pytest.raises(ValueError, match=r"float9_e4m4.* is not one of ml_dtypes .*newer one"):
        shmarray.attach(text)
    assert shmarray.attach(text, dtype="V2").tobytes() == shared.tobytes()


def test_a_dtype_that_only_the_package_knows_has_its_size_beside_its_name(monkeypatch):
    array = np.array([rational(1, 2), rational(3, 4)])
    with pytest.raises(TypeError, match="dtype rational cannot be shared: its type string"):
        shmarray.share(array)
    monkeypatch.setitem(sys.modules, "ml_dtypes", types.SimpleNamespace(rational=rational))
    shared = shmarray.share(array)
    text = str(shmarray.handle(shared))
    assert json.loads(text)["dtype"] == {"descr": "rational", "itemsize": array.itemsize}
    assert shmarray.attach(text).tolist() == array.tolist()


@pytest.mark.parametrize("name", ["bfloat16", "complex32"])
def test_elements_in_another_byte_order_are_refused(name):
    swapped = DTYPES[name].newbyteorder()
    with pytest.raises(TypeError, match=f"dtype {name} cannot be shared in another byte ord"):
        shmarray.empty(3, swapped)


def shown(array, capfd):
    """Returns the lines that ``shmarray show`` prints about an array, by their first words."""
    assert _core.run_command(["show", str(shmarray.handle(array))]) == 0
    lines = capfd.readouterr().out.splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}


def values(array, capfd):
    """Returns the values that ``shmarray show`` prints of a one-dimensional array, in pieces."""
    found = []
    for start in range(0, len(array), 100):
        found += shown(array[start : start + 100], capfd)["values"].split()
    return found


@pytest.mark.parametrize("name", BYTES)
def test_every_byte_is_shown_as_the_packages_value(name, capfd):
    array = shmarray.share(np.arange(256, dtype="u1").view(DTYPES[name]))
    expected = array.astype("f4" if "float" in name else "i4")
    found = np.array(values(array, capfd), expected.dtype)
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


def test_every_bfloat16_is_shown_as_the_packages_value(capfd):
    array = shmarray.share(np.arange(65_536, dtype="u2").view(ml_dtypes.bfloat16))
    expected = array.astype("f4")
    found = np.array(values(array, capfd), "f4")
    np.testing.assert_array_equal(found, expected)
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize("name", [name for name in DTYPES if "complex" not in name])
def test_statistics_are_those_of_the_packages_values(name, capfd):
    rng = np.random.default_rng(7)
    array = rng.integers(1, 256, 10_000 * DTYPES[name].itemsize, "u1").view(DTYPES[name])
    with np.errstate(invalid="ignore"):  # NaN among them
        numbers = array.astype("f8")
    shared = shmarray.share(array[np.isfinite(numbers)])
    numbers = numbers[np.isfinite(numbers)]
    lines = shown(shared, capfd)
    assert lines["dtype"] == f"{name} ({name})"
    assert float(lines["minimum"]) == pytest.approx(numbers.min(), rel=1e-7)
    assert float(lines["maximum"]) == pytest.approx(numbers.max(), rel=1e-7)
    assert float(lines["mean"]) == pytest.approx(math.fsum(numbers) / len(numbers), rel=1e-12)


@pytest.mark.parametrize("name", ["complex32", "bcomplex32"])
def test_complex_numbers_are_shown(name, capfd):
    array = shmarray.share(np.array([2.5 - 1.5j, -3 + 0.25j], DTYPES[name]))
    lines = shown(array, capfd)
    assert lines["values"] == "2.5-1.5i -3+0.25i"
    assert lines["mean"] == "-0.25-0.625i"


def test_the_list_of_segments_has_the_name(capfd):
    array = shmarray.empty((2, 3), ml_dtypes.float8_e4m3fn, name="weights")
    assert _core.run_command(["ls"]) == 0
    assert "float8_e4m3fn" in capfd.readouterr().out
    assert shmarray.attach("weights").shape == array.shape
