"""What a pickler meets that has memory:

how that is made again, and what is to fill its place in the stream.
"""

import pickle
import sys
from typing import Any

import numpy as np

from .. import _core
from ._parts import Array, OutOfBandBuffer, Parts, compact_dtype


class Collector:
    """What fills the buffers of one stream. A child may say otherwise how arrays are made again."""

    def __init__(self) -> None:
        self.buffers: list[OutOfBandBuffer] = []
        self.parts = Parts()
        self.dispatch_table: Any = {}
        """The pickler's."""
        self._marked: dict[int, tuple[pickle.PickleBuffer, OutOfBandBuffer]] = {}

    def clear(self) -> None:
        """Lets go of all memory."""
        if self._marked or self.buffers or self.parts:
            self._marked.clear()
            self.buffers.clear()
            self.parts.clear()

    def reduce_array(self, array: Array) -> Any:
        """How an array of any class is made again, with a place for its memory."""
        kind = type(array)
        if kind is np.ndarray:
            return NotImplemented if array.dtype.hasobject else self._reduce_plain(array)
        if kind in self.dispatch_table:
            return NotImplemented
        plain = np.ndarray.view(array, np.ndarray)
        if _pickles_as(kind, np.ndarray) and not plain.dtype.hasobject:
            return _in_class, (self._mark(plain), kind)
        masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked is not None and issubclass(kind, masked) and _pickles_as(kind, masked):
            return _masked, _parts_of_masked(array)
        return NotImplemented  # a subclass with its own pickling

    def _reduce_plain(self, array: Array) -> Any:
        """A shared array is made from its segment's memory at the receiver; `PartsLayout` says where a
        private one goes.
        """
        location = (
            None if array.base is None else _core.locate(array)
        )  # without a base it owns its memory
        if location is None:
            return _same, (self._mark(array),)
        part, is_writeable, offset = self.parts.of_segment(location)
        arguments = array.shape, compact_dtype(array), self._mark(part), offset, array.strides
        return fixed if is_writeable and not array.flags.writeable else np.ndarray, arguments

    def _mark(self, memory: OutOfBandBuffer) -> pickle.PickleBuffer:
        """An empty buffer that is pickled in place of this memory; `take` knows it by its identity."""
        mark = pickle.PickleBuffer(_EMPTY)
        self._marked[id(mark)] = mark, memory
        return mark

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Puts a buffer's memory into the buffers.

        True if the pickler is to write the buffer into the stream.
        """
        if id(buffer) in self._marked:
            self.buffers.append(self._marked[id(buffer)][1])
            return False
        memory = buffer.raw()
        if memory.nbytes:
            self.buffers.append(memory)
        return not memory.nbytes


def fixed(*arguments: Any) -> Array:
    """A read-only array."""
    array: Array = np.ndarray(*arguments)
    array.flags.writeable = False
    return array


def _same(array: Array) -> Array:
    return array


def _in_class(array: Array, kind: type[Array]) -> Array:
    return array.view(kind)


def _masked(
    kind: Any, data: Array, mask: Any, fill_value: Any, is_hard: bool, is_shared: bool
) -> Any:
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
