"""Objects as messages: pickle protocol 5 with the memory of arrays out of band, in shared memory.

What is pickled falls into two. A *stream* is what the standard pickler writes of the object,
where each array and each big buffer is a *place* to be filled. *Parts* are the memory that
fills them, each part once, however many arrays are views of it:

* memory that is shared already goes by the handle of its segment, never copied: the stream makes a
  plain array of it by itself, and its place is filled with the memory of the segment;
* private memory of some size is copied, once, into a segment that only the message holds;
* less than that is bytes beside the stream.

A private array that is small is no place: the stream has its bytes (`_core.Reducer`), and those
that lie within it are made of the same bytes. Where small arrays have memory in common in other
ways, all is pickled once more, with places. What of the stream is long is in shared memory as well
(`_core.Stream`). How much is small and long, an `ArrayPickler` says: for bytes that somebody keeps, or
for a pipe, whose socket carries a little faster than shared memory is had.

What was private is private again where it arrives: a copy, or mapped so that a store copies its
page, and nobody else sees a store. So one message can be loaded more than once. Arrays of Python
objects are pickled in the ordinary way; the arrays in them are not.

Protocol 5 is PEP 574, https://peps.python.org/pep-0574/.
"""

import collections
import copyreg
import itertools
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from .. import _core, _shortage, _wire
from .._core import Lease
from . import _arrow
from ._collector import Collector, fixed
from ._parts import Array, PartsLayout, View, compact_dtype

Encoded: TypeAlias = tuple[tuple[bytes, ...], Sequence[Lease]]
"""An object on its way: a payload, and what of it is in shared memory, the parts and then the buffers that the stream
begins with. They are the first arguments of ``_core.Pipe.send``.

The payload is in pieces: the rest of the stream; a table of the parts, of what fills the places and of how much of
each buffer is used, unless there are neither places nor buffers; the length of the rest of the stream. An array alone
that its handle describes has only a mark instead.
"""


class ArrayPickler(pickle.Pickler):
    """Writes the stream of one object, and collects what fills its places.

    A child may have more reducers in its ``dispatch_table``, as any pickler.
    """

    REDUCERS: ClassVar[Sequence[dict[type, Callable[[Any], Any]]]] = (_arrow.reducers,)
    """Tables by class, read at each pickling; the first that has the class decides. A ``dispatch_table`` is slower."""
    STREAM_BYTES = 24 << 10
    """A stream of up to this size stays in this process's memory; a longer one is written to shared memory."""
    SMALL_BYTES = 16 << 10
    """Private arrays of so many bytes altogether are in the stream, and small ones in any case."""
    LARGE_BYTES = 32 << 10
    """Other private memory that is less altogether travels in the message, not in shared memory."""

    def __init__(self, collector: Collector | None = None, takes_views: bool = True) -> None:
        self.stream = _core.Stream(self.STREAM_BYTES)
        self.collector = Collector() if collector is None else collector
        self.collector.dispatch_table = getattr(self, "dispatch_table", copyreg.dispatch_table)
        self.reducer = _core.Reducer(
            self.collector.reduce_array,
            self.REDUCERS,
            self.collector.take,
            fixed,
            self.SMALL_BYTES,
            takes_views,
        )
        super().__init__(self.stream, 5, buffer_callback=self.reducer.take)
        self.set_reducer()

    def set_reducer(self) -> None:
        """Sets ``reducer_override`` on the instance, which saves a call for each object.

        A child may have a method.
        """
        self.reducer_override = self.reducer.reduce  # type: ignore[method-assign] # one call less for each object

    def write(self, obj: object) -> tuple[tuple[bytes, ...], bool] | None:
        """Writes an object. Of one that is no more than a stream: its payload, and whether this may
        write another; then it has let go of the object.
        """
        _arrow.look()
        self.dump(obj)
        written = _core.small_payload(self.stream, self.reducer, self.collector.buffers)
        if written is not None:
            self.clear_memo()
        return written

    def write_again(self, obj: object) -> None:
        """Writes an object whose small arrays have memory in common: with none in the stream."""
        self.forget()
        self.reducer.begin(0)
        self.dump(obj)

    def forget(self) -> None:
        """Drops the object at once. A child may be in a reference cycle, which would keep it until
        a garbage collection; and Python 3.11 crashes when a collection frees views of buffers.
        """
        self.clear_memo()
        self.collector.clear()
        self.reducer.begin(self.SMALL_BYTES)
        self.stream.clear()


def encode_plain(obj: object, text_bytes: int) -> tuple[bytes | str, ...] | None:
    """The payload of a plain object (`_core.is_plain`), or of a text or bytes of up to
    ``text_bytes``; None for anything else.
    """
    text: bytes | str
    if _core.is_plain(obj):
        stream = pickle.dumps(obj, 5)
        return stream, _wire.STREAM_LENGTH.pack(len(stream))
    if type(obj) is bytes:  # longer ones are written to shared memory
        opcode, text = b"B", obj
    elif type(obj) is str and len(obj) <= text_bytes:
        opcode, text = b"X", obj if obj.isascii() else obj.encode("utf-8", "surrogatepass")
    else:
        return None
    if len(text) > text_bytes:
        return None
    # A pickle of it without frame and memo; bytes and ASCII text are not copied.
    return (
        _wire.TEXT_HEAD.pack(pickle.PROTO, _wire.PROTOCOL, opcode, len(text)),
        text,
        _wire.TEXT_TAIL.pack(pickle.STOP, len(text) + _wire.TEXT_HEAD.size + 1),
    )


def encode_array(array: object, large_bytes: int) -> Encoded | None:
    """As ``encode``, of an array alone that its handle describes completely: a shared one, or a
    private one of at least ``large_bytes``. None for anything else.
    """
    if type(array) is not np.ndarray:
        return None
    lease = _core.lease_of(array)
    if lease is not None:
        return (_wire.ARRAY_READONLY if lease.readonly else _wire.ARRAY,), [lease]
    flags, dtype = array.flags, compact_dtype(array)
    if array.dtype.hasobject or not (flags.forc and flags.writeable and isinstance(dtype, str)):
        return None
    if array.nbytes == 0 or (array.base is not None and _core.locate(array) is not None):
        return None
    if array.nbytes < large_bytes:
        return None
    try:
        shared = _core.share(array, "C" if flags.c_contiguous else "F", None, False, 0o600)
    except _shortage.FULL:
        return None  # its bytes go into the message then, with a warning
    lease = _core.lease_of(shared)
    return ((_wire.ARRAY_PRIVATE,), [lease]) if lease and shared.strides == array.strides else None


def encode_text(text: str) -> Encoded:
    """As ``encode``, of a long text of ASCII's characters alone: the pickler would copy it twice."""
    stream = _core.Stream(
        _wire.LONG_TEXT_HEAD.size
    )  # so the text goes to shared memory in one write
    stream.write(
        _wire.LONG_TEXT_HEAD.pack(pickle.PROTO, _wire.PROTOCOL, pickle.BINUNICODE8, len(text))
    )
    stream.write(text)
    stream.write(pickle.STOP)
    if failure := stream.failure():
        _shortage.tell(failure)
    segments = stream.segments()
    table: Sequence[Any] = [], [], [used for _, used in segments]
    return stream.payload(pickle.dumps(table, 5) if segments else b""), [
        lease for lease, _ in segments
    ]


def is_itself(payload: bytes | memoryview) -> bool:
    """Whether a message is nothing but the array of a handle."""
    return len(payload) == len(_wire.ARRAY) and bytes(payload) in _wire.ARRAY_MODES


def encode(obj: object, pickler: Callable[[], ArrayPickler] = ArrayPickler) -> Encoded:
    """An object as a message for a pipe that carries arrays.

    Raises what pickling raises.
    """
    writer = _idle.pop(pickler, None) or pickler()
    written = None
    try:
        written = writer.write(obj)
        if written is None:
            encoded, is_small = _encoded(writer, obj), writer.stream.tell() <= _SMALL_BYTES
        else:
            encoded, is_small = (written[0], ()), written[1]
    finally:
        if written is None:
            writer.forget()
    if is_small and pickler in REUSED:
        _idle[pickler] = writer
    return encoded


def _encoded(writer: ArrayPickler, obj: object) -> Encoded:
    """An object that a pickler wrote, and that is more than a stream."""
    stream, collector = writer.stream, writer.collector
    if writer.reducer.have_common(collector.buffers):
        writer.write_again(obj)
    segments = stream.segments()
    if failure := stream.failure():
        _shortage.tell(failure)
    if not collector.buffers and not segments:
        return stream.payload(b""), ()
    views: Sequence[Any] = collector.buffers
    if not {*map(type, views)} <= {int}:  # else all are parts by now
        views = PartsLayout(views, collector.parts, writer.LARGE_BYTES, private_mode="c").views
    table = (
        [part.mode or part.inline for part in collector.parts],
        views,
        [used for _, used in segments],
    )
    leases = [part.lease for part in collector.parts if part.lease is not None] + [
        lease for lease, _ in segments
    ]
    return stream.payload(pickle.dumps(table, 5)), leases


class Arrays(Protocol):
    """Those that came with a message, as ``_core.Message`` has them."""

    def array(self, index: int, mode: str) -> Any: ...
    def memory(self, index: int, mode: str) -> Any: ...


def decode(payload: bytes | memoryview, arrays: Arrays) -> Any:
    """The object of a message."""
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
    # A mapping of that mode is kept for the next message, and one to read only is not.
    pieces = [memoryview(arrays.memory(next(shared), "r+"))[:used] for used in buffers]
    if stream_bytes == 0 and len(pieces) == 1:
        return pickle.loads(pieces[0], buffers=filled)
    return pickle.load(_Pieces([*pieces, memory[:stream_bytes]]), buffers=filled)


class _Pieces:
    """A stream in pieces, as a file that is read."""

    def __init__(self, pieces: Sequence[memoryview]) -> None:
        self._pieces, self._at = collections.deque(pieces), 0

    def readinto(self, room: memoryview) -> int:
        """Fills what there is room for; less only at the end."""
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
        """So many bytes; less only at the end."""
        if self._pieces and self._at + size < len(self._pieces[0]):
            self._at += size
            return bytes(self._pieces[0][self._at - size : self._at])
        room = bytearray(size)
        return bytes(room[: self.readinto(memoryview(room))])

    def readline(self) -> bytes:
        """No stream of this protocol has lines."""
        raise pickle.UnpicklingError("a line where there is none")


def share_all(obj: object) -> Any:
    """The same object with the memory of every array in it shared."""
    writer = _OfAll()
    collector = writer.collector
    try:
        written = writer.write(obj)
        if written is not None:
            return pickle.loads(b"".join(written[0]))
        layout = PartsLayout(collector.buffers, collector.parts, large_bytes=1, private_mode="r+")
        memories, stream = (
            [part.lease or part.inline for part in layout.parts],
            writer.stream.getvalue(),
        )
    finally:
        writer.forget()
    return pickle.loads(stream, buffers=[_fill(memories, view) for view in layout.views])


class _OfAll(ArrayPickler):
    STREAM_BYTES = 1 << 62
    SMALL_BYTES = 0


def _fill(memories: Sequence[Any], view: int | View) -> Any:
    """What stands in a place of a stream."""
    if isinstance(view, int):
        return memories[view]
    part, offset, shape, strides, dtype, writeable = view
    array: Array = np.ndarray(shape, dtype or np.uint8, memories[part], offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array if dtype else array.data


_idle: dict[Callable[[], ArrayPickler], ArrayPickler] = {}
"""One pickler of each kind in `REUSED`, if nobody has it: to make one takes longer than to write a small message."""
REUSED: set[Callable[[], ArrayPickler]] = {ArrayPickler}
_SMALL_BYTES = 8 << 10
"""A pickler that has written a longer stream is not used again, as in `_core.small_payload`."""
