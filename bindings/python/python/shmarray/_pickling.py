"""Objects as messages: pickle protocol 5 with the memory of arrays out of band, in shared memory.

What is pickled falls into two. A *stream* is what the standard pickler writes of the object,
where each array and each big buffer is a *place* to be filled. *Parts* are the memory that
fills them, each part once, however many arrays are views of it:

* memory that is shared already goes by the handle of its segment, never copied;
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
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _arrow
from ._parts import LARGE_BYTES, Array, Bytes, Place, Plan, View


class Packed(NamedTuple):
    """An object on its way: the first arguments of ``_core.Pipe.send``."""

    payload: bytes
    """The stream; if it has places, a table of parts and of what fills the places; the length of the stream."""
    arrays: list[Bytes]
    """The parts in shared memory: all data of a segment each."""


class Pickler(pickle.Pickler):
    """Writes the stream of one object, and collects what fills its places.

    A child may have more reducers in its ``dispatch_table``, as any pickler.
    """

    def __init__(self) -> None:
        self.stream = io.BytesIO()
        self.places: list[Place] = []
        self._marked: dict[int, tuple[pickle.PickleBuffer, Array]] = {}
        super().__init__(self.stream, 5, buffer_callback=functools.partial(_take, self._marked, self.places))

    def forget(self) -> None:
        """Lets go of the object now. In a cycle with this, which a child may be in, it would stay until
        somebody collects garbage, and Python 3.11 crashes when views of buffers are collected so.
        """
        self.clear_memo()
        self._marked.clear()
        self.places.clear()

    def reducer_override(self, obj: Any) -> Any:
        return self.reduce_array(obj) if isinstance(obj, np.ndarray) else _arrow.reduce(obj)

    def reduce_array(self, array: Array) -> Any:
        """How an array of any class is made again, with a place for its memory."""
        kind = type(array)
        if kind is np.ndarray:
            return NotImplemented if array.dtype.hasobject else (_same, (self._mark(array),))
        if kind in getattr(self, "dispatch_table", copyreg.dispatch_table):
            return NotImplemented
        plain = np.ndarray.view(array, np.ndarray)
        if _pickles_as(kind, np.ndarray) and not plain.dtype.hasobject:
            return _in_class, (self._mark(plain), kind)
        masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked is not None and issubclass(kind, masked) and _pickles_as(kind, masked):
            return _masked, _parts_of_masked(array)
        return NotImplemented  # it has reasons of its own

    def _mark(self, array: Array) -> pickle.PickleBuffer:
        """What stands for the array until it is pickled, and is nothing but itself."""
        mark = pickle.PickleBuffer(_EMPTY)
        self._marked[id(mark)] = mark, array
        return mark


def pack(obj: object, pickler: Callable[[], Pickler] = Pickler) -> Packed:
    """An object as a message for a pipe that carries arrays.

    Raises what pickling raises, and MemoryError when shared memory is full.
    """
    writer = pickler()
    try:
        return _pack(obj, writer)
    finally:
        writer.forget()


def _pack(obj: object, writer: Pickler) -> Packed:
    writer.dump(obj)
    length = _LENGTH.pack(writer.stream.tell())
    if not writer.places:
        writer.stream.write(length)
        return Packed(writer.stream.getvalue(), [])
    plan = Plan(writer.places, LARGE_BYTES, private_mode="c")
    table = pickle.dumps(([(part.mode, part.inline) for part in plan.parts], plan.views), 5)
    writer.stream.write(table + length)
    return Packed(writer.stream.getvalue(), [part.array for part in plan.parts if part.array is not None])


def unpack(payload: bytes | memoryview, attach: Callable[[int, str], Array]) -> Any:
    """The object of a message. ``attach(index, mode)`` gives one of its arrays, as ``_core.Message.array`` does."""
    memory = memoryview(payload)
    table_end = len(memory) - _LENGTH.size
    (stream_bytes,) = _LENGTH.unpack_from(memory, table_end)
    if stream_bytes == table_end:
        return pickle.loads(memory)
    parts, views = pickle.loads(memory[stream_bytes:])
    shared = itertools.count()
    memories = [inline if mode is None else attach(next(shared), mode).base for mode, inline in parts]
    return pickle.loads(memory, buffers=_fill(memories, views))


def share_all(obj: object) -> Any:
    """The same object with the memory of every array in it shared."""
    writer = Pickler()
    try:
        writer.dump(obj)
        plan = Plan(writer.places, large_bytes=1, private_mode="r+")
    finally:
        writer.forget()
    memories = [part.inline if part.array is None else part.array.base for part in plan.parts]
    return pickle.loads(writer.stream.getbuffer(), buffers=_fill(memories, plan.views))


def _take(
    marked: dict[int, tuple[pickle.PickleBuffer, Array]], places: list[Place], buffer: pickle.PickleBuffer
) -> bool:
    """Takes a buffer as it is pickled; says whether the stream is to have it after all."""
    if id(buffer) in marked:
        places.append(marked[id(buffer)][1])
        return False
    memory = buffer.raw()
    if memory.nbytes:
        places.append(memory)
    return not memory.nbytes


def _fill(memories: Sequence[Any], views: Sequence[View]) -> Iterator[Array | memoryview]:
    """What stands in the places of a stream, in their order."""
    for part, offset, shape, strides, dtype, writeable in views:
        array: Array = np.ndarray(shape, dtype or np.uint8, memories[part], offset, strides)
        if not writeable:
            array.flags.writeable = False
        yield array if dtype else array.data


def _same(array: Array) -> Array:
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


_EMPTY = bytearray()
_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__")
_LENGTH = struct.Struct("<Q")
