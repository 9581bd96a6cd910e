"""Collects the out-of-band buffers of one stream, and says how their arrays are rebuilt."""

import pickle
import sys
from typing import Any

import numpy as np

from .. import _core
from ._parts import Array, OutOfBandBuffer, Parts, compact_dtype


class Collector:
    """The out-of-band buffers of one stream. A subclass may rebuild arrays in another way."""

    def __init__(self) -> None:
        self.buffers: list[OutOfBandBuffer] = []
        self.parts = Parts()
        self.dispatch_table: Any = {}
        """The dispatch table of the pickler."""
        self._marked: dict[int, tuple[pickle.PickleBuffer, OutOfBandBuffer]] = {}

    def clear(self) -> None:
        """Drops all references to memory."""
        if self._marked or self.buffers or self.parts:
            self._marked.clear()
            self.buffers.clear()
            self.parts.clear()

    def reduce_array(self, array: Array) -> Any:
        """Reduces an array of any class, with an out-of-band buffer for its memory."""
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
        return NotImplemented  # the subclass defines its own pickling

    def _reduce_plain(self, array: Array) -> Any:
        """A shared array is rebuilt over the memory of its whole segment. `PartsLayout` decides
        where the memory of a private array goes.
        """
        # An array without a base owns its memory, so it is not shared.
        location = None if array.base is None else _core.locate(array)
        if location is None:
            return _same, (self._mark(array),)
        part, is_writeable, offset = self.parts.of_segment(location)
        arguments = array.shape, compact_dtype(array), self._mark(part), offset, array.strides
        return fixed if is_writeable and not array.flags.writeable else np.ndarray, arguments

    def _mark(self, memory: OutOfBandBuffer) -> pickle.PickleBuffer:
        """Returns an empty buffer to pickle in place of this memory. `take` knows it by its
        identity.
        """
        mark = pickle.PickleBuffer(_EMPTY)
        self._marked[id(mark)] = mark, memory
        return mark

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Adds the memory of a buffer. Returns True if the pickler is to write it into the
        stream.
        """
        if id(buffer) in self._marked:
            self.buffers.append(self._marked[id(buffer)][1])
            return False
        memory = buffer.raw()
        if memory.nbytes:
            self.buffers.append(memory)
        return not memory.nbytes


def fixed(*arguments: Any) -> Array:
    """Returns a read-only array."""
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
    """Rebuilds a masked array by the base class, because the constructor of a subclass may take
    other arguments.
    """
    masked: Any = np.ma.MaskedArray
    array = masked.__new__(kind, data, hard_mask=is_hard)
    array._mask = np.ma.nomask if mask is None else mask
    array._fill_value, array._sharedmask = fill_value, is_shared
    return array


def _parts_of_masked(array: Any) -> tuple[Any, ...]:
    """Returns the class, the data, the mask if there is one, and the flags of a masked array."""
    data = np.ndarray.view(array, array._baseclass)
    mask = None if array._mask is np.ma.nomask else array._mask
    return type(array), data, mask, array._fill_value, array._hardmask, array._sharedmask


def _pickles_as(kind: type, parent: type) -> bool:
    """Returns whether a class inherits all methods of pickling from another."""
    return all(getattr(kind, name) is getattr(parent, name) for name in _PICKLING)


_EMPTY = bytearray()
_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__")
