"""load_npz and save_npz: NumPy's archives, members loaded when asked for, bounded and checked."""

import gc
import io
import os
import sys
import zipfile

import numpy as np
import pytest

import shmarray
from test_npy import ARRAYS, GRID, OBJECTS, check_same, npy
from test_npy_saved import STRIDED

MEMBERS = {name.replace(" ", "_"): array for name, array in {**ARRAYS, **STRIDED}.items()}
SHARED = pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
DEFLATED = pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["", "deflated"])


def npz(save=np.savez, *arrays, **named):
    """Returns the bytes that NumPy saves an archive as."""
    file = io.BytesIO()
    save(file, *arrays, **named)
    return file.getvalue()


def zipped(members, method=zipfile.ZIP_STORED):
    """Returns an archive with these names and bytes."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return file.getvalue()


SOURCES = {
    "str": str,
    "Path": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "open file": lambda path: open(path, "rb"),  # noqa: SIM115
    "unbuffered file": lambda path: open(path, "rb", buffering=0),  # noqa: SIM115
}


@SHARED
@DEFLATED
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_all_members_are_loaded_from_any_source(source, save, shared, tmp_path):
    (tmp_path / "a.npz").write_bytes(npz(save, **MEMBERS))
    opened = source(tmp_path / "a.npz")
    with shmarray.load_npz(opened, shared=shared, verify=True) as found:
        if isinstance(opened, io.IOBase):
            opened.close()
        assert found.files == list(found) == list(MEMBERS)
        for name, array in MEMBERS.items():
            check_same(found[name], array)
        loaded = found.load(threads=3)
    assert list(loaded) == list(MEMBERS)
    for name, array in MEMBERS.items():
        check_same(loaded[name], array)
        assert shmarray.is_shared(loaded[name]) is shared


def test_it_is_a_mapping_as_numpys():
    data = npz(np.savez, GRID, b=GRID + 1)
    found = shmarray.load_npz(data)
    assert found.files == np.load(io.BytesIO(data)).files == ["b", "arr_0"]
    assert len(found) == 2
    assert "b" in found
    assert "b.npy" in found
    assert "c" not in found
    assert 5 not in found
    assert [name for name, _ in found.items()] == found.files
    assert found["b.npy"].tolist() == found["b"].tolist() == found.f.b.tolist()
    assert dir(found.f) == ["arr_0", "b"]
    assert found.get("c") is None
    with pytest.raises(KeyError, match="c is not a file in the archive"):
        found["c"]
    with pytest.raises(AttributeError, match="c"):
        found.f.c  # noqa: B018
    assert repr(found) == "NpzFile 'object' with keys: b, arr_0"


def test_arrays_stay_when_it_is_closed_and_no_more_are_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", a=GRID)
    for shared in (True, False):
        with shmarray.load_npz(tmp_path / "a.npz", shared=shared) as found:
            a = found["a"]
        with pytest.raises(ValueError, match="closed"):
            found["a"]
        with pytest.raises(ValueError, match="closed"):
            found.load()
        found.close()
        check_same(a, GRID)


def test_an_open_archive_has_no_more_descriptors_when_it_is_closed(tmp_path):
    np.savez(tmp_path / "a.npz", a=GRID)
    shmarray.zeros(1)  # opens the registry
    before = os.listdir("/proc/self/fd")
    found = shmarray.load_npz(tmp_path / "a.npz")
    assert len(os.listdir("/proc/self/fd")) == len(before) + 1
    found.close()
    assert len(os.listdir("/proc/self/fd")) == len(before)


@SHARED
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_some_members_are_loaded_at_once_under_the_names_that_were_asked(threads, shared):
    found = shmarray.load_npz(npz(np.savez_compressed, a=GRID, b=-GRID, c=GRID.T), shared=shared)
    loaded = found.load(["c", "a.npy"], threads=threads)
    assert list(loaded) == ["c", "a.npy"]
    check_same(loaded["c"], GRID.T)
    check_same(loaded["a.npy"], GRID)
    assert found.load([]) == {}
    with pytest.raises(KeyError, match="missing"):
        found.load(["a", "missing"])
    with pytest.raises(ValueError, match="threads"):
        found.load(threads=0)


@SHARED
def test_members_that_are_no_npy_files_are_bytes(shared):
    data = zipped([("a.npy", npy(GRID)), ("notes.txt", b"text"), ("empty", b"")])
    found = shmarray.load_npz(data, shared=shared)
    assert found.files == ["a", "notes.txt", "empty"]
    assert (found["notes.txt"], found["empty"]) == (b"text", b"")
    assert found.load(["notes.txt"]) == {"notes.txt": b"text"}


@SHARED
def test_python_objects_are_listed_and_refused_or_unpickled(shared):
    data = npz(np.savez, a=GRID, objects=OBJECTS)
    found = shmarray.load_npz(data, shared=shared)
    assert found.files == ["a", "objects"]
    check_same(found["a"], GRID)
    for load in (lambda: found["objects"], found.load):
        with pytest.raises(ValueError, match=r"objects.*allow_pickle=False"):
            load()
    found = shmarray.load_npz(data, shared=shared, allow_pickle=True)
    assert found["objects"].tolist() == found.load()["objects"].tolist() == OBJECTS.tolist()


def test_an_aligned_stored_member_is_a_view_and_others_are_private():
    data = bytearray(npz(np.savez, **{f"m{'x' * n}": np.arange(4, dtype="u1") for n in range(8)}))
    found = shmarray.load_npz(data, shared=False)
    whole = np.frombuffer(data, "u1")
    assert all(np.shares_memory(array, whole) for array in found.values())
    data = npz(np.savez, **{f"m{'x' * n}": np.arange(4.0) for n in range(8)})
    whole = np.frombuffer(data, "u1")
    arrays = list(shmarray.load_npz(data, shared=False).values())
    assert {np.shares_memory(array, whole) for array in arrays} == {True, False}
    assert all(array.flags.aligned for array in arrays)
    assert all(array.flags.writeable is not np.shares_memory(array, whole) for array in arrays)


def test_the_bytearray_of_a_view_cannot_be_resized():
    data = bytearray(npz(np.savez, a=np.arange(9, dtype="u1")))
    found = shmarray.load_npz(data, shared=False)
    a = found["a"]
    found.close()
    del found
    with pytest.raises(BufferError):
        data.append(0)
    assert a.tolist() == list(range(9))


def test_writing_to_a_member_of_a_mapped_file_does_not_change_it(tmp_path):
    data = npz(np.savez, a=np.arange(9, dtype="u1"))
    (tmp_path / "a.npz").write_bytes(data)
    a = shmarray.load_npz(tmp_path / "a.npz", shared=False)["a"]
    a[...] = 77
    assert (tmp_path / "a.npz").read_bytes() == data


def broken_element(save):
    """Returns an archive in which a byte of the elements, as they are stored, is another one."""
    data = bytearray(npz(save, a=np.arange(100, dtype="u1") * 7 % 251))
    data[data.index(b"PK\1\2") - 20] ^= 1
    return bytes(data)


def test_a_wrong_checksum_is_refused_and_names_the_member(files):
    data = broken_element(np.savez)
    for options in ({}, {"shared": False, "verify": True}):
        found = shmarray.load_npz(data, **options)
        for load in (lambda found=found: found["a"], found.load):
            with pytest.raises(ValueError, match=r"a\.npy.*CRC"):
                load()
    assert shmarray.load_npz(data, shared=False)["a"].size == 100
    gc.collect()
    assert files() == []


@SHARED
def test_a_broken_deflated_member_is_refused(shared, files):
    found = shmarray.load_npz(broken_element(np.savez_compressed), shared=shared)
    with pytest.raises(ValueError, match=r"a\.npy"):
        found["a"]
    gc.collect()
    assert files() == []


@SHARED
def test_a_bomb_is_refused_and_names_max_bytes(shared, files):
    data = npz(np.savez_compressed, a=np.zeros(1 << 20, "u1"), b=np.zeros(1 << 20, "u1"))
    found = shmarray.load_npz(data, shared=shared, max_bytes=(1 << 20) - 1)
    for load in (lambda: found["a"], found.load):
        with pytest.raises(ValueError, match="max_bytes"):
            load()
    found = shmarray.load_npz(data, shared=shared, max_bytes=(3 << 20) // 2)
    assert not found["a"].any()
    with pytest.raises(ValueError, match="max_bytes"):
        found.load()
    gc.collect()
    assert files() == []
    assert len(shmarray.load_npz(data, shared=shared, max_bytes=3 << 20).load()) == 2


@SHARED
@DEFLATED
def test_an_archive_that_is_cut_off_is_refused(save, shared):
    data = npz(save, a=GRID, b=GRID)
    for size in {*range(0, len(data), 37), len(data) - 1}:
        with pytest.raises(ValueError, match=r"archive|directory"):
            shmarray.load_npz(data[:size], shared=shared)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_with_one_name_are_refused():
    data = zipped([("a.npy", npy(GRID)), ("a.npy", npy(-GRID))])
    with pytest.raises(ValueError, match=r"a\.npy"):
        shmarray.load_npz(data)


def test_a_missing_file_and_what_is_no_file_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        shmarray.load_npz(tmp_path / "missing.npz")
    for thing in (None, 5, [1]):
        with pytest.raises(TypeError):
            shmarray.load_npz(thing)


@pytest.mark.skipif(
    sys.version_info < (3, 11, 4), reason="Python before 3.11.4 writes other ZIP headers"
)
def test_an_archive_has_the_bytes_of_numpys(tmp_path):
    shmarray.save_npz(tmp_path / "a", GRID, GRID.T, **MEMBERS)
    assert os.listdir(tmp_path) == ["a.npz"]
    assert (tmp_path / "a.npz").read_bytes() == npz(np.savez, GRID, GRID.T, **MEMBERS)


def test_an_object_with_write_gets_what_numpy_reads():
    file = io.BytesIO()
    shmarray.save_npz(file, GRID, objects=OBJECTS)
    with np.load(io.BytesIO(file.getvalue()), allow_pickle=True) as found:
        assert found.files == ["objects", "arr_0"]
        check_same(found["arr_0"], GRID)
        assert found["objects"].tolist() == OBJECTS.tolist()


def test_a_deflated_archive_is_small_the_same_for_any_threads_and_read_by_numpy(tmp_path):
    saved = set()
    for threads in (1, 2, 7):
        path = tmp_path / f"{threads}.npz"
        shmarray.save_npz(path, compressed=True, threads=threads, **MEMBERS)
        saved.add(path.read_bytes())
    assert len(saved) == 1
    data = saved.pop()
    assert len(data) < sum(array.nbytes for array in MEMBERS.values()) / 2
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    with np.load(io.BytesIO(data)) as found:
        assert found.files == list(MEMBERS)
        for name, array in MEMBERS.items():
            assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
            np.testing.assert_array_equal(found[name], array)  # it leaves out what fills up


def test_no_arrays_are_an_archive_too(tmp_path):
    shmarray.save_npz(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == npz(np.savez)
    assert shmarray.load_npz(tmp_path / "a.npz").load() == {}


def test_a_name_that_is_there_twice_and_objects_are_refused_and_keep_the_older_file(tmp_path):
    path = tmp_path / "a.npz"
    shmarray.save_npz(path, a=GRID)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="arr_0"):
        shmarray.save_npz(path, GRID, arr_0=GRID)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        shmarray.save_npz(path, a=OBJECTS, allow_pickle=False)
    assert (os.listdir(tmp_path), path.read_bytes()) == (["a.npz"], before)
