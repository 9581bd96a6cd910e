"""load_npy: every source and every dtype, without a copy where none is needed."""

import gc
import gzip
import io
import mmap
import pathlib
import pickle

import numpy as np
import pytest

import shmarray

GRID = np.arange(12, dtype="<i4").reshape(3, 4)


def npy(array, **options):
    """Returns the bytes that NumPy saves an array as."""
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


class OnlyRead:
    """Has nothing but `read`, and gives few bytes at once."""

    def __init__(self, path):
        self.file = io.BytesIO(path.read_bytes())

    def read(self, size):
        return self.file.read(min(size, 7))


class Pathlike:
    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return str(self.path)


def mapped(path):
    with open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def zipped(path):
    return gzip.open(io.BytesIO(gzip.compress(path.read_bytes(), 1)))


SOURCES = {
    "str": str,
    "Path": pathlib.Path,
    "PathLike": Pathlike,
    "bytes": pathlib.Path.read_bytes,
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "mmap": mapped,
    "ndarray": lambda path: np.fromfile(path, "u1"),
    "BytesIO": lambda path: io.BytesIO(path.read_bytes()),
    "open file": lambda path: open(path, "rb"),  # noqa: SIM115
    "unbuffered file": lambda path: open(path, "rb", buffering=0),  # noqa: SIM115
    "gzip": zipped,
    "only read": OnlyRead,
}
READERS = ["BytesIO", "open file", "unbuffered file", "gzip", "only read"]
ARRAYS = {
    "C": GRID,
    "F": np.asfortranarray(GRID),
    "bytes": np.arange(7, dtype="u1"),
    "big endian": GRID.astype(">f8"),
    "half": GRID.astype("f2"),
    "complex": GRID * (1 + 2j),
    "bool": GRID % 2 == 0,
    "datetime": np.array(["2020-01-02", "NaT"], "datetime64[D]"),
    "timedelta": np.array([1, 2], "timedelta64[25s]"),
    "text": np.array(["a", "ä€"], "U5"),
    "byte strings": np.array([b"a", b"bc"], "S3"),
    "void": np.array([b"abc"], "V3"),
    "structured": np.array([(1, 2.5), (3, 4.5)], [("x", ">i2"), ("y", "<f8")]),
    "aligned fields": np.zeros(3, np.dtype([("x", "i1"), ("y", "f8")], align=True)),
    "nested": np.ones(2, [("p", [("q", "<u2", (2, 3))]), ("r", "?")]),
    "0-d": np.array(4.5),
    "0-d structured": np.array((1, 2), "i4,f4"),
    "empty": np.zeros((0, 3)),
    "empty in the middle": np.zeros((2, 0, 3), "i2"),
    "items of no bytes": np.zeros(3, "S0"),
    "large": np.arange(300_000, dtype="<i8"),
    "8 dimensions": np.arange(256, dtype="u2").reshape((2,) * 8),
}


@pytest.fixture(params=ARRAYS.values(), ids=ARRAYS)
def array(request):
    return request.param


def check_same(found, array):
    assert (type(found), found.dtype, found.shape) == (np.ndarray, array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    assert found.flags.fnc == array.flags.fnc


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_any_array_is_loaded_from_any_source(array, source, shared, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(array))
    opened = source(path)
    found = shmarray.load_npy(opened, shared=shared)
    check_same(found, array)
    assert shmarray.is_shared(found) is shared
    if isinstance(opened, io.IOBase):
        opened.close()


@pytest.mark.parametrize("source", [SOURCES[name] for name in READERS], ids=READERS)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
def test_a_file_is_left_behind_each_of_its_arrays(source, shared, tmp_path):
    path = tmp_path / "many.npy"
    path.write_bytes(b"".join(npy(array) for array in ARRAYS.values()) + b"rest")
    file = source(path)
    for array in ARRAYS.values():
        check_same(shmarray.load_npy(file, shared=shared), array)
    assert file.read(4) == b"rest"
    with pytest.raises(EOFError, match="No data left"):
        shmarray.load_npy(file, shared=shared)
    if isinstance(file, io.IOBase):
        file.close()


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "private"])
def test_a_file_that_is_cut_off_is_refused_and_leaves_nothing(source, shared, tmp_path, files):
    whole = npy(GRID)
    for size in (3, 7, 9, 50, 127, 128, len(whole) - 1):
        (tmp_path / "cut.npy").write_bytes(whole[:size])
        opened = source(tmp_path / "cut.npy")
        with pytest.raises(ValueError, match=r"header|magic|version|data|could only read"):
            shmarray.load_npy(opened, shared=shared)
        if isinstance(opened, io.IOBase):
            opened.close()
        assert files() == []


@pytest.mark.parametrize("copy", [bytes, bytearray, memoryview], ids=lambda copy: copy.__name__)
def test_an_array_is_a_view_of_the_bytes_which_it_keeps(copy):
    data = copy(npy(GRID))
    found = shmarray.load_npy(data, shared=False)
    assert copy is not bytes or found.base is data
    assert np.shares_memory(found, np.frombuffer(data, "u1"))
    assert not found.flags.writeable
    del data
    gc.collect()
    assert found.tobytes() == GRID.tobytes()


def test_the_bytearray_of_a_view_cannot_be_resized():
    data = bytearray(npy(GRID))
    found = shmarray.load_npy(data, shared=False)
    with pytest.raises(BufferError):
        data.append(0)
    del found
    data.append(0)


def test_a_map_with_a_view_in_it_cannot_be_closed(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(GRID))
    whole = mapped(tmp_path / "a.npy")
    found = shmarray.load_npy(whole, shared=False)
    with pytest.raises(BufferError):  # or an access to the array would end this process
        whole.close()
    check_same(found, GRID)
    del found
    whole.close()


def test_a_shared_array_of_a_bytearray_does_not_hold_it():
    data = bytearray(npy(GRID))
    found = shmarray.load_npy(data)
    data.append(0)
    data[128] = 99
    assert found[0, 0] == 0


def test_a_view_of_read_only_bytes_cannot_be_made_writeable():
    found = shmarray.load_npy(npy(GRID), shared=False)
    with pytest.raises(ValueError, match="WRITEABLE"):
        found.flags.writeable = True


def test_a_mapped_array_can_be_written_to_and_the_file_never_changes(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(GRID))
    first, second = (shmarray.load_npy(path, mmap_mode="c") for _ in range(2))
    first[...] = -1
    assert path.read_bytes() == npy(GRID)
    assert second.tolist() == GRID.tolist()
    path.unlink()
    assert (first == -1).all()
    assert second.tolist() == GRID.tolist()


def test_a_shared_array_is_in_one_segment_which_goes_with_it(tmp_path, files):
    np.save(tmp_path / "a.npy", GRID)
    before = files()
    found = shmarray.load_npy(tmp_path / "a.npy")
    assert len(files()) == len(before) + 1
    assert shmarray.attach(shmarray.handle(found)).tobytes() == GRID.tobytes()
    del found
    gc.collect()
    assert files() == before


OBJECTS = np.array([{"a": 1}, None, [2]], dtype=object)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_python_objects_are_refused_or_unpickled(source, tmp_path, files):
    path = tmp_path / "objects.npy"
    path.write_bytes(npy(OBJECTS, allow_pickle=True))
    refused = source(path)
    opened_source = source(path)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        shmarray.load_npy(refused)
    found = shmarray.load_npy(opened_source, allow_pickle=True)
    assert found.tolist() == OBJECTS.tolist()
    assert not shmarray.is_shared(found)
    assert files() == []
    for opened in (refused, opened_source):
        if isinstance(opened, io.IOBase):
            opened.close()


def test_an_unpickled_array_leaves_the_file_behind_it():
    file = io.BytesIO(npy(OBJECTS, allow_pickle=True) + npy(GRID))
    assert shmarray.load_npy(file, allow_pickle=True).tolist() == OBJECTS.tolist()
    check_same(shmarray.load_npy(file), GRID)


@pytest.mark.parametrize("thing", [None, 5, [1], {}], ids=lambda thing: type(thing).__name__)
def test_what_is_no_file_is_a_type_error(thing):
    with pytest.raises(TypeError, match=type(thing).__name__):
        shmarray.load_npy(thing)


def test_a_file_that_is_open_as_text_is_a_type_error():
    with pytest.raises(TypeError, match="binary"):
        shmarray.load_npy(io.StringIO("text"))


def test_a_missing_file_and_a_folder_are_os_errors(tmp_path):
    for shared in (True, False):
        with pytest.raises(FileNotFoundError, match="missing"):
            shmarray.load_npy(tmp_path / "missing.npy", shared=shared)
        with pytest.raises((OSError, ValueError), match=tmp_path.name):
            shmarray.load_npy(tmp_path, shared=shared)


def test_an_exception_of_a_reader_is_passed_on_and_leaves_nothing(files):
    class Failing(io.BytesIO):
        def readinto(self, _buffer):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shmarray.load_npy(Failing(npy(GRID)))
    gc.collect()
    assert files() == []


def test_a_buffer_with_gaps_is_refused():
    with pytest.raises(ValueError, match="contiguous"):
        shmarray.load_npy(np.frombuffer(npy(GRID), "u1")[::2])


def test_a_loaded_array_goes_to_another_process(peer, tmp_path):
    np.save(tmp_path / "a.npy", GRID)
    found = shmarray.load_npy(tmp_path / "a.npy")
    peer.run("shmarray.attach(text)[2, 3] = 77", text=str(shmarray.handle(found)))
    assert found[2, 3] == 77


def test_a_view_of_bytes_can_be_pickled():
    found = shmarray.load_npy(npy(GRID), shared=False)
    check_same(pickle.loads(pickle.dumps(found)), GRID)


def test_other_threads_run_while_a_file_is_loaded(lets_others_run, tmp_path):
    np.save(tmp_path / "a.npy", np.ones(1 << 22, "u1"))
    assert lets_others_run(lambda: shmarray.load_npy(tmp_path / "a.npy"))
