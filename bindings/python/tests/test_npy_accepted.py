"""Files that NumPy loads and did not write: other spellings, methods and names; large ones."""

import io
import struct
import warnings
import zipfile

import numpy as np
import pytest

import shmarray
from later import is_later

METHODS = {"bzip2": zipfile.ZIP_BZIP2, "LZMA": zipfile.ZIP_LZMA}
if hasattr(zipfile, "ZIP_ZSTANDARD"):
    METHODS["Zstandard"] = zipfile.ZIP_ZSTANDARD  # since Python 3.14
CHARACTERS = "?bBhHiIlLqQpPnNefdgFDGSUVMmc"
SEVERAL = (
    "i4,f4",
    "i4, f4",
    "<i4,>f8",
    "1i4",
    "(2,3)<f4,i4",
    "3f4,i2",
    "i4,(2,)f8",
    "2S5,U3",
    "M8[ns],i4",
    "i4,",
)


def file_of(descr, data, text=None):
    """Returns the bytes of a file with this descr."""
    text = text or f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': (2,), }}"
    text = text.encode("latin1")
    text = text.ljust(-(-(len(text) + 11) // 64) * 64 - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def spellings():
    """All strings that ``numpy.dtype`` takes, of those that people and programs write."""
    names = [name for name in np._core.numerictypes.sctypeDict if isinstance(name, str)]
    names += ["float", "int", "complex", "bool", "str", "bytes", "void", "object"]
    names += ["datetime64[ns]", ">datetime64[25s]", "timedelta64[D]", "M8[ns]", "|S5", "U3", "V7"]
    sized = [f"{kind}{size}" for kind in "biufc" for size in (1, 2, 4, 8, 16)]
    plain = [*CHARACTERS, *sized]
    for text in [*names, *plain, *(order + each for order in "<>=|" for each in plain), *SEVERAL]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                dtype = np.dtype(text)
        except (TypeError, ValueError, DeprecationWarning):
            continue
        if not dtype.hasobject and not is_later(dtype):
            yield text


@pytest.mark.parametrize("descr", sorted(set(spellings())))
def test_a_type_string_means_what_it_means_to_numpy(descr):
    itemsize = np.dtype(descr).itemsize
    data = file_of(descr, bytes(range(1, 1 + 2 * itemsize)) if itemsize < 100 else b"")
    try:
        expected = np.load(io.BytesIO(data))
    except ValueError:
        pytest.skip("NumPy does not load it")
    for options in ({"shared": False}, {}):
        found = shmarray.load_npy(data, **options)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()


def nested(depth):
    dtype = np.dtype("i4")
    for _ in range(depth):
        dtype = np.dtype([("a", dtype)])
    return dtype


@pytest.mark.parametrize("depth", [17, 60, 61, 99])
def test_records_in_records_come_back(depth, tmp_path):
    path = tmp_path / "nested.npy"
    array = np.arange(3, dtype="i4").view(nested(depth))
    shmarray.save_npy(path, array)
    assert np.load(path).dtype == array.dtype
    found = shmarray.load_npy(path, shared=False)
    assert (found.dtype, found.tobytes()) == (array.dtype, array.tobytes())
    if depth <= 60:
        assert shmarray.load_npy(path).tobytes() == array.tobytes()
    else:
        with pytest.raises(TypeError, match="private memory"):
            shmarray.load_npy(path)


def test_thirty_thousand_fields_come_back(tmp_path):
    path = tmp_path / "wide.npy"
    dtype = np.dtype([(f"f{number}", "f4") for number in range(30_000)])
    array = np.arange(60_000, dtype="f4").view(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the version of the format, as NumPy warns
        shmarray.save_npy(path, array)
    assert np.load(path, max_header_size=10**7).dtype == dtype
    for options in ({}, {"mmap_mode": "r"}):
        found = shmarray.load_npy(path, shared=False, **options)
        assert found.dtype == dtype
        assert found.tobytes() == array.tobytes()
    with pytest.raises(TypeError, match="private memory"):
        shmarray.load_npy(path)


@pytest.mark.parametrize("method", METHODS)
def test_members_of_every_method_of_zipfile_are_loaded(method, tmp_path):
    path = tmp_path / "other.npz"
    arrays = {"a": np.arange(200_000) % 777, "b": np.eye(3)}
    with zipfile.ZipFile(path, "w", METHODS[method]) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, array)
    expected = np.load(path)
    for source in (path, path.read_bytes()):
        for options in ({"shared": False}, {}, {"verify": True}):
            found = shmarray.load_npz(source, **options)
            for name in expected.files:
                np.testing.assert_array_equal(found[name], expected[name])
            np.testing.assert_array_equal(found.load(threads=2)["a"], arrays["a"])


@pytest.mark.parametrize("method", METHODS)
def test_a_member_of_another_method_that_is_damaged_is_refused(method, tmp_path):
    path = tmp_path / "damaged.npz"
    array = np.random.default_rng(1).integers(0, 9, 50_000)
    with zipfile.ZipFile(path, "w", METHODS[method]) as archive, archive.open("a.npy", "w") as file:
        np.save(file, array)
    data = bytearray(path.read_bytes())
    for at in range(200, len(data) - 200, len(data) // 30):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        with pytest.raises(ValueError, match=r"member 'a\.npy'|member \"a\.npy\""):
            shmarray.load_npz(damaged)["a"]


def test_of_members_with_one_name_the_one_that_was_appended_counts(tmp_path):
    path = tmp_path / "log.npz"
    np.savez(path, weights=np.zeros(3), bias=np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile's, of the name
        with zipfile.ZipFile(path, "a") as archive, archive.open("weights.npy", "w") as file:
            np.save(file, np.full(4, 5.0))
    expected = np.load(path)
    for options in ({}, {"shared": False}, {"mmap_mode": "r"}):
        found = shmarray.load_npz(path, **options)
        assert found.files == ["weights", "bias"]
        assert {name: array.tolist() for name, array in found.items()} == {
            name: array.tolist() for name, array in expected.items()
        }


@pytest.mark.parametrize("name", ["../up", "a/../b", "/etc/passwd", "..", "..\\up"])
def test_a_name_is_never_a_path(name, tmp_path):
    path = tmp_path / "numpys.npz"
    ours = tmp_path / "ours.npz"
    np.savez(path, **{name: np.arange(3)})
    shmarray.save_npz(ours, **{name: np.arange(3)})
    assert zipfile.ZipFile(ours).namelist() == zipfile.ZipFile(path).namelist()
    for file in (path, ours):
        assert shmarray.load_npz(file)[name].tolist() == np.load(file)[name].tolist() == [0, 1, 2]


def test_a_volume_that_deflates_to_a_thousandth_is_loaded_by_default(tmp_path):
    """A limit of 1 GiB refused it."""
    path = tmp_path / "volume.npz"
    volume = np.zeros((1 << 30) + 1000, "u1")
    volume[5:8] = 7
    shmarray.save_npz(path, {"volume": volume}, compressed=True)
    assert path.stat().st_size < volume.nbytes / 500
    found = shmarray.load_npz(path, shared=False)["volume"]
    assert found.shape == volume.shape
    assert found[:10].tolist() == volume[:10].tolist()
    with pytest.raises(ValueError, match="max_bytes"):
        shmarray.load_npz(path, max_bytes=1 << 30)["volume"]


def test_a_member_that_would_not_fit_into_the_memory_is_refused_by_default(tmp_path):
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        with archive.open("a.npy", "w") as file:
            np.save(file, np.zeros(1000))
        archive.infolist()[0].file_size = 1 << 50
    with pytest.raises(ValueError, match="max_bytes"):
        shmarray.load_npz(path)["a"]
