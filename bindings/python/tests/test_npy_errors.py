"""Errors name the file: an OSError by its `filename`, as that of open(), others in their text."""

import gzip
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

import shmarray
from processes import run_forked
from test_npy import GRID, OBJECTS, npy
from test_npz import npz

LOADS = {
    "load_npy": shmarray.load_npy,
    "load_npy, private": lambda path: shmarray.load_npy(path, shared=False),
    "load_npy, mapped": lambda path: shmarray.load_npy(path, "r"),
    "load_npz": shmarray.load_npz,
    "load_batch": lambda path: shmarray.load_batch([path, path]),
    "load_batch, 1": lambda path: next(shmarray.load_batch([path, path], 1)),
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_an_os_error_is_that_of_open(load, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("missing", "missing/a", "file/a", "loop", "n" * 300):
        path = tmp_path / name
        facts = []
        for action in (open, load):
            with pytest.raises(OSError, match="Errno") as caught:
                action(path)
            facts.append((type(caught.value), caught.value.errno, caught.value.filename))
        assert facts[0] == facts[1]
        assert str(caught.value).count(str(path)) == 1


def test_a_missing_file_has_just_the_text_of_open(tmp_path):
    for load in (open, *LOADS.values()):
        with pytest.raises(FileNotFoundError) as raised:
            load(str(tmp_path / "missing"))
        assert str(raised.value) == f"[Errno 2] No such file or directory: '{tmp_path / 'missing'}'"


def check_denied(load, path):
    if os.geteuid() == 0:
        os.setuid(65534)  # root may read every file
    with pytest.raises(PermissionError) as raised:
        load(path)
    assert raised.value.filename == str(path)
    assert str(raised.value).count(str(path)) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS)
def test_a_file_that_may_not_be_read_is_named(load, tmp_path):
    np.save(tmp_path / "a.npy", GRID)
    (tmp_path / "a.npy").chmod(0)
    run_forked(check_denied, load, tmp_path / "a.npy")


@pytest.mark.parametrize("save", [shmarray.save_npy, shmarray.save_npz])
def test_a_folder_that_is_missing_is_named_by_a_save(save, tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        save(tmp_path / "missing" / "a", GRID)
    assert raised.value.filename.startswith(str(tmp_path / "missing"))


BROKEN = {
    "empty": b"",
    "no magic": b"text and more text",
    "version": b"\x93NUMPY\x09\x00" + npy(GRID)[8:],
    "cut off in the header": npy(GRID)[:50],
    "cut off": npy(GRID)[:-1],
    "descr": npy(GRID).replace(b"<i4", b"<i5"),
    "objects": npy(OBJECTS, allow_pickle=True),
}
OPENED = {
    "path": lambda path: path,
    "str": str,
    "file": lambda path: path.open("rb"),
    "raw file": lambda path: path.open("rb", buffering=0),
    "gzip": lambda path: gzip.GzipFile(str(path), fileobj=_compressed(path)),
}


def _compressed(path):
    return io.BytesIO(gzip.compress(path.read_bytes(), 1))


def check_named(load, opened, *names):
    """Loads from a file, whose name is in the error, and once only."""
    try:
        with pytest.raises((ValueError, EOFError)) as raised:
            load(opened)
    finally:
        if isinstance(opened, io.IOBase):
            opened.close()
    for name in names:
        assert str(raised.value).count(name) == 1
    assert "in memory" not in str(raised.value)


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_an_npy_file_that_is_broken_is_named(data, opened, tmp_path):
    path = tmp_path / "broken.npy"
    path.write_bytes(data)
    for shared in (True, False):
        check_named(lambda o, s=shared: shmarray.load_npy(o, shared=s), opened(path), str(path))
    if opened is OPENED["path"]:
        check_named(lambda path: shmarray.load_npy(path, "r"), path, str(path))


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_member_that_is_broken_is_named_and_so_is_its_file(data, opened, tmp_path):
    path = tmp_path / "broken.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("good.npy", npy(GRID))
        archive.writestr("bad.npy", data)
    if not data.startswith(b"\x93NUMPY"):
        assert shmarray.load_npz(path)["bad"] == data  # no NPY file, so it is its bytes
        return
    for options in ({}, {"shared": False}):
        for load in (lambda npz: npz["bad"], lambda npz: npz.load()):
            source = opened(path)
            found = shmarray.load_npz(source, **options)
            check_named(load, found, str(path), "bad.npy")
            if isinstance(source, io.IOBase):
                source.close()


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_an_archive_that_is_broken_is_named(opened, tmp_path):
    path = tmp_path / "broken.npz"
    for data in (b"text", npz(np.savez, a=GRID)[:-5], b""):
        path.write_bytes(data)
        if data or opened in (OPENED["path"], OPENED["str"]):
            check_named(shmarray.load_npz, opened(path), str(path))


def test_a_file_without_a_name_is_told_by_its_descriptor(tmp_path):
    with open(os.open(tmp_path / "a.npz", os.O_CREAT | os.O_RDWR), "rb+") as file:
        file.write(b"text")
        with pytest.raises(ValueError, match=f"invalid file {file.name}: "):
            shmarray.load_npz(file)


def test_objects_that_cannot_be_unpickled_are_told_with_their_file(tmp_path):
    whole = npy(OBJECTS, allow_pickle=True)
    path = tmp_path / "broken.npy"
    path.write_bytes(whole[:-20])
    for source in (path, str(path)):
        with pytest.raises((EOFError, pickle.UnpicklingError)) as raised:
            shmarray.load_npy(source, allow_pickle=True)
        assert path.name in str(raised.value) + "".join(getattr(raised.value, "__notes__", []))


@pytest.mark.parametrize(
    "load", [shmarray.load_npy, lambda path: shmarray.load_npz(path)["a"]], ids=["npy", "npz"]
)
def test_full_memory_is_told_with_the_file_that_needed_it(load, small_tmpfs, tmp_path, monkeypatch):
    monkeypatch.setenv("SHMARRAY_DIR", str(small_tmpfs("size=1m")))
    path = tmp_path / "large"
    large = np.zeros(1 << 20)
    path.write_bytes(npy(large) if load is shmarray.load_npy else npz(np.savez, a=large))
    with pytest.raises(MemoryError) as raised:
        load(path)
    assert str(path) in str(raised.value)
