"""Divides the memory of a message's arrays into parts, and decides how each part travels."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import _core, _shortage
from .._core import Lease
from . import _overlaps
from ._overlaps import Copy, Member, Strides

Array: TypeAlias = NDArray[Any]

OutOfBandBuffer: TypeAlias = Array | memoryview | int
"""An out-of-band buffer of a stream: an array without objects, contiguous bytes, or the number of a
part whose whole memory it is.
"""

View: TypeAlias = tuple[int, int, tuple[int, ...], Strides, Any, bool]
"""The position of an out-of-band buffer: part, offset in bytes, shape, strides in bytes, dtype
(None if it is no array), and whether it is writeable.
"""

_OWN_BYTES = 128 << 10
"""An array of this size has a segment of its own. Smaller ones share segments."""
_TOGETHER_BYTES = 1 << 20
"""The size limit of such a shared segment, so that one array that is kept alive keeps little else.
"""
_ALIGNMENT = 64
_OTHERS_DTYPES = 24
"""The numbers of NumPy's own dtypes are below this."""
_NOTHING = bytearray(1)
"""The memory of arrays without elements. That of an empty bytearray is not aligned."""
_NOWHERE: View = (0, 0, (), (), "|u1", True)


class Part(NamedTuple):
    """Memory that arrays of a message lie in."""

    mode: str | None
    """How the receiver maps it, in the words of `numpy.memmap`. None if it travels in the message.
    """
    lease: Lease | None
    """The lease of the whole data of its segment."""
    inline: bytearray
    """The bytes, if they travel in the message."""


class Parts(list[Part]):
    """The parts of a message."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: dict[int, int] = {}

    def of_segment(self, location: tuple[Lease, int, bool, int]) -> tuple[int, bool, int]:
        """Takes the result of `_core.locate`. Returns the number of the segment's part, whether it
        is writeable, and the offset in it. A segment has a part for each of its mappings.
        """
        lease, start, is_writeable, offset = location
        number = self._segments.get(start)
        if number is None:
            number = self._segments[start] = len(self)
            self.append(Part("r+" if is_writeable else "r", lease, _NOTHING))
        return number, is_writeable, offset

    def clear(self) -> None:
        super().clear()
        self._segments.clear()


class PartsLayout:
    """Assigns each out-of-band buffer to a part, and adds the parts that are missing."""

    def __init__(
        self, buffers: Sequence[OutOfBandBuffer], parts: Parts, large_bytes: int, private_mode: str
    ) -> None:
        """With the ``private_mode`` "c", memory that finds no room in a segment travels in the
        message.
        """
        self.parts = parts
        self.views: list[View | int] = [_NOWHERE] * len(buffers)
        self._buffers, self._private_mode = buffers, private_mode
        private = []
        for number, buffer in enumerate(buffers):
            if isinstance(buffer, int):
                self.views[number] = buffer
            elif self._is_private(number, array := _array(buffer)):
                private.append((number, array))
        if private:
            self._add_private(_overlaps.copies_of(private), large_bytes)

    def _is_private(self, number: int, array: Array) -> bool:
        """Returns whether the array is to be copied. Any other is assigned to its part here."""
        # An array without a base owns its memory, so it is not shared.
        found = None if array.base is None else _core.locate(array)
        if found is not None:
            part, _, offset = self.parts.of_segment(found)
            self._put(part, number, offset, array.strides)
        elif array.nbytes == 0:
            self._add(Part(None, None, _NOTHING), [Member(number, 0, array.strides)])
        else:
            return True
        return False

    def _add_private(self, copies: Iterable[Copy], large_bytes: int) -> None:
        small = []
        for copy in copies:
            if copy.source.nbytes < _OWN_BYTES:
                small.append(copy)
            else:
                self._add(self._in_segment(copy.source), copy.members)
        if sum(copy.source.nbytes for copy in small) >= large_bytes:
            self._add_together(small)
        else:
            for copy in small:
                self._add(Part(None, None, bytearray(copy.source.tobytes())), copy.members)

    def _add_together(self, copies: Sequence[Copy]) -> None:
        memory, members = bytearray(), list[Member]()
        for copy in copies:
            if len(memory) + copy.source.nbytes > _TOGETHER_BYTES:
                self._add(self._in_segment(np.frombuffer(memory, np.uint8)), members)
                memory, members = bytearray(), []
            memory += bytes(-len(memory) % _ALIGNMENT)
            members += [
                Member(number, len(memory) + offset, strides)
                for number, offset, strides in copy.members
            ]
            memory += copy.source.tobytes()
        self._add(self._in_segment(np.frombuffer(memory, np.uint8)), members)

    def _in_segment(self, source: Array) -> Part:
        if source.dtype.isbuiltin != 1:
            # Core has no descriptor for every dtype.
            source = source.view(f"V{source.itemsize}")
        try:
            shared = _core.share(source, "C", None, False, 0o600)
        except _shortage.FULL as error:
            if self._private_mode != "c":
                raise
            _shortage.tell(error)
            return Part(None, None, bytearray(source.tobytes()))
        location = _core.locate(shared)
        assert location is not None
        return Part(self._private_mode, location[0], _NOTHING)

    def _add(self, part: Part, members: Sequence[Member]) -> None:
        self.parts.append(part)
        for member in members:
            self._put(len(self.parts) - 1, *member)

    def _put(self, part: int, number: int, offset: int, strides: Strides) -> None:
        filling = self._buffers[number]
        assert not isinstance(filling, int)
        if isinstance(filling, memoryview):
            self.views[number] = (part, offset, (filling.nbytes,), (1,), None, not filling.readonly)
        else:
            self.views[number] = (
                part,
                offset,
                filling.shape,
                strides,
                compact_dtype(filling),
                filling.flags.writeable,
            )


def _array(buffer: Array | memoryview) -> Array:
    return np.frombuffer(buffer, np.uint8) if isinstance(buffer, memoryview) else buffer


def compact_dtype(array: Array) -> Any:
    """Returns the type string of the dtype if it describes the dtype completely, else the dtype."""
    dtype = array.dtype
    is_told = 0 <= dtype.num < _OTHERS_DTYPES and dtype.kind != "V" and dtype.metadata is None
    return dtype.str if is_told else dtype
