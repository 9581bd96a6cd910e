"""save_npy: the bytes of numpy.save, in a file that is there as a whole or not at all."""

import io
import os
import random
import stat
import subprocess
import sys

import numpy as np
import pytest

import shmarray
from test_npy import ARRAYS, GRID, OBJECTS, npy

STRIDED = {
    "sliced": GRID[::2, 1:],
    "reversed": GRID[::-1, ::-1],
    "transposed": GRID.T,
    "permuted": np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "unaligned": np.arange(25, dtype="u1")[1:].view("f8"),
    "a field": np.zeros(3, "i2,f8")["f1"],
    "read-only": np.frombuffer(b"abc", "u1"),
    "both orders": np.asfortranarray(np.ones((1, 5))),
    "large, strided": np.arange(600_000, dtype="<i4").reshape(600, 1000)[:, ::3],
    "large, columns": np.asfortranarray(np.arange(600_000.0).reshape(600, 1000)),
    "many fields": np.zeros(2, [(f"field_{number}", "<f8") for number in range(50)]),
}
ALL = {**ARRAYS, **STRIDED}


@pytest.fixture(params=ALL.values(), ids=ALL)
def array(request):
    return request.param


def test_a_file_has_the_bytes_of_numpys(array, tmp_path):
    shmarray.save_npy(tmp_path / "a.npy", array)
    assert (tmp_path / "a.npy").read_bytes() == npy(array)
    assert os.listdir(tmp_path) == ["a.npy"]


def test_a_shared_array_has_the_bytes_of_numpys(array, tmp_path):
    shared = shmarray.share(array)
    shmarray.save_npy(tmp_path / "a.npy", shared)
    assert (tmp_path / "a.npy").read_bytes() == npy(shared)


def test_an_object_with_write_gets_the_bytes_of_numpys(array):
    file = io.BytesIO()
    file.write(b"before")
    shmarray.save_npy(file, array)
    assert file.getvalue() == b"before" + npy(array)


def test_an_unbuffered_file_gets_all_bytes(tmp_path):
    array = ARRAYS["large"]
    with open(tmp_path / "a", "wb", buffering=0) as file:
        shmarray.save_npy(file, array)
    assert (tmp_path / "a").read_bytes() == npy(array)


def test_what_took_part_of_the_bytes_is_given_the_rest():
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data)[:1000])

    file = Slow()
    shmarray.save_npy(file, ARRAYS["large"][:5000])
    assert file.getvalue() == npy(ARRAYS["large"][:5000])


@pytest.mark.parametrize("thing", [5, 2.5, [[1, 2], [3, 4]], "text", True, b"bytes"], ids=repr)
def test_what_is_no_array_becomes_one_as_numpys_does(thing, tmp_path):
    shmarray.save_npy(tmp_path / "a", thing)
    assert (tmp_path / "a.npy").read_bytes() == npy(thing)


@pytest.mark.parametrize(
    ("path", "becomes"), [("a", "a.npy"), ("a.npy", "a.npy"), ("a.npz", "a.npz.npy")]
)
def test_a_path_gets_the_ending(path, becomes, tmp_path):
    shmarray.save_npy(str(tmp_path / path), GRID)
    shmarray.save_npy(tmp_path / path, GRID)
    shmarray.save_npy(os.fsencode(tmp_path / path), GRID)
    assert os.listdir(tmp_path) == [becomes]


def test_python_objects_are_pickled_as_numpys_or_refused(tmp_path):
    shmarray.save_npy(tmp_path / "a.npy", OBJECTS)
    assert (tmp_path / "a.npy").read_bytes() == npy(OBJECTS, allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        shmarray.save_npy(tmp_path / "b.npy", OBJECTS, allow_pickle=False)
    assert os.listdir(tmp_path) == ["a.npy"]


RECORDS = np.array([(1, 2.5), (3, 4.5)], "i4,f8")


@pytest.mark.parametrize(
    "array",
    [
        np.ma.array([1, 2]),
        np.ma.array([1, 2], mask=[False, False]),
        np.ma.array(GRID.T, shrink=False),
        np.ma.array(RECORDS, mask=[(False, False)] * 2),
        np.ma.array(4.5),
    ],
)
def test_a_masked_array_with_nothing_masked_is_saved_as_its_data(array, tmp_path):
    shmarray.save_npy(tmp_path / "a.npy", array)
    assert (tmp_path / "a.npy").read_bytes() == npy(array) == npy(array.data)
    shmarray.save_npz(tmp_path / "a.npz", array)
    with np.load(tmp_path / "a.npz") as found:
        assert found["arr_0"].tobytes() == array.data.tobytes()


@pytest.mark.parametrize(
    "array",
    [
        np.ma.masked_equal([1, 2], 2),
        np.ma.array(RECORDS, mask=[(False, False), (False, True)]),
        np.ma.masked,
    ],
)
def test_a_masked_array_with_something_masked_is_refused(array, tmp_path):
    for save in (shmarray.save_npy, shmarray.save_npz):
        with pytest.raises(NotImplementedError, match="filled"):
            save(tmp_path / "a", array)
    assert os.listdir(tmp_path) == []


def test_the_arguments_of_numpys_save_are_taken(tmp_path):
    shmarray.save_npy(file=tmp_path / "a.npy", arr=GRID, allow_pickle=True)
    assert (tmp_path / "a.npy").read_bytes() == npy(GRID)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        shmarray.save_npy(tmp_path / "b.npy", OBJECTS, False)


@pytest.mark.parametrize(
    ("name", "message"), [("x" * 70_000, r"format 2\.0"), ("€", r"format 3\.0")], ids=["2.0", "3.0"]
)
def test_a_later_version_of_the_format_is_warned_of_as_by_numpy(name, message, tmp_path):
    array = np.zeros(2, [(name, "i4")])
    with pytest.warns(UserWarning, match=message) as warned:
        shmarray.save_npy(tmp_path / "a.npy", array)
    assert message.endswith(r"2\.0") or warned[0].filename == __file__  # that one NumPy tells
    with pytest.warns(UserWarning, match=message):
        assert (tmp_path / "a.npy").read_bytes() == npy(array)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755], ids=oct)
def test_a_replaced_file_keeps_its_mode_and_readers_keep_the_old_one(mode, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(GRID))
    path.chmod(mode)
    with open(path, "rb") as reader:
        mapped = shmarray.load_npy(path, shared=False)
        shmarray.save_npy(path, -GRID)
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert reader.read() == npy(GRID)
    assert mapped.tolist() == GRID.tolist()
    assert path.read_bytes() == npy(-GRID)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path):
    old = os.umask(0o027)
    try:
        shmarray.save_npy(tmp_path / "a.npy", GRID)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.npy").stat().st_mode) == 0o640


def test_a_missing_folder_is_an_os_error_and_leaves_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        shmarray.save_npy(tmp_path / "missing" / "a.npy", GRID)
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_an_os_error_and_keeps_the_older_file(small_tmpfs, monkeypatch, directory):
    place = small_tmpfs("size=1m")
    monkeypatch.setenv("SHMARRAY_DIR", str(directory))
    shmarray.save_npy(place / "a.npy", GRID)
    with pytest.raises(OSError, match=r"a\.npy|space"):
        shmarray.save_npy(place / "a.npy", np.zeros(1 << 20))
    assert os.listdir(place) == ["a.npy"]
    assert (place / "a.npy").read_bytes() == npy(GRID)


def test_an_exception_of_write_is_passed_on():
    class Failing:
        def write(self, _data):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shmarray.save_npy(Failing(), GRID)


SAVER = """
import sys, numpy, shmarray
arrays = [numpy.full(200_000, value) for value in (1, 2)]
print("ready", flush=True)
while True:
    for array in arrays:
        shmarray.save_npy(sys.argv[1], array)
        print("saved", flush=True)
"""


def test_a_saver_that_is_killed_leaves_the_older_file_or_the_new_one(tmp_path):
    path = tmp_path / "a.npy"
    whole = [npy(np.full(200_000, value)) for value in (1, 2)]
    path.write_bytes(whole[0])
    chance = random.Random(4)
    for _ in range(12):
        saver = subprocess.Popen([sys.executable, "-c", SAVER, path], stdout=subprocess.PIPE)
        for _ in range(chance.randrange(1, 12)):
            assert saver.stdout.readline()
        for _ in range(chance.randrange(200_000)):  # somewhere in the middle of a save
            pass
        saver.kill()
        saver.communicate()
        assert path.read_bytes() in whole
        assert shmarray.load_npy(path)[-1] in (1, 2)
