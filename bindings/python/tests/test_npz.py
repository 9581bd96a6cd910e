"""load_npz and save_npz: NumPy's archives, members loaded when asked for, bounded and checked."""

import functools
import gc
import io
import os
import sys
import threading
import zipfile

import numpy as np
import pytest

import shmarray
from test_npy import ARRAYS, GRID, OBJECTS, check_same, npy
from test_npy_saved import STRIDED

MEMBERS = {name.replace(" ", "_"): array for name, array in {**ARRAYS, **STRIDED}.items()}
SHARED = pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
DEFLATED = pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["", "deflated"])


@functools.cache
def archive_of_all(save):
    """Returns the bytes of an archive with all MEMBERS, which take long to deflate."""
    return npz(save, **MEMBERS)


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
    (tmp_path / "a.npz").write_bytes(archive_of_all(save))
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


SAMPLES = {
    f"{'n' * length}_{dtype}": np.arange(12).reshape(3, 4).astype(dtype)
    for length in range(1, 17)
    for dtype in ("?", "u1", "<f2", "<i4", ">i4", "<f8", "<c16", "<M8[s]", "<U3", "V5")
}
"""Members of each alignment and each dtype."""


@pytest.fixture(scope="module", params=[np.savez, np.savez_compressed], ids=["stored", "deflated"])
def archive(request, tmp_path_factory):
    """An archive of SAMPLES, which no test changes."""
    path = tmp_path_factory.mktemp("archive") / "a.npz"
    request.param(path, **SAMPLES)
    return path


@pytest.mark.parametrize("options", [{}, {"align": True}], ids=["", "align"])
@pytest.mark.parametrize(
    ("source", "how", "is_writable"),
    [
        (lambda path: path, {"shared": True}, True),
        (lambda path: path.read_bytes(), {"shared": True}, True),
        (lambda path: path, {"shared": False}, True),
        (lambda path: path.open("rb"), {"shared": False}, True),
        (lambda path: io.BytesIO(path.read_bytes()), {"shared": False}, True),
        (lambda path: path, {"mmap_mode": "c"}, True),
        (lambda path: path.open("rb"), {"mmap_mode": "c"}, True),
        (lambda path: path, {"mmap_mode": "r"}, False),
        (lambda path: path.read_bytes(), {"shared": False}, False),
        (lambda path: bytearray(path.read_bytes()), {"shared": False}, False),
        (lambda path: memoryview(path.read_bytes()), {"shared": False}, False),
    ],
)
def test_what_a_member_is_does_not_depend_on_where_it_lies(
    source, how, is_writable, options, archive
):
    data = archive.read_bytes()
    opened = source(archive)
    with shmarray.load_npz(opened, **how, **options) as found:
        for name, array in SAMPLES.items():
            for loaded in (found[name], found.load([name])[name]):
                check_same(loaded, array)
                assert loaded.flags.writeable is is_writable, name
                assert shmarray.is_shared(loaded) is how.get("shared", False)
                assert loaded.flags.aligned or not options
                if is_writable:
                    loaded[...] = loaded[0, 0]
            check_same(found[name], array)
    assert archive.read_bytes() == data
    if isinstance(opened, io.IOBase):
        opened.close()


def test_a_stored_member_of_bytes_is_a_view_wherever_it_lies():
    data = npz(np.savez, **SAMPLES)
    whole = np.frombuffer(data, "u1")
    for name, array in shmarray.load_npz(data, shared=False).items():
        assert np.shares_memory(array, whole), name


@pytest.mark.parametrize("before", [0, 100])
def test_members_that_were_saved_aligned_are_so_in_aligned_memory(before):
    file = io.BytesIO()
    file.write(bytes(before))
    shmarray.save_npz(file, SAMPLES, align=64)
    room = np.zeros(len(file.getvalue()) + 64, "u1")
    room = room[-room.ctypes.data % 64 :][: len(file.getvalue())]
    room[:] = np.frombuffer(file.getvalue(), "u1")
    for name, array in shmarray.load_npz(room, shared=False).items():
        assert array.ctypes.data % 64 == 0, name
        assert np.shares_memory(array, room)
        check_same(array, SAMPLES[name])


def test_an_aligned_archive_is_one_for_everybody(tmp_path):
    for options in ({"align": 64}, {"align": 4096}, {"align": 64, "compressed": True}):
        shmarray.save_npz(tmp_path / "a.npz", SAMPLES, **options)
        assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None
        with np.load(tmp_path / "a.npz") as found:
            assert found.files == list(SAMPLES)
            for name, array in SAMPLES.items():
                check_same(found[name], array)
    for wrong in (-1, 3, 8192, 1 << 20):
        with pytest.raises(ValueError, match="align"):
            shmarray.save_npz(tmp_path / "a.npz", SAMPLES, align=wrong)


SAVED_BACK = """
import numpy as np, shmarray
found = shmarray.load_npz("x.npz", shared={shared})
{save}("x.npz", **found)
a = shmarray.load_npy("x.npy", shared={shared})
a[0] = 1
{save_npy}("x.npy", a)
"""


@SHARED
@pytest.mark.parametrize("module", ["np", "shmarray"])
def test_what_was_loaded_can_be_saved_back_to_its_path(
    shared, module, tmp_path, run_python, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", image=np.zeros((480, 640), "u1"), features=np.ones(10_000))
    np.save("x.npy", np.arange(1_000_000.0))
    save = {"np": ("np.savez", "np.save"), "shmarray": ("shmarray.save_npz", "shmarray.save_npy")}
    savez, save_npy = save[module]
    run_python(SAVED_BACK.format(shared=shared, save=savez, save_npy=save_npy))
    with np.load("x.npz") as found:
        assert found["features"].sum() == 10_000
        assert found["image"].shape == (480, 640)
    assert np.load("x.npy")[:3].tolist() == [1, 1, 2]


@SHARED
def test_an_array_that_was_loaded_does_not_see_a_later_save(shared, tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(1000))
    np.save(tmp_path / "x.npy", np.zeros(1000))
    arrays = [
        shmarray.load_npz(tmp_path / "x.npz", shared=shared)["a"],
        shmarray.load_npy(tmp_path / "x.npy", shared=shared),
    ]
    np.savez(tmp_path / "x.npz", a=np.ones(1000))
    np.save(tmp_path / "x.npy", np.ones(1000))
    assert not any(array.any() for array in arrays)


@pytest.mark.skipif(
    sys.version_info < (3, 11, 4), reason="Python before 3.11.4 writes other ZIP headers"
)
def test_an_archive_behind_other_data_and_one_in_a_pipe_have_the_bytes_of_numpys(tmp_path):
    def written(save):
        with open(tmp_path / "a", "wb+") as file:
            file.write(b"other data")
            save(file, GRID, **MEMBERS)
            file.write(b"more")
        return (tmp_path / "a").read_bytes()

    assert written(shmarray.save_npz) == written(np.savez)

    class Pipe:
        def __init__(self):
            self.data = b""

        def write(self, data):
            self.data += bytes(data)
            return len(data)

        def flush(self):
            pass

        def read(self, *_):  # numpy.savez takes what has it for a file
            raise io.UnsupportedOperation

    ours = Pipe()
    numpys = Pipe()
    shmarray.save_npz(ours, GRID, **MEMBERS)
    np.savez(numpys, GRID, **MEMBERS)
    assert ours.data == numpys.data


def test_arrays_that_change_meanwhile_are_saved(tmp_path):
    live = shmarray.zeros(1_000_000)
    is_over = threading.Event()

    def change():
        while not is_over.is_set():
            live[...] += 1

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for options in ({}, {"compressed": True, "threads": 2}):
            for _ in range(10):
                shmarray.save_npz(tmp_path / "a.npz", {"live": live, "other": GRID}, **options)
                assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None
    finally:
        is_over.set()
        changing.join()


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
    a = shmarray.load_npz(tmp_path / "a.npz", mmap_mode="c")["a"]
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
    for size in {*range(1, len(data), 37), len(data) - 1}:
        with pytest.raises(ValueError, match=r"archive|directory"):
            shmarray.load_npz(data[:size], shared=shared)


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
        shmarray.save_npz(path, MEMBERS, compressed=True, threads=threads)
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
