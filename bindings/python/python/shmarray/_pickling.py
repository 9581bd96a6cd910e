"""Objects as messages: pickle protocol 5 with the memory of arrays out of band, in shared memory.

What is pickled falls into two. A *stream* is what the standard pickler writes of the object,
where each array and each big buffer is a *place* to be filled. *Parts* are the memory that
fills them, each part once, however many arrays are views of it:

* memory that is shared already goes by the handle of its segment, never copied: the stream makes a
  plain array of it by itself, and its place is filled with the memory of the segment;
* private memory of some size is copied, once, into a segment that only the message holds;
* less than that is bytes beside the stream.

What was private is private again where it arrives: mapped so that a store copies its page. So it
needs no copy, nobody else sees a store, and one message can be loaded more than once. Arrays
of Python objects are pickled in the ordinary way; the arrays in them are not.

Protocol 5 is PEP 574, https://peps.python.org/pep-0574/.
"""

import copyreg
import functools
import io
import itertools
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple, Protocol

import numpy as np

from . import _arrow, _core, _shortage
from ._core import Hold
from ._parts import LARGE_BYTES, Array, Parts, Place, Plan, View, told


class Packed(NamedTuple):
    """An object on its way: the first arguments of ``_core.Pipe.send``."""

    payload: bytes
    """The stream; if it has places, a table of parts and of what fills the places; the length of the stream.

    Of an array alone whose handle tells all of it, only that there is no stream.
    """
    arrays: Sequence[Hold]
    """The parts in shared memory: all data of a segment each."""


class Pickler(pickle.Pickler):
    """Writes the stream of one object, and collects what fills its places.

    A child may have more reducers in its ``dispatch_table``, as any pickler.
    """

    def __init__(self) -> None:
        self.stream = io.BytesIO()
        self.places: list[Place] = []
        self.parts = Parts()
        self._marked: dict[int, tuple[pickle.PickleBuffer, Place]] = {}
        super().__init__(self.stream, 5, buffer_callback=functools.partial(_take, self._marked, self.places))

    def begin(self) -> None:
        """It will be used now."""

    def forget(self) -> None:
        """Lets go of the object now. In a cycle with this, which a child may be in, it would stay until
        somebody collects garbage, and Python 3.11 crashes when views of buffers are collected so.
        """
        self.clear_memo()
        if self._marked or self.places or self.parts:
            self._marked.clear()
            self.places.clear()
            self.parts.clear()
        self.stream.seek(0)
        self.stream.truncate()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, np.ndarray):
            return self.reduce_array(obj)
        return NotImplemented if type(obj) in _GLOBALS else _arrow.reduce(obj)

    def reduce_array(self, array: Array) -> Any:
        """How an array of any class is made again, with a place for its memory."""
        kind = type(array)
        if kind is np.ndarray:
            return NotImplemented if array.dtype.hasobject else self._reduce_plain(array)
        if kind in getattr(self, "dispatch_table", copyreg.dispatch_table):
            return NotImplemented
        plain = np.ndarray.view(array, np.ndarray)
        if _pickles_as(kind, np.ndarray) and not plain.dtype.hasobject:
            return _in_class, (self._mark(plain), kind)
        masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked is not None and issubclass(kind, masked) and _pickles_as(kind, masked):
            return _masked, _parts_of_masked(array)
        return NotImplemented  # it has reasons of its own

    def _reduce_plain(self, array: Array) -> Any:
        """What is in shared memory is made of the memory of its segment there; else it is still to be seen of what."""
        place = None if array.base is None else _core.place(array)  # without a base it owns its memory
        if place is None:
            return _same, (self._mark(array),)
        part, is_writeable, offset = self.parts.of_segment(place)
        arguments = array.shape, told(array), self._mark(part), offset, array.strides
        return _fixed if is_writeable and not array.flags.writeable else np.ndarray, arguments

    def _mark(self, place: Place) -> pickle.PickleBuffer:
        """What stands for what fills a place until it is pickled, and is nothing but itself."""
        mark = pickle.PickleBuffer(_EMPTY)
        self._marked[id(mark)] = mark, place
        return mark


def payload_of(obj: object) -> bytes:
    """That of what is plain, as ``_core.is_plain`` says: a message without places."""
    stream = pickle.dumps(obj, 5)
    return stream + _LENGTH.pack(len(stream))


def pack_array(array: object) -> Packed | None:
    """As ``pack``, of an array alone that a handle tells all of, or that is small. None of all else."""
    if type(array) is not np.ndarray:
        return None
    hold = _core.hold_of(array)
    if hold is not None:
        return Packed(_ITSELF_READONLY if hold.readonly else _ITSELF, [hold])
    flags, dtype = array.flags, told(array)
    if array.dtype.hasobject or not (flags.forc and flags.writeable and isinstance(dtype, str)):
        return None
    if array.nbytes == 0 or (array.base is not None and _core.place(array) is not None):
        return None
    if array.nbytes < LARGE_BYTES:
        return Packed(payload_of(_Small(array, dtype)), [])
    try:
        shared = _core.share(array, "C" if flags.c_contiguous else "F", None, False, 0o600)
    except _shortage.FULL:
        return None  # and is told of where its memory is put in the message
    hold = _core.hold_of(shared)
    return Packed(_ITSELF_PRIVATE, [hold]) if hold and shared.strides == array.strides else None


class _Small:
    """Stands for an array that is sent in the stream."""

    def __init__(self, array: Array, dtype: str) -> None:
        self._array, self._dtype = array, dtype

    def __reduce__(self) -> Any:
        array = self._array
        return np.ndarray, (array.shape, self._dtype, bytearray(array.tobytes("A")), 0, array.strides)


def is_itself(payload: bytes | memoryview) -> bool:
    """Whether a message is nothing but the array of a handle."""
    return len(payload) == len(_ITSELF) and bytes(payload) in _MODES


def pack(obj: object, pickler: Callable[[], Pickler] = Pickler) -> Packed:
    """An object as a message for a pipe that carries arrays.

    Raises what pickling raises.
    """
    writer = _idle.pop(pickler, None) or pickler()
    writer.begin()
    try:
        packed = _pack(obj, writer)
        is_small = writer.stream.tell() <= _SMALL_BYTES
    finally:
        writer.forget()
    if is_small and pickler in REUSED:
        _idle[pickler] = writer
    return packed


def _pack(obj: object, writer: Pickler) -> Packed:
    writer.dump(obj)
    length = _LENGTH.pack(writer.stream.tell())
    if not writer.places:
        writer.stream.write(length)
        return Packed(writer.stream.getvalue(), [])
    parts: Parts = writer.parts
    views: Sequence[Any] = writer.places
    if not {*map(type, views)} <= {int}:  # else all are parts by now
        views = Plan(views, parts, LARGE_BYTES, private_mode="c").views
    table = pickle.dumps(([part.mode or part.inline for part in parts], views), 5)
    writer.stream.write(table + length)
    return Packed(writer.stream.getvalue(), [part.hold for part in parts if part.hold is not None])


class Arrays(Protocol):
    """Those that came with a message, as ``_core.Message`` has them."""

    def array(self, index: int, mode: str) -> Any: ...
    def memory(self, index: int, mode: str) -> Any: ...


def unpack(payload: bytes | memoryview, arrays: Arrays) -> Any:
    """The object of a message."""
    memory = memoryview(payload)
    table_end = len(memory) - _LENGTH.size
    (stream_bytes,) = _LENGTH.unpack_from(memory, table_end)
    if stream_bytes == table_end:
        return pickle.loads(memory)
    if table_end == 0:
        return arrays.array(0, _MODES[bytes(memory)])
    parts, views = pickle.loads(memory[stream_bytes:])
    shared = itertools.count()
    memories = [arrays.memory(next(shared), part) if type(part) is str else part for part in parts]
    return pickle.loads(memory, buffers=[_fill(memories, view) for view in views])


def share_all(obj: object) -> Any:
    """The same object with the memory of every array in it shared."""
    writer = Pickler()
    try:
        writer.dump(obj)
        plan = Plan(writer.places, writer.parts, large_bytes=1, private_mode="r+")
        memories, stream = [part.hold or part.inline for part in plan.parts], writer.stream.getvalue()
    finally:
        writer.forget()
    return pickle.loads(stream, buffers=[_fill(memories, view) for view in plan.views])


def _take(
    marked: dict[int, tuple[pickle.PickleBuffer, Place]], places: list[Place], buffer: pickle.PickleBuffer
) -> bool:
    """Takes a buffer as it is pickled; says whether the stream is to have it after all."""
    if id(buffer) in marked:
        places.append(marked[id(buffer)][1])
        return False
    memory = buffer.raw()
    if memory.nbytes:
        places.append(memory)
    return not memory.nbytes


def _fill(memories: Sequence[Any], view: int | View) -> Any:
    """What stands in a place of a stream."""
    if isinstance(view, int):
        return memories[view]
    part, offset, shape, strides, dtype, writeable = view
    array: Array = np.ndarray(shape, dtype or np.uint8, memories[part], offset, strides)
    if not writeable:
        array.flags.writeable = False
    return array if dtype else array.data


def _same(array: Array) -> Array:
    return array


def _fixed(*arguments: Any) -> Array:
    array: Array = np.ndarray(*arguments)
    array.flags.writeable = False
    return array


def _in_class(array: Array, kind: type[Array]) -> Array:
    return array.view(kind)


def _masked(kind: Any, data: Array, mask: Any, fill_value: Any, is_hard: bool, is_shared: bool) -> Any:
    """Made by the class that all have in common: a child's constructor may take anything."""
    masked: Any = np.ma.MaskedArray
    array = masked.__new__(kind, data, hard_mask=is_hard)
    array._mask = np.ma.nomask if mask is None else mask
    array._fill_value, array._sharedmask = fill_value, is_shared
    return array


def _parts_of_masked(array: Any) -> tuple[Any, ...]:
    """Its data in the class that they have, the mask if there is one, and how it behaves."""
    data = np.ndarray.view(array, array._baseclass)
    mask = None if array._mask is np.ma.nomask else array._mask
    return type(array), data, mask, array._fill_value, array._hardmask, array._sharedmask


def _pickles_as(kind: type, parent: type) -> bool:
    """Whether the one is pickled by the other's methods."""
    return all(getattr(kind, name) is getattr(parent, name) for name in _PICKLING)


_idle: dict[Callable[[], Pickler], Pickler] = {}
"""One pickler of each kind in `REUSED`, if nobody has it: to make one takes longer than to write a small message."""
REUSED: set[Callable[[], Pickler]] = {Pickler}
_SMALL_BYTES = 1 << 10
"""What a pickler had for a longer message takes time to clear, each time from then on."""
_GLOBALS = frozenset({type, FunctionType, BuiltinFunctionType})
"""Of these there are some in each stream."""
_EMPTY = bytearray()
_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__")
_LENGTH = struct.Struct("<Q")
_ITSELF, _ITSELF_READONLY, _ITSELF_PRIVATE = (b"\xff" * 7 + last for last in (b"\xfe", b"\xfd", b"\xfc"))
"""Whole messages of an array that is all that its handle says. No stream is so long."""
_MODES = {_ITSELF: "r+", _ITSELF_READONLY: "r", _ITSELF_PRIVATE: "c"}
