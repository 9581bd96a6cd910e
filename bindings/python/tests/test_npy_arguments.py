"""load_npy and load_npz take what numpy.load takes, and do with it what numpy.load does."""

import inspect
import io
import mmap
import pickle
import zipfile
from collections.abc import Mapping

import numpy as np
import pytest

import shmarray
from processes import run_forked
from test_npy import GRID, OBJECTS, SOURCES, OnlyRead, check_same, npy
from test_npz import SHARED, npz

FORKS = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
LOADERS = [shmarray.load_npy, shmarray.load_npz]


def outcome(load):
    """Returns the elements that are loaded, or the class of the exception."""
    try:
        return load().tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("ours", LOADERS, ids=["npy", "npz"])
def test_arguments_have_numpys_order_names_and_defaults(ours):
    def arguments(load):
        parameters = list(inspect.signature(load).parameters.values())[1:6]
        return [(one.name, one.kind, one.default) for one in parameters]

    assert arguments(ours)[:4] == arguments(np.load)[:4]
    # Left out it is no limit, for it is there to protect Python's own parser.
    assert arguments(ours)[4][:2] == arguments(np.load)[4][:2]


def pickled_by_python_2():
    """Returns a file of objects with the opcode of Python 2's str, and its name of builtins."""
    objects = np.array([len, "PLACE"], object)
    data = pickle.dumps(objects, protocol=2)
    assert b"__builtin__" in data
    assert b"X\5\0\0\0PLACE" in data
    header = npy(objects, allow_pickle=True)[:128]
    return header + data.replace(b"X\5\0\0\0PLACE", b"U\3a\xe9b")


def as_member(data):
    """Returns an archive with this file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.npy", data)
    return file.getvalue()


@pytest.mark.parametrize("fix_imports", [True, False])
@pytest.mark.parametrize("encoding", ["ASCII", "latin1", "bytes", "utf-8", "ascii", None])
def test_objects_of_python_2_are_unpickled_as_by_numpy(encoding, fix_imports, tmp_path):
    data = pickled_by_python_2()
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    options = {"allow_pickle": True, "fix_imports": fix_imports, "encoding": encoding}
    expected = outcome(lambda: np.load(io.BytesIO(data), **options))
    for source in (lambda: path, lambda: data, lambda: io.BytesIO(data), lambda: OnlyRead(path)):
        assert outcome(lambda source=source: shmarray.load_npy(source(), **options)) == expected
    archive = as_member(data)
    assert outcome(lambda: np.load(io.BytesIO(archive), **options)["a"]) == expected
    assert outcome(lambda: shmarray.load_npz(archive, **options)["a"]) == expected
    assert outcome(lambda: shmarray.load_npz(archive, **options).load()["a"]) == expected
    if encoding in ("utf-8", "ascii", None):
        for load in LOADERS:
            with pytest.raises(ValueError, match="'ASCII', 'latin1', or 'bytes'"):
                load("missing", encoding=encoding)


HEADERS = {
    "short": GRID,
    "long": np.zeros(2, [(f"field {number}", "<f8") for number in range(500)]),
    "empty": np.zeros((0, 3)),
}


@pytest.mark.parametrize("array", HEADERS.values(), ids=HEADERS)
def test_a_header_that_is_longer_than_max_header_size_is_refused_as_by_numpy(array, tmp_path):
    path = tmp_path / "a.npy"
    archive = npz(np.savez, a=array)
    path.write_bytes(npy(array))
    length = int.from_bytes(path.read_bytes()[8:10], "little")
    for most in (-1, 0, 10, length - 1, length, length + 1, 1 << 70):
        for trust in (False, True):
            options = {"max_header_size": most, "allow_pickle": trust}
            expected = outcome(lambda options=options: np.load(path, **options))
            assert (expected is ValueError) == (length > most and not trust)
            for source in SOURCES.values():
                opened = source(path)
                assert outcome(lambda o=opened, p=options: shmarray.load_npy(o, **p)) == expected
                if isinstance(opened, io.IOBase):
                    opened.close()
            if array.size:
                assert outcome(lambda p=options: shmarray.load_npy(path, "r", **p)) == expected
            for shared in (True, False):
                found = shmarray.load_npz(archive, shared=shared, **options)
                assert outcome(lambda found=found: found["a"]) == expected
                assert outcome(lambda found=found: found.load()["a"]) == expected


def test_a_header_that_numpy_refuses_by_default_is_loaded():
    array = np.zeros(2, [(f"field {number}", "<f8") for number in range(1000)])
    with pytest.raises(ValueError, match="Header"):
        np.load(io.BytesIO(npy(array)))
    check_same(shmarray.load_npy(npy(array)), array)
    check_same(shmarray.load_npz(npz(np.savez, a=array))["a"], array)
    with pytest.raises(ValueError, match=r"Header.*larger than max_header_size, 10000"):
        shmarray.load_npy(npy(array), max_header_size=10_000)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize(
    "array", [GRID, np.asfortranarray(GRID), np.array(4.5), GRID.astype(">f8")], ids=str
)
def test_a_mapped_file_is_numpys_map_of_it(array, mode, tmp_path):
    found = []
    for load in (np.load, shmarray.load_npy):
        path = tmp_path / "a.npy"
        path.write_bytes(npy(array))
        mapped = load(path, mode)
        assert type(mapped) is np.memmap
        assert (mapped.dtype, mapped.shape, mapped.offset) == (array.dtype, array.shape, 128)
        assert mapped.tobytes() == array.tobytes()
        if mapped.flags.writeable:
            mapped[...] = 1
            mapped.flush()
        found.append((mapped.flags.writeable, mapped.flags.fnc, path.read_bytes()))
    assert found[0] == found[1]


def test_what_cannot_be_mapped_is_refused_and_stays_as_it_is(tmp_path):
    path = tmp_path / "a.npy"
    whole = npy(GRID)
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="mmap_mode"):
        shmarray.load_npy(path, "w+")  # numpy.load empties the file, and fails
    assert path.read_bytes() == whole
    with path.open("rb") as file:
        for source in (whole, io.BytesIO(whole), file):
            with pytest.raises((ValueError, TypeError)):
                np.load(source, "r")
            with pytest.raises(ValueError, match="mmap_mode is for a path"):
                shmarray.load_npy(source, "r")
    path.write_bytes(whole[:-8])
    for mode in ("r", "r+", "c"):
        with pytest.raises(ValueError, match=r"a\.npy.*data"):
            shmarray.load_npy(path, mode)
    assert path.read_bytes() == whole[:-8]
    path.write_bytes(npy(OBJECTS, allow_pickle=True))
    for load in (np.load, shmarray.load_npy):
        with pytest.raises(ValueError, match="Python objects"):
            load(path, "r", allow_pickle=True)


def test_a_map_that_is_not_aligned_is_copied_on_request_but_not_one_for_stores(tmp_path):
    whole = npy(np.arange(4.0))
    shorter = whole[:8] + (117).to_bytes(2, "little") + whole[10:126] + b"\n" + whole[128:]
    path = tmp_path / "a.npy"
    path.write_bytes(shorter)
    for mode in ("r", "c"):
        assert not shmarray.load_npy(path, mode).flags.aligned
        found = shmarray.load_npy(path, mode, align=True)
        assert found.flags.aligned
        assert found.flags.writeable is (mode == "c")
        assert found.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"a\.npy.*align"):
        shmarray.load_npy(path, "r+", align=True)


@SHARED
@pytest.mark.parametrize("mode", ["r", "r+", "w+", "c"])
def test_a_mode_in_which_an_archive_cannot_be_mapped_is_ignored_as_by_numpy(mode, shared, tmp_path):
    data = npz(np.savez, a=GRID)
    path = tmp_path / "a.npz"
    path.write_bytes(data)
    for source in (lambda: io.BytesIO(data), lambda: path):
        theirs = np.load(source(), mmap_mode=mode)["a"]
        if source() is path and mode in ("r", "c"):
            continue
        ours = shmarray.load_npz(source(), mode, shared=shared)["a"]
        check_same(ours, theirs)
        assert ours.flags.writeable
        assert theirs.flags.writeable
        assert shmarray.is_shared(ours) is shared
        ours[...] = 0
    assert path.read_bytes() == data
    with pytest.raises(ValueError, match="mmap_mode must be"):
        shmarray.load_npz(path, mmap_mode="x")


def test_an_empty_file_is_the_end_of_a_file_as_for_numpy(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    for load in (np.load, *LOADERS):
        with pytest.raises(EOFError, match="No data left"):
            load(path)


def archives(path):
    """Returns a way to open each source of an archive."""
    return [str(path), path, path.read_bytes(), io.BytesIO(path.read_bytes()), path.open("rb")]


def test_an_archive_has_the_class_and_every_attribute_of_numpys(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, GRID, b=GRID + 1)
    for source in archives(path):
        numpys = source if not isinstance(source, bytes) else io.BytesIO(source)
        theirs = np.load(numpys)
        ours = shmarray.load_npz(source)
        assert isinstance(ours, np.lib.npyio.NpzFile)
        assert isinstance(ours, Mapping)
        assert {name for name in dir(theirs) if name[0] != "_"} <= set(dir(ours))
        for name in ("allow_pickle", "pickle_kwargs", "files"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert [member.filename for member in ours.zip.infolist()] == theirs.zip.namelist()
        assert ours.zip.read("b.npy") == theirs.zip.read("b.npy")
        assert ours.zip is ours.zip
        assert (ours.fid is None) == (theirs.fid is None)
        if ours.fid is not None:
            assert ours.fid.name == theirs.fid.name
            assert repr(ours) == repr(theirs)
        for name in ("b", "b.npy", "c", "arr_0", "arr_0.npy", 5, None):
            assert (name in ours) == (name in theirs)
        for read in (dict, lambda npz: dict(npz.items()), lambda npz: {k: npz[k] for k in npz}):
            for (name, one), (other, two) in zip(
                read(ours).items(), read(theirs).items(), strict=True
            ):
                assert name == other
                check_same(one, two)
        assert list(ours.keys()) == list(theirs.keys())
        assert len(list(ours.values())) == len(theirs)
        assert ours.get("missing", 7) == theirs.get("missing", 7) == 7
        file = ours.zip.fp
        for one in (ours, theirs):
            one.close()
            one.close()
            assert (one.zip, one.fid) == (None, None)
        assert file.closed
        if isinstance(source, io.IOBase):
            source.close()


def test_what_an_archive_is_told_later_holds_for_its_next_members():
    found = shmarray.load_npz(npz(np.savez, a=GRID, objects=OBJECTS))
    with pytest.raises(ValueError, match="allow_pickle"):
        found["objects"]
    found.allow_pickle = True
    assert found["objects"].tolist() == OBJECTS.tolist()
    found.allow_pickle = False
    found.max_header_size = 10
    with pytest.raises(ValueError, match="max_header_size"):
        found["a"]


def test_an_archive_whose_file_was_replaced_has_still_the_old_one(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=GRID)
    found = shmarray.load_npz(path)
    shmarray.save_npz(path, b=GRID)
    assert found.zip.namelist() == ["a.npy"]
    check_same(found["a"], GRID)
    found.close()


@SHARED
def test_arrays_in_a_map_come_one_after_the_other_as_from_numpy(shared, tmp_path):
    arrays = [GRID, np.arange(5.0), np.asfortranarray(GRID), np.array(3)]
    path = tmp_path / "a"
    path.write_bytes(b"".join(map(npy, arrays)) + npy(OBJECTS, allow_pickle=True) + npy(GRID))
    with open(path, "rb") as file:
        theirs, ours = (mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) for _ in range(2))
    for array in arrays:
        found = shmarray.load_npy(ours, shared=shared)
        check_same(np.load(theirs), found)
        check_same(found, array)
        assert shmarray.is_shared(found) is shared
        assert np.shares_memory(found, np.frombuffer(ours, "u1")) is not shared
        assert ours.tell() == theirs.tell()
    assert shmarray.load_npy(ours, allow_pickle=True).tolist() == OBJECTS.tolist()
    ours.seek(ours.tell())
    check_same(shmarray.load_npy(ours, shared=shared), GRID)
    with pytest.raises(EOFError, match="No data left"):
        shmarray.load_npy(ours)
    ours.seek(0)
    check_same(shmarray.load_npy(ours, shared=shared), GRID)


@SHARED
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("array", [GRID, np.asfortranarray(GRID), np.zeros((0, 3))], ids=str)
def test_an_array_that_is_wanted_read_only_is_so_from_any_source(array, source, shared, tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(npy(array))
    opened = source(path)
    found = shmarray.load_npy(opened, shared=shared, readonly=True)
    check_same(found, array)
    assert not found.flags.writeable
    assert shmarray.is_shared(found) is shared
    if shared:
        with pytest.raises(ValueError, match="WRITEABLE"):
            found.flags.writeable = True
        assert shmarray.attach(shmarray.handle(found), readonly=True).tolist() == array.tolist()
    if isinstance(opened, io.IOBase):
        opened.close()


@pytest.mark.parametrize("options", [{}, {"shared": False}, {"mmap_mode": "c"}], ids=str)
def test_members_that_are_wanted_read_only_are_so(options, tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=GRID, b=GRID, objects=OBJECTS)
    found = shmarray.load_npz(path, readonly=True, allow_pickle=True, **options)
    for array in (found["a"], found["objects"], *found.load().values()):
        assert not array.flags.writeable
    check_same(found["a"], GRID)


def test_a_mapped_file_and_objects_that_are_wanted_read_only_are_so(tmp_path):
    (tmp_path / "a.npy").write_bytes(npy(GRID))
    for mode in ("r", "r+", "c"):
        assert not shmarray.load_npy(tmp_path / "a.npy", mode, readonly=True).flags.writeable
    data = npy(OBJECTS, allow_pickle=True)
    assert not shmarray.load_npy(data, allow_pickle=True, readonly=True).flags.writeable


def halve(array):
    array /= 2


def is_refused(array):
    with pytest.raises(ValueError, match="read-only"):
        halve(array)


@FORKS
def test_a_forked_worker_changes_an_array_of_its_parent_only_if_it_may(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    for options, is_changed in (({}, True), ({"shared": False}, False)):
        array = shmarray.load_npy(tmp_path / "a.npy", **options)
        run_forked(halve, array)
        assert (array == 0.5).all() == is_changed

    array = shmarray.load_npy(tmp_path / "a.npy", readonly=True)
    run_forked(is_refused, array)
    assert (array == 1).all()


def test_no_keyword_of_numpys_is_taken_for_an_option(tmp_path):
    path = tmp_path / "a.npz"
    for named in ({"threads": 8}, {"weights": GRID, "compressed": True}, {"align": 64}):
        for arrays in ((), (GRID,), (GRID, GRID)):
            with pytest.raises(TypeError, match="is an option here"):
                shmarray.save_npz(path, *arrays, **named)
    assert not path.exists()
    with pytest.raises(TypeError, match="is an option here"):
        shmarray.save_npz(path, {"a": GRID}, weights=GRID, threads=2)
    arrays = {"threads": GRID, "compressed": GRID + 1, "align": GRID * 2, "weights": GRID}
    shmarray.save_npz(path, **arrays)
    with np.load(path) as found:
        assert found.files == list(arrays)
        for name, array in arrays.items():
            check_same(found[name], array)
    shmarray.save_npz(path, arrays, threads=2, compressed=True)
    assert np.load(path).files == list(arrays)
    shmarray.save_npz(path, {"a": [1]})  # as numpy.savez, which pickles it
    assert np.load(path, allow_pickle=True)["arr_0"].item() == {"a": [1]}


def test_an_option_that_is_a_scalar_of_numpys_is_one_and_an_array_in_its_place_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {"a": GRID, "allow_pickle": GRID}
    shmarray.save_npz(path, arrays, compressed=np.True_, threads=np.int64(2), align=np.int8(8))
    with np.load(path) as found:
        assert found.files == list(arrays)
        check_same(found["a"], GRID)
    for options in ({"compressed": np.True_}, {"threads": np.int64(3)}):
        with pytest.raises(TypeError, match="is an option here"):
            shmarray.save_npz(path, weights=GRID, **options)
    for arguments in ((), (GRID,), (arrays,)):
        with pytest.raises(TypeError, match="'allow_pickle' is an option"):
            shmarray.save_npz(path, *arguments, allow_pickle=GRID)
    for wrong in (7, None):
        with pytest.raises(TypeError, match="'compressed' must be"):
            shmarray.save_npz(path, arrays, compressed=wrong)
