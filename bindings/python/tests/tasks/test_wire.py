"""The golden messages are what is written today, and are read as what they were."""

import ast
import copyreg
import json
import operator
import pathlib
import pickle
import re
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from golden_messages import (
    GOLDEN,
    HANDLES,
    MESSAGES,
    PLAIN,
    frame,
    golden,
    payload,
    readonly,
    views,
)
from shmarray import _dumps, _wire
from shmarray._core import Pipe
from shmarray._tasks import _wire as _tasks_wire
from shmarray._tasks._ipc import _message
from shmarray._tasks._workers import _pipe

PACKAGE = pathlib.Path(shmarray.__file__).parent
PAGE = pathlib.Path(__file__).parents[2] / "WIRE.md"


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_written_as_its_golden_bytes(name, monkeypatch):
    # tblib, which distributed installs in this table, pickles exceptions with their tracebacks.
    monkeypatch.delitem(copyreg.dispatch_table, ValueError, raising=False)
    assert MESSAGES[name]() == golden(name)


def test_all_golden_bytes_are_of_a_message_and_of_this_version():
    found = json.loads(GOLDEN.read_text())
    assert found.pop("version") == _wire.VERSION
    assert found.keys() == MESSAGES.keys()
    assert f"version {_wire.VERSION}" in PAGE.read_text().splitlines()[0]


def received(payload, arrays=(), fds=()):
    """Returns the object of a message that is these bytes, arrays and fds."""
    here, there = Pipe.pair()
    here.send(payload, list(arrays), None, list(fds))
    return _message.unpack(*there.receive())


READ_AS = {
    "plain": PLAIN,
    "text": "text that is long enough " * 4,
    "text_of_bytes": b"bytes that are an object",
}


@pytest.mark.parametrize("name", READ_AS)
def test_a_golden_object_is_read_as_what_it_was(name):
    assert received(golden(name)) == READ_AS[name]


def test_golden_bytes_are_read_as_bytes():
    here, there = Pipe.pair()
    here.send(golden("bytes"), [])
    assert _message.unpack_bytes(*there.receive()) == b"bytes that are no object"


def test_golden_arrays_in_the_stream_are_read_as_what_they_were():
    alone = received(golden("array_in_band"))
    got = received(golden("small_array"))["frame"]
    (fixed,) = received(golden("small_readonly_array"))
    assert alone.tolist() == got.tolist() == fixed.tolist() == frame().tolist()
    assert alone.dtype == got.dtype == fixed.dtype == frame().dtype
    writeable = [array.flags.writeable for array in (alone, got, fixed)]
    assert writeable == [True, True, False]


SHAPES = [(), (1,), (1280,), (70_000,), (3, 5), (2, 1, 4), (2, 3, 1, 2, 2), (1,) * 32]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["?", "i1", "<u2", ">i4", "i8", "f2", "f8", ">f4", "g", "F", "D"])
def test_an_array_alone_arrives_as_the_standard_pickle(dtype, shape):
    array = np.random.default_rng(1).integers(0, 99, shape).astype(dtype)
    here, there = mp.Pipe()
    here.send(array)
    alone = there.recv()
    standard = pickle.loads(pickle.dumps(array, 5))  # 4 changes the byte order
    assert alone.tobytes() == standard.tobytes()
    for name in ("dtype", "shape", "strides", "flags.writeable", "flags.c_contiguous"):
        assert operator.attrgetter(name)(alone) == operator.attrgetter(name)(standard)
    alone[...] = 1  # its own


ALONE = b"cnumpy\nndarray\n"
"""In a message that no pickler wrote."""


def test_an_array_of_anything_else_is_left_to_the_pickler(monkeypatch):
    private, shared = frame(), shmarray.ones(6)
    others = [
        np.asfortranarray(private),
        private[:, 1],
        readonly(),
        private.astype("M8[s]"),
        private.astype("O"),
        np.zeros(0),
        np.zeros(3, "i4,f8"),
        np.ma.masked_equal(private, 2),
        shared,
        shared[:2],
    ]
    for other in others:
        assert ALONE not in payload(_message.pack(other))
    assert ALONE in payload(_message.pack(private))
    monkeypatch.setitem(ForkingPickler._extra_reducers, np.ndarray, lambda _array: (int, ("7",)))
    assert ALONE not in payload(_message.pack(private))
    assert received(payload(_message.pack(private))) == 7


def test_golden_parts_are_read_as_arrays_with_nothing_in_common():
    got = received(golden("parts"))
    assert [array.tolist() for array in got] == [array.tolist() for array in views()]
    got[0][...] = 70
    assert [array.tolist() for array in got[1:]] == [array.tolist() for array in views()[1:]]


@pytest.mark.parametrize(
    ("name", "is_shared", "is_writeable"),
    [
        ("array", True, True),
        ("array_readonly", True, False),
        ("array_private", False, True),
        ("array_private_several", False, True),
    ],
)
def test_a_golden_payload_of_an_array_alone_says_how_it_is_mapped(name, is_shared, is_writeable):
    sent = shmarray.ones(40_000)
    got = received(golden(name), [sent])
    assert (got == 1).all()
    assert got.flags.writeable == is_writeable
    (got if is_writeable else sent)[0] = 2
    assert (got[0] == sent[0]) == (name != "array_private_several")
    assert shmarray.is_shared(got) == is_shared


def test_golden_views_of_a_shared_array_are_read_as_views_of_it():
    sent = shmarray.array(np.arange(5.0))
    whole, part = received(golden("shared_views"), [sent])
    sent[4] = 9
    assert (whole.tolist(), part.tolist()) == ([0, 1, 2, 3, 9], [9, 2, 0])


def test_a_golden_connection_takes_its_fd_from_beside_the_message():
    here, there = mp.Pipe()
    with received(golden("connection"), fds=[here.fileno()]) as got:
        got.send("by the fd that came")
        assert there.recv() == "by the fd that came"


def test_golden_dumps_are_loaded_or_split_as_they_were_made():
    assert shmarray.loads(golden("dumps")) == {"number": 7}
    sent = {name: _dumps._split(golden(name))[:3] for name in MESSAGES if name.startswith("dumps_")}
    assert sent == {
        "dumps_arrays": (1, HANDLES[:2], []),
        "dumps_counted": (5, HANDLES[:2], HANDLES[2:]),
        "dumps_persistent": (_wire.FOREVER, HANDLES[:2], []),
    }


@pytest.mark.parametrize("name", [name for name in MESSAGES if name.startswith("dumps_")])
def test_golden_dumps_whose_arrays_are_gone_say_so(name):
    with pytest.raises(FileNotFoundError, match="2 of the 2 arrays of the message are gone"):
        shmarray.loads(golden(name))


@pytest.mark.parametrize("name", [name for name in MESSAGES if name.startswith("dumps")])
def test_golden_dumps_are_no_pickle_and_pickle_says_so(name):
    with pytest.raises(pickle.UnpicklingError, match=r"load them with shmarray\.loads"):
        pickle.loads(golden(name))


WORKERS_SAY = {
    "worker_task": (_tasks_wire.TASK, 7, (pow, (2, 10), {})),
    "worker_answer": (_tasks_wire.ANSWER, 7, (True, 1024)),
}


@pytest.mark.parametrize("name", WORKERS_SAY)
def test_golden_messages_of_workers_are_read_as_what_they_were(name):
    got = worker_message(name)
    assert (got.kind, got.number, got.unpack()) == WORKERS_SAY[name]


def test_golden_beginnings_of_workers_are_read_as_what_they_were():
    ready = worker_message("worker_ready")
    refused = worker_message("worker_refused")
    assert (ready.kind, ready.number) == (_tasks_wire.READY, 0)
    assert (refused.kind, refused.number) == (_tasks_wire.REFUSED, 0)
    assert refused.unpack().args == ("refused",)


def worker_message(name):
    here, there = Pipe.pair()
    here.send(golden(name), [])
    return _pipe.receive(there)


@pytest.mark.parametrize("size", [0, 4], ids=["", "slots"])
def test_golden_messages_of_queues_are_read_as_what_they_were(size):
    queue = mp.Queue(size)
    queue._writer.pipe.send(golden("queue_with_slots" if size else "queue"), [])
    assert queue.get(timeout=60) == PLAIN


def test_no_other_module_has_a_format_of_its_own():
    """`_locks` has the kernel's format."""
    for path in PACKAGE.rglob("*.py"):
        names = {
            node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)
        }
        assert "struct" not in names or path.stem in ("_wire", "_locks"), path
    for wire in (_wire, _tasks_wire):
        assert re.search(r"\bstruct\b", pathlib.Path(wire.__file__).read_text())


@pytest.mark.parametrize(
    "name",
    [name for name in {**vars(_wire), **vars(_tasks_wire)} if re.fullmatch("[A-Z][A-Z_]*", name)],
)
def test_the_page_names_every_constant(name):
    assert f"`{name}`" in PAGE.read_text()
