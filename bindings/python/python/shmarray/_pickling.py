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

import collections
import io
import itertools
import pickle
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._parts import LARGE_BYTES, Array, Bytes, Plan, View


class Packed(NamedTuple):
    """An object on its way: the first arguments of ``_core.Pipe.send``."""

    payload: bytes
    arrays: list[Bytes]
    """The parts in shared memory: all data of a segment each."""


class Pickler(pickle.Pickler):
    """Writes the stream of one object, and collects what fills its places.

    A child may have more reducers in its ``dispatch_table``, as any pickler.
    """

    def __init__(self) -> None:
        self.stream = io.BytesIO()
        self.places: list[Array] = []
        self._marks: list[pickle.PickleBuffer] = []
        super().__init__(self.stream, 5, buffer_callback=self._is_in_band)

    def reducer_override(self, obj: Any) -> Any:
        return self.reduce_array(obj) if isinstance(obj, np.ndarray) else NotImplemented

    def reduce_array(self, array: Array) -> Any:
        """How an array of any class is made again, with a place for its memory."""
        kind = type(array)
        if array.dtype.hasobject:
            return NotImplemented
        if kind is np.ndarray:
            return _same, (self._place(array),)
        if _pickles_as(kind, np.ndarray):
            return _in_class, (kind, self._place(array.view(np.ndarray)))
        masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked is not None and issubclass(kind, masked) and _pickles_as(kind, masked):
            return _masked, _parts_of_masked(array)
        return NotImplemented  # it has reasons of its own

    def _place(self, array: Array) -> pickle.PickleBuffer:
        mark = pickle.PickleBuffer(bytearray())
        self._marks.append(mark)
        self.places.append(array)
        return mark

    def _is_in_band(self, buffer: pickle.PickleBuffer) -> bool:
        if self._marks and buffer is self._marks[-1]:
            return False
        try:
            memory = buffer.raw()
        except BufferError:
            return True  # it has gaps: the standard pickler says so
        if memory.nbytes == 0:
            return True
        array: Bytes = np.frombuffer(memory, np.uint8)
        if memory.nbytes < LARGE_BYTES and _core.whole(array) is None:
            return True
        self.places.append(array)
        return False


def pack(obj: object, pickler: Callable[[], Pickler] = Pickler) -> Packed:
    """An object as a message for a pipe that carries arrays.

    Raises what pickling raises, and MemoryError when shared memory is full.
    """
    writer = pickler()
    writer.dump(obj)
    stream = writer.stream.getbuffer()
    if not writer.places:
        return Packed(_LENGTH.pack(0) + stream, [])
    plan = Plan(writer.places, LARGE_BYTES, private_mode="c")
    table = pickle.dumps(([(part.mode, part.inline) for part in plan.parts], plan.views), 5)
    shared = [part.array for part in plan.parts if part.array is not None]
    return Packed(b"".join((_LENGTH.pack(len(table)), table, stream)), shared)


def unpack(payload: bytes | memoryview, attach: Callable[[int, str], Array]) -> Any:
    """The object of a message. ``attach(index, mode)`` gives one of its arrays, as ``_core.Message.array`` does."""
    memory = memoryview(payload)
    (table_bytes,) = _LENGTH.unpack_from(memory)
    start = _LENGTH.size + table_bytes
    if table_bytes == 0:
        return pickle.loads(memory[start:])
    parts, views = pickle.loads(memory[_LENGTH.size : start])
    shared = itertools.count()
    memories = [bytearray(inline) if mode is None else attach(next(shared), mode).base for mode, inline in parts]
    return pickle.loads(memory[start:], buffers=_fill(memories, views))


def share_all(obj: object) -> Any:
    """The same object with the memory of every array in it shared."""
    writer = Pickler()
    writer.dump(obj)
    plan = Plan(writer.places, large_bytes=1, private_mode="r+")
    memories = [bytearray(part.inline) if part.array is None else part.array.base for part in plan.parts]
    return pickle.loads(writer.stream.getbuffer(), buffers=_fill(memories, plan.views))


def _fill(memories: Sequence[Any], views: Sequence[View]) -> Iterator[Array]:
    """What stands in the places of a stream, in their order."""
    users = collections.Counter(view[0] for view in views)
    for part, offset, shape, strides, dtype, writeable in views:
        array: Array = np.ndarray(shape, dtype, memories[part], offset, strides)
        if users[part] == 1 and isinstance(memories[part], bytearray):
            array = array.copy("K")  # it may as well own its memory
        if not writeable:
            array.flags.writeable = False
        yield array


def _same(array: Array) -> Array:
    return array


def _in_class(kind: type[Array], array: Array) -> Array:
    return array.view(kind)


def _masked(kind: Any, data: Array, mask: Array | None, fill_value: Any, is_hard: bool, is_shared: bool) -> Any:
    mask = np.ma.nomask if mask is None else mask
    array = kind.__new__(kind, data, mask=mask, keep_mask=False, fill_value=fill_value, hard_mask=is_hard)
    array._sharedmask = is_shared
    return array


def _parts_of_masked(array: Any) -> tuple[Any, ...]:
    """Its data in the class that they have, the mask if there is one, and how it behaves."""
    mask = None if array._mask is np.ma.nomask else array._mask
    return type(array), array._data, mask, array._fill_value, array._hardmask, array._sharedmask


def _pickles_as(kind: type, parent: type) -> bool:
    """Whether the one is pickled by the other's methods."""
    return all(getattr(kind, name) is getattr(parent, name) for name in _PICKLING)


_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__")
_LENGTH = struct.Struct("<Q")
