"""Sharing, attaching and views: one memory, several processes, no copies."""

import ctypes
import multiprocessing
import pickle
import re

import numpy as np
import pytest

import shmarray
from working import listed_arrays


def test_another_process_sees_what_is_written_and_writes_what_is_seen(peer):
    a = shmarray.zeros((2, 3, 3), "i4")
    a[0, 1, 2] = 5
    assert (
        peer.run(
            "a = shmarray.attach(text); answer = int(a[0, 1, 2])", text=str(shmarray.handle(a))
        )
        == 5
    )
    peer.run("a[1] = 7")
    assert a[1].tolist() == [[7] * 3] * 3
    a[1, 0, 0] = 9
    assert peer.run("answer = int(a[1, 0, 0])") == 9


def test_a_name_finds_the_same_memory(peer):
    a = shmarray.zeros(3, "u2", name="frames.1_a-B")
    peer.run("shmarray.attach('frames.1_a-B')[1] = 77")
    assert a.tolist() == [0, 77, 0]


def fill(handle, value):
    shmarray.attach(handle)[...] = value


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_handle_passes_to_a_worker_of_multiprocessing(method):
    a = shmarray.zeros((2, 3))
    worker = multiprocessing.get_context(method).Process(
        target=fill, args=(shmarray.handle(a[:, 1]), 4.5)
    )
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert a.tolist() == [[0, 4.5, 0]] * 2


VIEWS = {
    "itself": lambda a: a,
    "slice": lambda a: a[1:, ::2],
    "reversed": lambda a: a[::-1, :, ::-1],
    "transposed": lambda a: a.T,
    "one element": lambda a: a[1, 2, 3, ...],
    "row": lambda a: a[1],
    "new axis": lambda a: a[:, None],
    "bytes": lambda a: a.view("u1"),
    "other dtype": lambda a: a.view(">f4"),
    "reshaped": lambda a: a.reshape(4, 6),
    "flat": lambda a: a.ravel(),
    "nothing": lambda a: a[:, :0],
    "nothing at the end": lambda a: a[2:],
    "broadcast": lambda a: np.broadcast_to(a[0, 0], (5, 4)),
    "diagonal": lambda a: np.einsum("iij->ij", a[:, :2]),
    "windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0, 0], 3),
    "from a buffer": lambda a: np.frombuffer(memoryview(a), "<i4"),
    "view of a view": lambda a: a[1:][:, 1:][..., ::-2],
    "real part": lambda a: a.view("c8").imag,
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_views_handle_points_into_the_same_segment(view, peer):
    a = shmarray.array(np.arange(24, dtype="<i4").reshape(2, 3, 4))
    v = view(a)
    whole = shmarray.handle(a)
    handle = shmarray.handle(v)
    offset = v.__array_interface__["data"][0] - a.__array_interface__["data"][0]
    assert (handle.segment, handle.generation) == (whole.segment, whole.generation)
    assert (handle.offset, handle.shape, handle.strides, handle.dtype) == (
        offset,
        v.shape,
        v.strides,
        v.dtype,
    )
    assert shmarray.is_shared(v)
    assert shmarray.share(v) is v
    code = (
        "b = shmarray.attach(text); answer = [b.tobytes().hex(), b.shape, b.strides, b.dtype.str]"
    )
    assert peer.run(code, text=str(handle)) == [
        v.tobytes().hex(),
        [*v.shape],
        [*v.strides],
        v.dtype.str,
    ]


def test_a_field_is_a_view_too(peer):
    a = shmarray.zeros(3, [("x", "<i2"), ("y", "<f8")])
    handle = shmarray.handle(a["y"])
    assert (handle.offset, handle.strides, handle.dtype) == (2, (10,), np.dtype("<f8"))
    peer.run("shmarray.attach(text)[1] = 2.5", text=str(handle))
    assert a["y"].tolist() == [0, 2.5, 0]


def test_attaching_twice_maps_once():
    a = shmarray.zeros(3)
    b, c = (shmarray.attach(shmarray.handle(a)) for _ in range(2))
    assert len({x.__array_interface__["data"][0] for x in (a, b, c)}) == 1


def test_handing_over_copies_nothing_and_sharing_copies_once():
    source = np.zeros((10, 10))
    before = shmarray.copied_bytes()
    a = shmarray.share(source)
    assert shmarray.copied_bytes() - before == 800
    shmarray.attach(str(shmarray.handle(shmarray.share(a)[::2])))
    assert shmarray.copied_bytes() - before == 800


SOURCES = {
    "c": np.arange(24.0).reshape(2, 3, 4),
    "f": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    "sliced": np.arange(48.0).reshape(4, 3, 4)[::2, ::-1],
    "transposed": np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "scalar": np.array(5.0),
    "empty": np.zeros((0, 3)),
    "unaligned": np.arange(25, dtype="u1")[1:].view("f8"),
    "read-only": np.frombuffer(b"abc", "u1"),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_share_copies_any_array_and_keeps_fortrans_order(source):
    a = shmarray.share(source)
    np.testing.assert_array_equal(a, source)
    assert (type(a), a.dtype, a.flags.writeable) == (np.ndarray, source.dtype, True)
    assert (a.flags.c_contiguous, a.flags.fnc) == (
        not source.flags.fnc or source.flags.c_contiguous,
        source.flags.fnc,
    )
    assert isinstance(a.base, shmarray._core.SegmentMemory)
    assert shmarray.share(a) is a


def test_other_threads_run_while_an_array_is_copied(lets_others_run):
    source = np.ones(1 << 22, "u1")
    assert lets_others_run(lambda: shmarray.share(source))
    assert lets_others_run(
        lambda: shmarray.share({"strided": np.ones((1 << 11, 1 << 12), "u1")[:, ::2]})
    )
    assert lets_others_run(lambda: shmarray.discard(shmarray.dumps(source)))


def test_is_shared_says_no_to_everything_else():
    a = shmarray.zeros(3)
    others = [
        None,
        5,
        "text",
        [a],
        np.zeros(3),
        a[0],
        a + 1,
        a.copy(),
        a.base,
        a.view(np.recarray),
        np.ma.array(a),
        object(),
    ]
    assert [shmarray.is_shared(other) for other in others] == [False] * len(others)
    assert not shmarray.is_shared(np.zeros(3, object))


def test_read_only_memory_refuses_writes_for_good():
    a = shmarray.ones(3)
    b = shmarray.attach(shmarray.handle(a), readonly=True)
    with pytest.raises(ValueError, match="read-only"):
        b[0] = 5
    for view in (b, b[:1], b.view("u1"), np.asarray(memoryview(b))):
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="cannot set WRITEABLE"):
            view.flags.writeable = True
    assert memoryview(b.base).readonly
    with pytest.raises(TypeError, match="not writable"):
        ctypes.c_char.from_buffer(b.base)
    a[0] = 7
    assert b.tolist() == [7, 1, 1]
    assert shmarray.handle(b) == shmarray.handle(a)
    assert shmarray.is_shared(b)


def test_a_read_only_array_that_goes_on_is_attached_writable_by_its_handle():
    a = shmarray.ones(3)
    b = shmarray.attach(str(shmarray.handle(shmarray.attach(shmarray.handle(a), readonly=True))))
    b[2] = 4
    assert a.tolist() == [1, 1, 4]


def test_a_handle_prints_reads_back_compares_hashes_and_pickles():
    a = shmarray.zeros((2, 3), "<i4")
    handle = shmarray.handle(a)
    other = shmarray.handle(a[1:])
    text = str(handle)
    assert "\n" not in text
    assert " " not in text
    copies = [
        shmarray.Handle(text),
        shmarray.handle(a),
        pickle.loads(pickle.dumps(handle)),
        eval(repr(handle), vars(shmarray)),
    ]
    assert copies == [handle] * 4
    assert len({handle, *copies, other}) == 2
    assert handle != other
    assert handle != text
    assert (handle.shape, handle.strides, handle.offset, handle.dtype) == (
        (2, 3),
        (12, 4),
        0,
        np.dtype("<i4"),
    )
    assert re.fullmatch(r"[a-z2-7]{24}\.\d+", handle.segment)  # small, so in a cell
    assert re.fullmatch(r"[a-z2-7]{24}", shmarray.handle(shmarray.zeros(100_000)).segment)
    assert 0 < handle.generation < 1 << 53
    with pytest.raises(AttributeError):
        handle.offset = 3


def test_a_handles_repr_reads_back_whatever_its_dtype_is_called():
    a = shmarray.zeros(1, [('it\'s \\ "ü"', "i4")])
    handle = shmarray.handle(a)
    assert eval(repr(handle), vars(shmarray)) == handle
    assert shmarray.attach(str(handle)).dtype == a.dtype


def test_a_handle_survives_white_space_around_its_fields():
    a = shmarray.ones(3)
    text = str(shmarray.handle(a)).replace(",", " ,\n ").replace(":", " : ")
    assert shmarray.attach(f"\t{text}\n").tolist() == [1, 1, 1]


def test_segments_says_what_exists():
    a = shmarray.zeros((2, 3), ">i2", name="frames")
    b = shmarray.zeros(4, [("x", "<i4")])
    infos = {info.name: info for info in listed_arrays()}
    frames = infos["frames"]
    other = infos[None]
    assert (frames.segment, other.segment) == (
        shmarray.handle(a).segment,
        shmarray.handle(b).segment,
    )
    assert (frames.dtype, frames.shape, other.shape) == (">i2", (2, 3), (4,))
    assert frames.segment_bytes >= a.nbytes
    assert frames.creator_pid == multiprocessing.current_process().pid
    assert frames.created_ns <= other.created_ns


def test_sweep_gives_back_what_a_killed_process_held(peer, files):
    peer.run("a = shmarray.zeros(1000)")
    peer.kill()
    assert len(files()) == 1
    swept = shmarray.sweep()
    assert (swept.segments, files()) == (1, [])
    assert swept.bytes >= 8000
