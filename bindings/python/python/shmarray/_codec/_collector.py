"""Collects the out-of-band buffers of one stream, and says how their arrays are rebuilt."""

import pickle
import sys
from typing import Any

import numpy as np

from .. import _core, _wire
from . import _arrow
from ._moved import Moved
from ._parts import Array, OutOfBandBuffer, Part, Parts, ReadOnly, address_of, compact_dtype


class Collector:
    """The out-of-band buffers of one stream. A subclass may rebuild arrays in another way."""

    def __init__(self) -> None:
        self.buffers: list[OutOfBandBuffer | int] = []
        """A number is that of a part, whose whole memory the buffer is."""
        self.parts = Parts()
        self.read_only = ReadOnly.ALL
        """Which private arrays arrive read-only."""
        self.private_mode = _wire.OWN
        """How a receiver maps private memory."""
        self.dispatch_table: Any = {}
        """The dispatch table of the pickler."""
        self._marked: dict[int, tuple[pickle.PickleBuffer, OutOfBandBuffer | int]] = {}

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
            return _in_class, (self._mark(self._of_subclass(plain)), kind)
        masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
        if masked is not None and issubclass(kind, masked) and _pickles_as(kind, masked):
            return _masked, self._parts_of_masked(array)
        return NotImplemented  # the subclass defines its own pickling

    def _reduce_plain(self, array: Array) -> Any:
        """A shared array is rebuilt over the memory of its whole segment. `PartsLayout` decides
        where the memory of a private array goes.
        """
        # An array without a base owns its memory, so it is not shared.
        location = None if array.base is None else _core.locate(array)
        if location is None:
            return _same, (self._mark(OutOfBandBuffer(array, self.read_only.keeps(array))),)
        part, is_writeable, offset = self.parts.of_segment(location)
        make = fixed if is_writeable and not array.flags.writeable else np.ndarray
        return make, self._in_part(array, part, offset)

    def reduce_moved(self, moved: Moved) -> Any:
        """Reduces an array that is handed over with its memory."""
        array = moved.array
        if (moved_memory := _core.move_in_use(array)) is not None:
            memory, offset = moved_memory
            part = self.parts.add(Part(self.private_mode, memory, bytearray()))
        elif (location := _core.locate(array)) is not None:
            part, _, offset = self.parts.of_segment(location)
        else:
            return _same, (self._mark(OutOfBandBuffer(array, False)),)
        return np.ndarray, self._in_part(array, part, offset)

    def _in_part(self, array: Array, part: int, offset: int) -> tuple[Any, ...]:
        """Returns how an array is rebuilt in the memory of a part."""
        return array.shape, compact_dtype(array), self._mark(part), offset, array.strides

    def _of_subclass(self, array: Array) -> OutOfBandBuffer:
        """Pickle protocol 5 writes arrays of subclasses as protocol 4 does."""
        is_kept = self.read_only is ReadOnly.ALL or _core.is_shared(array)
        return OutOfBandBuffer(array, is_kept and not array.flags.writeable)

    def _parts_of_masked(self, array: Any) -> tuple[Any, ...]:
        """Returns the class, the data, the mask if there is one, and the flags of a masked
        array.
        """
        data = self._half_of_masked(np.ndarray.view(array, array._baseclass))
        mask = None if array._mask is np.ma.nomask else self._half_of_masked(array._mask)
        return type(array), data, mask, array._fill_value, array._hardmask, array._sharedmask

    def _half_of_masked(self, array: Array) -> Array:
        """Returns the data or the mask, or a copy where a pickle makes it writeable."""
        is_writeable = array.flags.writeable or not self._of_subclass(array).is_read_only
        return array.copy() if is_writeable and not array.flags.writeable else array

    def _mark(self, buffer: OutOfBandBuffer | int) -> pickle.PickleBuffer:
        """Returns an empty buffer, pickled in place of this one; `take` maps it back."""
        mark = pickle.PickleBuffer(_EMPTY)
        self._marked[id(mark)] = mark, buffer
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
            self.buffers.append(OutOfBandBuffer(memory, memory.readonly or _arrow.owns(memory)))
        return not memory.nbytes


def fixed(*arguments: Any) -> Array:
    """Returns a read-only array."""
    array: Array = np.ndarray(*arguments)
    array.flags.writeable = False
    return array


def _same(array: Array) -> Array:
    return array


def _in_class(array: Array, kind: type[Array]) -> Array:
    """Returns an array of a subclass over the memory of an array. Its ``__array_finalize__`` gets
    None, as from a pickle; from ``array.view`` it would get the array.
    """
    memory: Any = array.base
    offset = address_of(array) - address_of(np.frombuffer(memory, np.uint8))
    made = np.ndarray.__new__(kind, array.shape, array.dtype, memory, offset, array.strides)
    if not array.flags.writeable:
        made.flags.writeable = False
    return made


def _masked(
    kind: Any, data: Array, mask: Any, fill_value: Any, is_hard: bool, is_shared: bool
) -> Any:
    """Rebuilds a masked array by the base class, because the constructor of a subclass may take
    other arguments.
    """
    masked: Any = np.ma.MaskedArray
    array = masked.__new__(kind, data, hard_mask=is_hard)
    array._mask = np.ma.nomask if mask is None else mask
    array._fill_value = fill_value
    array._sharedmask = is_shared
    return array


def _pickles_as(kind: type, parent: type) -> bool:
    """Returns whether a class inherits all methods of pickling from another."""
    return all(getattr(kind, name) is getattr(parent, name) for name in _PICKLING)


_EMPTY = bytearray()
_PICKLING = ("__reduce__", "__reduce_ex__", "__setstate__")
