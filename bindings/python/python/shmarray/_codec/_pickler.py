"""Encodes objects: pickle protocol 5 with the memory of arrays out of band, in shared memory.

An encoded object has two halves. The *stream* is what the standard pickler writes; each array and
each large buffer in it refers to an out-of-band buffer. The *parts* are the memory of these
buffers.

* Memory that is shared already travels by the handle of its segment and is never copied. It is one
  part however many arrays are views of it. The stream rebuilds a plain array over the memory of the
  whole segment.
* A large private array is copied once, into a segment that only the message holds.
* A smaller one travels as bytes beside the stream, or in it, without an out-of-band buffer
  (`_core.Reducer`).

Two private arrays that are views of one memory arrive as two arrays, as with any pickle: a message
may have several tasks, which know nothing of one another. A long stream is written to shared memory
as well (`_core.Stream`). The limits are class attributes of `ArrayPickler`. They differ for bytes
that a program keeps and for a pipe, whose socket is faster than new shared memory for up to some
hundred KiB (`_thresholds`).

Private memory stays private at the receiver: it is a copy, or the receiver has it alone, or, if the
message can be loaded more than once, it is mapped so that a store copies the page. Arrays of Python
objects are pickled in the ordinary way; arrays inside their elements are encoded as above.

Protocol 5 is PEP 574, https://peps.python.org/pep-0574/. WIRE.md describes the bytes.
"""

import collections
import copyreg
import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np

from .. import _core, _shortage, _thresholds, _wire
from .._core import SegmentMemory
from . import _arrow
from ._collector import Collector, fixed
from ._moved import Moved
from ._offers import Offers
from ._parts import Array, Copies, PartsLayout, ReadOnly, View, compact_dtype

_Pickler = TypeVar("_Pickler", bound="type[ArrayPickler]")

Encoded: TypeAlias = tuple[tuple[bytes, ...], Sequence[SegmentMemory]]
"""An encoded object: the payload in pieces, and the memory of the shared parts and then of the
stream's segments. `_core.Pipe.send` takes both.

The payload's pieces are the rest of the stream, a table, and the length of that rest (WIRE.md).
"""


class ArrayPickler(pickle.Pickler):
    """Writes the stream of one object, and collects its out-of-band buffers.

    A subclass may add reducers by a ``dispatch_table``, as with any pickler.
    """

    REDUCERS: ClassVar[Sequence[dict[type, Callable[[Any], Any]]]] = (_arrow.reducers,)
    """Reducers by class, read at each pickling. The first table that has the class decides. A
    ``dispatch_table`` is slower.
    """
    STREAM_BYTES = _thresholds.KEPT_STREAM_BYTES
    SMALL_BYTES = _thresholds.KEPT_SMALL_BYTES
    LARGE_BYTES = _thresholds.KEPT_LARGE_BYTES
    READ_ONLY: ClassVar[ReadOnly] = ReadOnly.ALL
    """Which private arrays arrive read-only."""
    PRIVATE_MODE: ClassVar[str] = _wire.OWN
    """How a receiver maps private memory: it has it alone, or "c", if there are several."""
    COPIES: ClassVar[Copies | None] = None
    """The copies of private memory that messages may have in common."""

    def __init__(self, collector: Collector | None = None, takes_views: bool = True) -> None:
        self.stream = _core.Stream(self.STREAM_BYTES)
        self.collector = Collector() if collector is None else collector
        self.collector.read_only = self.READ_ONLY
        self.collector.private_mode = self.PRIVATE_MODE
        self.collector.dispatch_table = getattr(self, "dispatch_table", copyreg.dispatch_table)
        self.reducer = _core.Reducer(
            self.collector.reduce_array,
            (*self.REDUCERS, {Moved: self.collector.reduce_moved}),
            self.collector.take,
            fixed,
            self.SMALL_BYTES,
            takes_views,
            self.READ_ONLY,
        )
        super().__init__(self.stream, 5, buffer_callback=self.reducer.take)
        self.set_reducer()

    def set_reducer(self) -> None:
        """Sets ``reducer_override`` on the instance, which saves a call for each object. A subclass
        may define a method instead.
        """
        self.reducer_override = self.reducer.reduce  # type: ignore[method-assign]

    def write(self, obj: object) -> tuple[tuple[bytes, ...], bool] | None:
        """Writes an object. If the payload is only a stream, returns it and whether this pickler
        may be used again, and drops the object. Else returns None.
        """
        _arrow.add_imported_classes()
        self.dump(obj)
        written = _core.small_payload(self.stream, self.reducer, self.collector.buffers)
        if written is not None:
            self.clear_memo()
        return written

    def forget(self) -> None:
        """Drops the object at once. A subclass may be in a reference cycle, which would keep the
        object until a garbage collection, and Python 3.11 crashes when a collection frees views of
        buffers.
        """
        self.clear_memo()
        self.collector.clear()
        self.reducer.begin(self.SMALL_BYTES)
        self.stream.clear()


def encode_array(
    array: object, pickler: "type[ArrayPickler]", copies: Copies | None = None
) -> Encoded | None:
    """Encodes an array that its handle describes completely: a shared one, or a large private one.
    Returns None for anything else. ``copies`` are those of `ArrayPickler.COPIES` unless given.
    """
    if type(array) is not np.ndarray:
        return None
    memory = _core.memory_by_handle(array)
    if memory is not None:
        return (_wire.ARRAY_READONLY if memory.readonly else _wire.ARRAY,), [memory]
    flags = array.flags
    dtype = array.dtype
    if not (dtype.kind in _NUMBERS and dtype.isnative and flags.forc):
        return None
    if not isinstance(compact_dtype(array), str):
        return None
    if array.nbytes == 0 or (array.base is not None and _core.locate(array) is not None):
        return None
    if array.nbytes < pickler.LARGE_BYTES or pickler.READ_ONLY.keeps(array):
        return None
    if pickler.PRIVATE_MODE != _wire.OWN:
        return None
    copies = copies or pickler.COPIES
    try:
        shared, mode = (_core.share(array), _wire.OWN) if copies is None else copies.copy(array)
    except _shortage.FULL:
        return None  # the general way sends its bytes in the message, with a warning
    memory = _core.memory_by_handle(shared)
    mark = _wire.ARRAY_PRIVATE if mode == _wire.OWN else _wire.ARRAY_PRIVATE_SEVERAL
    return ((mark,), [memory]) if memory and shared.strides == array.strides else None


def encode_text(text: str) -> Encoded:
    """Encodes a long ASCII text. The pickler would copy it twice."""
    head = _wire.LONG_TEXT_HEAD
    stream = _core.Stream(head.size)  # so the text goes to shared memory in one write
    stream.write(head.pack(pickle.PROTO, _wire.PROTOCOL, pickle.BINUNICODE8, len(text)))
    stream.write(text)
    stream.write(pickle.STOP)
    if failure := stream.failure():
        _shortage.warn_of_shortage(failure)
    segments = stream.segments()
    table: Sequence[Any] = [], [], [used for _, used in segments]
    return stream.payload(pickle.dumps(table, 5) if segments else b""), [
        memory for memory, _ in segments
    ]


def is_array_alone(payload: bytes | memoryview) -> bool:
    """Returns whether a payload stands for one array and nothing else."""
    return len(payload) == len(_wire.ARRAY) and bytes(payload) in _wire.ARRAY_MODES


def reused(pickler: _Pickler) -> _Pickler:
    """Decorates a class of picklers of which `encode` keeps an idle one for the next object."""
    _reused.add(pickler)
    return pickler


def encode(
    obj: object,
    pickler: Callable[[], ArrayPickler] = ArrayPickler,
    copies: Copies | None = None,
) -> Encoded:
    """Encodes an object for a pipe that carries arrays. Raises what pickling raises. ``copies`` are
    those of `ArrayPickler.COPIES` unless given. If they are `Offers`, they are to be settled.
    """
    writer = _idle.pop(pickler, None) or pickler()
    writer.reducer.is_offered = isinstance(copies, Offers)
    written = None
    try:
        written = writer.write(obj)
        if written is None:
            encoded = _encoded(writer, copies or writer.COPIES)
            is_small = writer.stream.tell() <= _SMALL_BYTES
        else:
            encoded = (written[0], ())
            is_small = written[1]
    finally:
        if written is None:
            writer.forget()
    if is_small and pickler in _reused:
        _idle[pickler] = writer
    return encoded


def _encoded(writer: ArrayPickler, copies: Copies | None) -> Encoded:
    """Encodes an object that a pickler wrote, and that is more than a stream."""
    stream = writer.stream
    collector = writer.collector
    segments = stream.segments()
    if failure := stream.failure():
        _shortage.warn_of_shortage(failure)
    if not collector.buffers and not segments:
        return stream.payload(b""), ()
    views: Sequence[Any] = collector.buffers
    if not {*map(type, views)} <= {int}:  # else all are numbers of parts
        offers = copies if isinstance(copies, Offers) else None
        if offers is not None and writer.reducer.has_finalizers:
            offers.refuse()
            offers = None
        views = PartsLayout(
            views, collector.parts, writer.LARGE_BYTES, writer.PRIVATE_MODE, copies, offers
        ).views
    table = (
        [part.mode or part.inline for part in collector.parts],
        views,
        [used for _, used in segments],
    )
    memories = [part.memory for part in collector.parts if part.memory is not None] + [
        memory for memory, _ in segments
    ]
    return stream.payload(pickle.dumps(table, 5)), memories


class Arrays(Protocol):
    """The shared arrays that came with a message, with the methods of ``_core.Message``."""

    def array(self, index: int, mode: str) -> Any: ...
    def memory(self, index: int, mode: str) -> Any: ...


def decode(payload: bytes | memoryview, arrays: Arrays) -> Any:
    """Returns the object of a payload."""
    memory = memoryview(payload)
    table_end = len(memory) - _wire.STREAM_LENGTH.size
    (stream_bytes,) = _wire.STREAM_LENGTH.unpack_from(memory, table_end)
    if stream_bytes == table_end:
        return pickle.loads(memory)
    if table_end == 0:
        return arrays.array(0, _wire.ARRAY_MODES[bytes(memory)])
    parts, views, buffers = pickle.loads(memory[stream_bytes:table_end])
    shared = itertools.count()
    memories = [arrays.memory(next(shared), part) if type(part) is str else part for part in parts]
    filled = [_fill(memories, view) for view in views]
    if not buffers:
        return pickle.loads(memory, buffers=filled)
    # A mapping with this access stays cached for the next message. A read-only one does not.
    pieces = [memoryview(arrays.memory(next(shared), "r+"))[:used] for used in buffers]
    if stream_bytes == 0 and len(pieces) == 1:
        return pickle.loads(pieces[0], buffers=filled)
    return pickle.load(_Pieces([*pieces, memory[:stream_bytes]]), buffers=filled)


class _Pieces:
    """A stream in pieces, as a file to read."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces = collections.deque(pieces)
        self._at = 0

    def readinto(self, room: memoryview) -> int:
        """Fills the buffer. Fills less of it only at the end."""
        filled = 0
        while filled < len(room) and self._pieces:
            piece = self._pieces[0][self._at : self._at + len(room) - filled]
            room[filled : filled + len(piece)] = piece
            filled += len(piece)
            self._at += len(piece)
            if self._at == len(self._pieces[0]):
                self._pieces.popleft()
                self._at = 0
        return filled

    def read(self, size: int) -> bytes:
        """Returns this number of bytes. Returns fewer only at the end."""
        if self._pieces and self._at + size < len(self._pieces[0]):
            self._at += size
            return bytes(self._pieces[0][self._at - size : self._at])
        room = bytearray(size)
        return bytes(room[: self.readinto(memoryview(room))])

    def readline(self) -> bytes:
        """Raises UnpicklingError: no stream of this protocol has lines."""
        raise pickle.UnpicklingError("a line where there is none")


def share_all(obj: object) -> Any:
    """Returns the same object with the memory of every array in it shared."""
    writer = _OfAll()
    collector = writer.collector
    try:
        written = writer.write(obj)
        if written is not None:
            return pickle.loads(b"".join(written[0]))
        layout = PartsLayout(collector.buffers, collector.parts, large_bytes=1, private_mode="r+")
        memories = [part.memory or part.inline for part in layout.parts]
        stream = writer.stream.getvalue()
    finally:
        writer.forget()
    return pickle.loads(stream, buffers=[_fill(memories, view) for view in layout.views])


class _OfAll(ArrayPickler):
    STREAM_BYTES = 1 << 62
    SMALL_BYTES = 0


def _fill(memories: Sequence[Any], view: int | View) -> Any:
    """Returns the out-of-band buffer at a position."""
    if isinstance(view, int):
        return memories[view]
    part, offset, shape, strides, dtype, writeable = view
    array: Array = np.ndarray(shape, dtype or np.uint8, memories[part], offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array if dtype else array.data


_idle: dict[Callable[[], ArrayPickler], ArrayPickler] = {}
"""One idle pickler of each kind in `_reused`. Making one takes longer than writing a small message.
"""
_reused: set[Callable[[], ArrayPickler]] = {ArrayPickler}
_NUMBERS = "biufc"
"""The kinds of dtypes that a handle describes."""
_SMALL_BYTES = 8 << 10
"""The limit of a stream after which its pickler is not used again, as in `_core.small_payload`."""
