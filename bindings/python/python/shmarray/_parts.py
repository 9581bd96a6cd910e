"""The memory of the arrays of a message: which of it is one part, and how each part travels."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _core, _overlaps
from ._overlaps import Copy, Member, Strides, address_of

Array: TypeAlias = NDArray[Any]
Bytes: TypeAlias = NDArray[np.uint8]
"""One dimension of bytes."""

Place: TypeAlias = Array | memoryview
"""What a place of a stream is to be filled with: an array without objects, or contiguous bytes."""

View: TypeAlias = tuple[int, int, tuple[int, ...], Strides, Any, bool]
"""Where what fills a place lies: its part, offset in bytes, shape, strides in bytes, dtype (None
if it is no array), and whether it is writeable."""

LARGE_BYTES = 32 << 10
"""Private memory of a message that is less altogether travels in it, not in shared memory."""

_OWN_BYTES = 128 << 10
"""What is at least so large has a segment of its own; what is less shares one, for as many as fill them."""
_TOGETHER_BYTES = 1 << 20
"""What such a segment has at most, so that one array that is kept keeps no more."""
_ALIGNMENT = 64
_OTHERS_DTYPES = 24
"""NumPy's own dtypes have smaller numbers than this."""
_NOTHING = bytearray(1)
"""Where arrays of no bytes lie: the memory of an empty bytearray is not aligned."""
_NOWHERE: View = (0, 0, (), (), "|u1", True)


class Part(NamedTuple):
    """Memory that arrays of a message lie in."""

    mode: str | None
    """How it is attached where it arrives, as `numpy.memmap` says it; None if it travels in the message."""
    array: Bytes | None
    """All data of its segment."""
    inline: bytearray
    """What travels in the message."""


class Plan:
    """Parts, and where in them that lies which fills each place of a stream."""

    def __init__(self, places: Sequence[Place], large_bytes: int, private_mode: str) -> None:
        self.parts: list[Part] = []
        self.views: list[View] = [_NOWHERE] * len(places)
        self._places, self._private_mode = places, private_mode
        self._segments: dict[int, int] = {}
        private = []
        for number, place in enumerate(places):
            array = _array(place)
            whole = None if array.base is None else _core.whole(array)  # without a base it owns its memory
            if whole is not None:
                self._add_segment(number, array, whole)
            elif array.nbytes == 0:
                self._add(Part(None, None, _NOTHING), [Member(number, 0, array.strides)])
            else:
                private.append(_overlaps.extent_of(number, array))
        if private:
            self._add_private(_overlaps.copies(private), large_bytes)

    def _add_segment(self, place: int, array: Array, whole: Bytes) -> None:
        """The part of a segment, of which there is one for each way in which it is mapped."""
        start = address_of(whole)
        if start not in self._segments:
            self._segments[start] = len(self.parts)
            self.parts.append(Part("r+" if whole.flags.writeable else "r", whole, _NOTHING))
        self._lies_in(self._segments[start], place, address_of(array) - start, array.strides)

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
            members += [Member(place, len(memory) + offset, strides) for place, offset, strides in copy.members]
            memory += copy.source.tobytes()
        self._add(self._in_segment(np.frombuffer(memory, np.uint8)), members)

    def _in_segment(self, source: Array) -> Part:
        if source.dtype.isbuiltin != 1:
            source = source.view(f"V{source.itemsize}")  # not every dtype can be told to other languages
        shared = _core.share(source, "C", None, False, 0o600)
        return Part(self._private_mode, _core.whole(shared), _NOTHING)

    def _add(self, part: Part, members: Sequence[Member]) -> None:
        self.parts.append(part)
        for member in members:
            self._lies_in(len(self.parts) - 1, *member)

    def _lies_in(self, part: int, place: int, offset: int, strides: Strides) -> None:
        filling = self._places[place]
        if isinstance(filling, memoryview):
            self.views[place] = (part, offset, (filling.nbytes,), (1,), None, not filling.readonly)
        else:
            self.views[place] = (part, offset, filling.shape, strides, _dtype(filling), filling.flags.writeable)


def _array(place: Place) -> Array:
    return np.frombuffer(place, np.uint8) if isinstance(place, memoryview) else place


def _dtype(array: Array) -> Any:
    """Its dtype, or a text that says as much and is shorter."""
    dtype = array.dtype
    is_told = 0 <= dtype.num < _OTHERS_DTYPES and dtype.kind != "V" and dtype.metadata is None
    return dtype.str if is_told else dtype
