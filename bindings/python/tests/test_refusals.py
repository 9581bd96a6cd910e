"""Impossible requests are refused with the exception that says what and why, and leave nothing."""

import errno
import json
import os
import stat
import subprocess

import numpy as np
import pytest

import shmarray

CLASSES = {
    "NotFound": FileNotFoundError,
    "Exists": FileExistsError,
    "StaleHandle": shmarray.StaleHandleError,
    "InvalidHandle": ValueError,
    "InvalidSegment": shmarray.Error,
    "InvalidFile": ValueError,
    "InvalidArgument": ValueError,
    "InvalidDType": TypeError,
    "DTypeMismatch": TypeError,
    "OutOfBounds": ValueError,
    "ReadOnly": ValueError,
    "NoSpace": MemoryError,
    "NoMemory": MemoryError,
    "PermissionDenied": PermissionError,
    "Unsupported": shmarray.Error,
    "Os": OSError,
}


def test_every_kind_of_error_has_its_exception():
    # Refuses a kind that core has gained and that has no class here, or is missing in the table
    # above.
    assert dict(shmarray._core._error_classes()) == CLASSES


def test_our_exceptions_are_the_packages_own():
    assert (shmarray.Error.__module__, shmarray.StaleHandleError.__module__) == (
        "shmarray",
        "shmarray",
    )
    assert issubclass(shmarray.StaleHandleError, shmarray.Error)
    assert not issubclass(shmarray.Error, (OSError, ValueError))


GOOD = {
    "shmarray": 1,
    "segment": "abcdefghijklmnopqrstuvwx",
    "generation": 7,
    "offset": 0,
    "dtype": "<i4",
    "shape": [3],
    "strides": [4],
}


def text(**changes):
    """Returns a handle with some fields changed. None removes a field."""
    fields = {**GOOD, **changes}
    return json.dumps(
        {key: value for key, value in fields.items() if value is not None}, separators=(",", ":")
    )


def null(field):
    return text().replace(f'"{field}":{json.dumps(GOOD[field])}', f'"{field}":null')


HUGE = 1 << 64
NO_HANDLES = {
    "an unknown version": (text(shmarray=2), "shmarray: version 2"),
    "an unknown field": (text(colour=1), "colour: unknown field"),
    "a doubled field": (
        text().replace('"offset":0', '"offset":0,"offset":0'),
        "offset: duplicate field",
    ),
    **{f"no {field}": (text(**{field: None}), f"{field}: missing field") for field in GOOD},
    **{f"a null {field}": (null(field), field) for field in GOOD},
    **{
        f"a huge {field}": (text(**{field: HUGE}), field)
        for field in ("shmarray", "generation", "offset")
    },
    "a generation over 2^53": (text(generation=1 << 53), "generation"),
    "a negative offset": (text(offset=-1), "offset"),
    "a fraction": (text(offset=0.5), "offset"),
    "a huge dimension": (text(shape=[HUGE]), r"shape\[0\]"),
    "a negative dimension": (text(shape=[-1]), r"shape\[0\]"),
    "a huge stride": (text(strides=[HUGE]), r"strides\[0\]"),
    "too many strides": (text(strides=[4, 4]), "strides"),
    "too many dimensions": (text(shape=[1] * 65, strides=[4] * 65), "shape"),
    "a path for a segment": (text(segment="../../../etc/passwd"), "segment"),
    "a name for a segment": (text(segment="frames"), "segment"),
    "an object dtype": (text(dtype="|O8"), "dtype"),
    "a word for a dtype": (text(dtype="float"), "dtype"),
    "a number for a dtype": (text(dtype=4), "dtype"),
    "a null ticket": (text()[:-1] + ',"ticket":null}', "ticket"),
    "a text after it": (text() + " x", "trailing"),
    "half of it": (text()[:30], "ends too early, after character 30"),
    "megabytes": (text(dtype="V" * (1 << 21)), "at most"),
}


@pytest.mark.parametrize(("handle", "message"), NO_HANDLES.values(), ids=NO_HANDLES)
def test_a_text_that_is_no_handle_is_refused_by_its_field(handle, message):
    for read in (shmarray.attach, shmarray.Handle):
        with pytest.raises(ValueError, match=f"invalid handle: .*{message}"):
            read(handle)


def changed(array, **changes):
    return json.dumps({**json.loads(str(shmarray.handle(array))), **changes}, separators=(",", ":"))


OUTSIDE = {
    "more elements": {"shape": [4]},
    "another offset": {"offset": 4},
    "an offset after the end": {"offset": 1 << 40, "shape": [0]},
    "longer strides": {"strides": [5]},
    "strides backwards": {"strides": [-4]},
    "a larger dtype": {"dtype": "<i8"},
    "sizes that overflow": {"shape": [1 << 40, 1 << 40], "strides": [0, 0]},
    "strides that overflow": {"shape": [3, 3], "strides": [(1 << 63) - 1] * 2},
}


@pytest.mark.parametrize("changes", OUTSIDE.values(), ids=OUTSIDE)
def test_a_handle_that_leaves_its_segment_is_refused(changes):
    a = shmarray.zeros(3, "<i4")
    with pytest.raises(ValueError, match="shape, strides, offset"):
        shmarray.attach(changed(a, **changes))


def test_a_handle_of_no_segment_is_not_found():
    with pytest.raises(FileNotFoundError, match="abcdefghijklmnopqrstuvwx") as caught:
        shmarray.attach(text())
    assert caught.value.errno == errno.ENOENT


def test_a_handle_of_another_life_is_stale():
    a = shmarray.zeros(3)
    stale = changed(a, generation=shmarray.handle(a).generation + 1)
    with pytest.raises(shmarray.StaleHandleError, match=shmarray.handle(a).segment):
        shmarray.attach(stale)


BAD_NAMES = ["", "a/b", "/", "a b", "ä", "a\0b", "x" * 65, "a\n", " a"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_no_array_can_have_is_refused(name, files):
    for use in (
        lambda: shmarray.zeros(3, name=name),
        lambda: shmarray.attach(name),
        lambda: shmarray.unlink(name),
    ):
        with pytest.raises(ValueError, match="invalid name"):
            use()
    assert files() == []


def test_a_name_that_nothing_has_is_not_found():
    for use in (shmarray.attach, shmarray.unlink):
        with pytest.raises(FileNotFoundError, match='"nobody"') as caught:
            use("nobody")
        assert caught.value.errno == errno.ENOENT


def test_a_name_that_is_taken_is_refused_and_leaves_nothing(files):
    a = shmarray.zeros(3, name="series")
    before = files()
    for make in (shmarray.zeros, shmarray.empty, shmarray.ones):
        with pytest.raises(FileExistsError, match='"series"') as caught:
            make(5, name="series")
        assert caught.value.errno == errno.EEXIST
    assert files() == before
    assert shmarray.attach("series").shape == a.shape


ARGUMENTS = {
    "a negative dimension": ((-1,), {}, ValueError, "invalid shape: -1"),
    "a negative size": (-3, {}, ValueError, "invalid shape: -3"),
    "a dimension over 64 bits": ((1 << 64,), {}, ValueError, "invalid shape"),
    "a size over 64 bits": ((1 << 32, 1 << 32), {}, ValueError, "invalid shape"),
    "such a size beside a zero": ((1 << 32, 1 << 32, 0), {}, ValueError, "invalid shape"),
    "a size that no process has room for": (
        ((1 << 63) - 1,),
        {"dtype": "u1"},
        ValueError,
        "invalid shape",
    ),
    "65 dimensions": ((1,) * 65, {}, ValueError, "invalid shape"),
    "a fraction": (2.5, {}, TypeError, "float"),
    "fractions": ((2, 2.5), {}, TypeError, "float"),
    "a word": ("ab", {}, TypeError, "str"),
    "an order that is none": (3, {"order": "X"}, ValueError, "invalid order"),
    "an order for copies": (3, {"order": "K"}, ValueError, "invalid order"),
    "a dtype that is none": (3, {"dtype": "nonsense"}, TypeError, "nonsense"),
    "objects": (3, {"dtype": object}, TypeError, "dtype object cannot be shared"),
    "persistence without a name": (3, {"persist": True}, ValueError, "invalid persist"),
    "a mode that excludes us": (3, {"mode": 0o400}, ValueError, "invalid mode"),
    "a mode with more than permissions": (3, {"mode": 0o4600}, ValueError, "invalid mode"),
    "a negative mode": (3, {"mode": -1}, ValueError, "invalid mode"),
    "a name that is no text": (3, {"name": b"series"}, TypeError, "name"),
    "an option that is none": (3, {"colour": "red"}, TypeError, "colour"),
}


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"), ARGUMENTS.values(), ids=ARGUMENTS
)
def test_an_argument_that_no_array_can_have_is_refused(shape, options, error, message, files):
    for make in (shmarray.empty, shmarray.zeros, shmarray.ones):
        with pytest.raises(error, match=message):
            make(shape, **options)
    assert files() == []


NO_ARRAYS = [
    None,
    5,
    "text",
    [1, 2],
    (1,),
    {"a": 1},
    np.float64(3),
    np.ma.zeros(3),
    np.rec.array([(1,)]),
    memoryview(b"a"),
]


@pytest.mark.parametrize("thing", NO_ARRAYS, ids=lambda thing: type(thing).__name__)
def test_only_a_plain_ndarray_has_a_handle(thing, files):
    with pytest.raises(TypeError, match=rf"numpy\.ndarray.*not .*{type(thing).__name__}"):
        shmarray.handle(thing)
    assert files() == []


def test_an_element_of_a_shared_array_has_no_handle():
    with pytest.raises(TypeError, match=r"numpy\.float64"):
        shmarray.handle(shmarray.zeros(3)[0])


def test_a_private_array_has_no_handle_and_is_told_to_be_shared():
    a = shmarray.zeros(3)
    for private in (np.zeros(3), a.copy(), a + 1, np.zeros(0), np.zeros(())):
        with pytest.raises(ValueError, match=r"shmarray\.share"):
            shmarray.handle(private)


def test_a_view_that_somebody_made_to_leave_the_segment_has_no_handle():
    a = shmarray.zeros(3)
    outside = np.lib.stride_tricks.as_strided(a, (1 << 20,), (8,))
    with pytest.raises(ValueError, match=r"shmarray\.share"):
        shmarray.handle(outside)


@pytest.mark.parametrize(
    "thing", [None, 5, b"name", ["name"], np.zeros(3)], ids=lambda thing: type(thing).__name__
)
def test_only_a_handle_or_a_text_is_attached(thing):
    with pytest.raises(TypeError, match="expected a Handle or str, not"):
        shmarray.attach(thing)


def test_holds_are_not_made_by_hand():
    with pytest.raises(TypeError, match="SegmentMemory"):
        shmarray._core.SegmentMemory()


@pytest.fixture
def small_memory(tmp_path, monkeypatch):
    """A SHMARRAY_DIR of one mebibyte."""
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    monkeypatch.setenv("SHMARRAY_DIR", str(tmp_path))
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


def test_full_shared_memory_is_a_memory_error_that_says_how_much(small_memory):
    a = shmarray.ones(1000)
    for make in (
        lambda: shmarray.zeros((2, 1 << 20), "u1"),
        lambda: shmarray.share(np.zeros((2, 1 << 20), "u1")),
        lambda: shmarray.full_like(np.zeros((2, 1 << 20), "u1"), 1, name="large", persist=True),
    ):
        with pytest.raises(
            MemoryError, match=r"shared memory is full: 21\d{5} bytes asked, \d+ bytes free in "
        ) as caught:
            make()
        assert str(small_memory) in str(caught.value)
    assert (
        sum(
            name.startswith("shmarray-") and "registry" not in name
            for name in os.listdir(small_memory)
        )
        == 1
    )
    assert a.sum() == 1000
    assert shmarray.ones(1000).sum() == 1000
    del a


def plant(directory, change, name=None):
    """Returns a segment file as `change` makes it from a good one, and the handle that leads
    there.
    """
    a = shmarray.zeros(3, [("x", "<i4"), ("y", "<f8")], name=name)
    handle = shmarray.handle(a)
    own = handle.segment
    other = handle.segment[::-1]
    content = (directory / f"shmarray-{own}").read_bytes().replace(own.encode(), other.encode())
    path = directory / f"shmarray-{other}"
    path.write_bytes(change(content))
    path.chmod(0o600)
    return path, str(handle).replace(own, other)


BROKEN = {
    "nothing": lambda content: content[:0],
    "one byte": lambda content: content[:1],
    "half a page": lambda content: content[:2048],
    "only the header": lambda content: content[:4096],
    "one byte too short": lambda content: content[:-1],
    "zeros": lambda content: bytes(len(content)),
    "another file": lambda content: b"#!/bin/sh\n" * len(content),
    "another major version": lambda content: content[:8] + b"\x02" + content[9:],
    "an unknown feature": lambda content: content[:16] + b"\x01" + content[17:],
    "another id": lambda content: content[:32] + b"a" * 24 + content[56:],
    "a huge header": lambda content: content[:56] + b"\xff" * 8 + content[64:],
    "a huge segment": lambda content: content[:64] + b"\xff" * 8 + content[72:],
    "huge data": lambda content: content[:72] + b"\xff" * 8 + content[80:],
    "a description outside": lambda content: content[:96] + b"\xff" * 4 + content[100:],
    "more dimensions": lambda content: content[:256] + b"\xff" + content[257:],
    "a longer shape": lambda content: content[:352] + b"\xff" * 8 + content[360:],
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_valid_segment_is_refused(change, directory):
    path, handle = plant(directory, change)
    with pytest.raises(shmarray.Error, match=path.name.removeprefix("shmarray-")):
        shmarray.attach(handle)
    path.unlink()


def test_a_file_that_is_no_segment_is_not_listed(directory):
    path, _ = plant(directory, BROKEN["half a page"])
    assert shmarray.segments() == []
    path.unlink()


@pytest.mark.parametrize(
    ("old", "new"), [(b'"<i4"', b'"|O4"'), (b'"<f8"', b'"<f4"'), (b'["x"', b'["y"')]
)
def test_a_hostile_dtype_in_a_segment_is_refused(old, new, directory):
    # The handle is good. A name would lead to the dtype of the header.
    path, _ = plant(directory, lambda content: content.replace(old, new))
    os.link(path, directory / "shmarray-name-hostile")
    with pytest.raises((ValueError, shmarray.Error), match="dtype"):
        shmarray.attach("hostile")
    (directory / "shmarray-name-hostile").unlink()
    path.unlink(missing_ok=True)  # the last holder, for a moment, has released it


def test_a_link_in_a_segments_place_is_not_followed(directory, tmp_path):
    path, handle = plant(directory, lambda content: content)
    (tmp_path / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="open"):
        shmarray.attach(handle)
    path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_segment_of_somebody_else_is_refused(directory):
    path, handle = plant(directory, lambda content: content)
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionError, match="belongs to user 65534") as caught:
        shmarray.attach(handle)
    assert caught.value.errno == errno.EACCES
    path.unlink()


def test_a_directory_that_is_not_there_is_an_os_error(directory, monkeypatch):
    monkeypatch.setenv("SHMARRAY_DIR", str(directory / "missing"))
    for use in (lambda: shmarray.zeros(3), shmarray.sweep, shmarray.segments):
        with pytest.raises(OSError, match="missing") as caught:
            use()
        assert caught.value.errno == errno.ENOENT
    monkeypatch.setenv("SHMARRAY_DIR", str(directory))


def test_a_segment_is_ours_alone_unless_asked(directory):
    a = shmarray.zeros(3, name="series")
    path = directory / f"shmarray-{shmarray.handle(a).segment}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_sub_interpreter_cannot_import_it(run_python):
    said = run_python(
        """
import importlib.util, warnings
names = "_interpreters", "_xxsubinterpreters"
name = next(name for name in names if importlib.util.find_spec(name))
interpreters = importlib.import_module(name)
code = '''
import os, warnings
warnings.simplefilter("ignore")  # NumPy warns where it does not refuse
try:
    import shmarray
except ImportError as error:
    os.write(1, str(error).encode())
'''
interpreter = interpreters.create()
interpreters.run_string(interpreter, code)
interpreters.destroy(interpreter)
"""
    )
    assert "subinterpreters" in said
