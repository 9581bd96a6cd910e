"""Divides the memory of a message's arrays into parts, and decides how each part travels."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from .. import _core, _shortage, _thresholds, _wire
from .._core import SegmentMemory

Array: TypeAlias = np.ndarray[Any, Any]
Strides: TypeAlias = tuple[int, ...]


class ReadOnly(IntEnum):
    """Which private arrays that are read-only at the sender are read-only at the receiver."""

    NONE = 0
    """None: pickle protocol 4."""
    BUFFERS = 1
    """Those that a pickle writes as a buffer: of no subclass, without gaps, and with elements that
    the buffer protocol knows. This is pickle protocol 5.
    """
    ALL = 2

    def keeps(self, array: Array) -> bool:
        """Returns whether a private ndarray is read-only at the receiver."""
        if array.flags.writeable or self is ReadOnly.NONE:
            return False
        return self is ReadOnly.ALL or (bool(array.flags.forc) and _is_buffer(array))


def _is_buffer(array: Any) -> bool:
    try:
        memoryview(array).release()
    except ValueError:  # dates, for example
        return False
    return True


class OutOfBandBuffer(NamedTuple):
    """An out-of-band buffer of a stream."""

    memory: Array | memoryview
    """An array without objects, or contiguous bytes."""
    is_read_only: bool
    """Whether it is read-only at the receiver."""


View: TypeAlias = tuple[int, int, tuple[int, ...], Strides, Any, bool]
"""The position of an out-of-band buffer: part, offset in bytes, shape, strides in bytes, dtype
(None if it is no array), and whether it is writeable.
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
    """How the receiver maps it: `_wire.OWN`, or in the words of `numpy.memmap`. None if it travels
    in the message.
    """
    memory: Any
    """The whole data of its segment, a `SegmentMemory`, or what stands for it. None if there is
    none.
    """
    inline: bytearray
    """The bytes, if they travel in the message."""


class Parts(list[Part]):
    """The parts of a message."""

    def __init__(self) -> None:
        super().__init__()
        self._segments: dict[int, int] = {}

    def add(self, part: Part) -> int:
        """Adds a part. Returns its number."""
        self.append(part)
        return len(self) - 1

    def of_segment(self, location: tuple[SegmentMemory, int, bool, int]) -> tuple[int, bool, int]:
        """Takes the result of `_core.locate`. Returns the number of the segment's part, whether it
        is writeable, and the offset in it. A segment has a part for each of its mappings.
        """
        memory, start, is_writeable, offset = location
        number = self._segments.get(start)
        if number is None:
            number = self._segments[start] = len(self)
            self.append(Part("r+" if is_writeable else "r", memory, _NOTHING))
        return number, is_writeable, offset

    def clear(self) -> None:
        super().clear()
        self._segments.clear()


class _Copy(NamedTuple):
    """Private memory to be copied in C order, and the buffers that get the copy."""

    source: Array
    numbers: list[int]
    """The numbers of the buffers: one, or several that nobody can write to."""
    offset: int
    """The offset of an array's first element in the copy."""
    strides: Strides


class Copies(Protocol):
    """Copies that messages may have in common."""

    def copy(self, source: Array) -> tuple[Array, str]:
        """Returns a copy of an array in shared memory, in its order if it has no gaps, else in C
        order; and how its receiver maps it. Raises what copying raises.
        """


class MemoryOffers(Protocol):
    """Memory that a message is offered, so that it need not be copied."""

    def offer(self, buffers: Sequence[OutOfBandBuffer | int]) -> dict[int, tuple[int, int]]:
        """Returns the number of the offer and the offset in it of each buffer that it is of."""

    def memory(self, offer: int) -> object:
        """Returns what stands for the memory of an offer until it is settled."""


class PartsLayout:
    """Assigns each out-of-band buffer to a part, and adds the parts that are missing.

    Each private array gets memory of its own, also if it lies in the same memory as another one:
    to a pickle they are different objects. Bytes that nobody can write to, such as Arrow's, are
    copied once for all buffers that are the same bytes.
    """

    def __init__(
        self,
        buffers: Sequence[OutOfBandBuffer | int],
        parts: Parts,
        large_bytes: int,
        private_mode: str,
        copies: Copies | None = None,
        offers: MemoryOffers | None = None,
    ) -> None:
        """Private memory has the ``private_mode`` at the receiver, or that of its copy, if messages
        may have ``copies`` in common. It is not copied if there are ``offers`` of it. What finds no
        room in a segment travels in the message, except with "r+".
        """
        self.parts = parts
        self.views: list[View | int] = [_NOWHERE] * len(buffers)
        self._buffers = buffers
        self._private_mode = private_mode
        self._common = copies
        own: list[_Copy] = []
        fixed: dict[tuple[int, int], _Copy] = {}
        offered = {} if offers is None else self._add_offered(offers)
        for number, buffer in enumerate(buffers):
            if isinstance(buffer, int):
                self.views[number] = buffer
            elif number not in offered and self._is_private(
                number, array := as_array(buffer.memory)
            ):
                is_fixed = isinstance(buffer.memory, memoryview) and buffer.is_read_only
                place = (address_of(array), array.nbytes)
                if is_fixed and place in fixed:
                    fixed[place].numbers.append(number)
                    continue
                own.append(_copy_of(number, array, buffer.is_read_only))
                if is_fixed:
                    fixed[place] = own[-1]
        self._add_private(own, large_bytes)

    def _add_offered(self, offers: MemoryOffers) -> dict[int, tuple[int, int]]:
        """Adds a part for each offer. Returns which buffers lie there."""
        offered = offers.offer(self._buffers)
        parts: dict[int, int] = {}
        for number, (offer, offset) in offered.items():
            part = parts.get(offer)
            if part is None:
                part = parts[offer] = self.parts.add(
                    Part(_wire.OWN, offers.memory(offer), _NOTHING)
                )
            buffer = self._buffers[number]
            assert not isinstance(buffer, int)
            self._put(part, number, offset, as_array(buffer.memory).strides)
        return offered

    def _is_private(self, number: int, array: Array) -> bool:
        """Returns whether the array is to be copied. Any other is assigned to its part here."""
        # An array without a base owns its memory, so it is not shared.
        found = None if array.base is None else _core.locate(array)
        if found is not None:
            part, _, offset = self.parts.of_segment(found)
            self._put(part, number, offset, array.strides)
        elif array.nbytes == 0:
            self.parts.append(Part(None, None, _NOTHING))
            self._put(len(self.parts) - 1, number, 0, array.strides)
        else:
            return True
        return False

    def _add_private(self, copies: Sequence[_Copy], large_bytes: int) -> None:
        small = []
        for copy in copies:
            if copy.source.nbytes < _thresholds.OWN_SEGMENT_BYTES:
                small.append(copy)
            else:
                self._add(self._in_segment(copy.source), [(copy, 0)])
        if sum(copy.source.nbytes for copy in small) >= large_bytes:
            self._add_together(small)
        else:
            for copy in small:
                self._add(Part(None, None, bytearray(copy.source.tobytes())), [(copy, 0)])

    def _add_together(self, copies: Sequence[_Copy]) -> None:
        memory = bytearray()
        members = list[tuple[_Copy, int]]()
        for copy in copies:
            if members and len(memory) + copy.source.nbytes > _thresholds.SHARED_SEGMENT_BYTES:
                self._add(self._in_segment(np.frombuffer(memory, np.uint8)), members)
                memory = bytearray()
                members = []
            memory += bytes(-len(memory) % _ALIGNMENT)
            members.append((copy, len(memory)))
            memory += copy.source.tobytes()
        if members:
            self._add(self._in_segment(np.frombuffer(memory, np.uint8)), members)

    def _in_segment(self, source: Array) -> Part:
        if source.dtype.isbuiltin != 1:
            # Core has no descriptor for every dtype.
            source = source.view(f"V{source.itemsize}")
        try:
            shared, mode = (
                (_core.share_copy(source, "C"), self._private_mode)
                if self._common is None
                else self._common.copy(source)
            )
        except _shortage.FULL as error:
            if self._private_mode == "r+":
                raise
            _shortage.warn_of_shortage(error)
            return Part(None, None, bytearray(source.tobytes()))
        location = _core.locate(shared)
        assert location is not None
        return Part(mode, location[0], _NOTHING)

    def _add(self, part: Part, copies: Sequence[tuple[_Copy, int]]) -> None:
        """Adds a part with these copies at these offsets."""
        self.parts.append(part)
        for copy, start in copies:
            for number in copy.numbers:
                self._put(len(self.parts) - 1, number, start + copy.offset, copy.strides)

    def _put(self, part: int, number: int, offset: int, strides: Strides) -> None:
        buffer = self._buffers[number]
        assert not isinstance(buffer, int)
        memory = buffer.memory
        is_writeable = not buffer.is_read_only
        if isinstance(memory, memoryview):
            self.views[number] = (part, offset, (memory.nbytes,), (1,), None, is_writeable)
        else:
            shape = memory.shape
            dtype = compact_dtype(memory)
            self.views[number] = (part, offset, shape, strides, dtype, is_writeable)


def address_of(array: Array) -> int:
    """Returns the address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def as_array(buffer: Array | memoryview) -> Array:
    """Returns the memory of an out-of-band buffer as an array."""
    return np.frombuffer(buffer, np.uint8) if isinstance(buffer, memoryview) else buffer


def _copy_of(number: int, array: Array, is_read_only: bool) -> _Copy:
    """Returns the copy of an array without the gaps between its elements. Dimensions keep their
    order in memory and their direction, unless elements overlap.
    """
    if array.flags.c_contiguous:
        return _Copy(array, [number], 0, array.strides)
    if (dense := _core.without_gaps(array)) is not None:
        first, strides = dense
        upwards = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in strides)
        axes = sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))
        return _Copy(_items(array)[upwards].transpose(axes), [number], first, tuple(strides))
    low, high = _core.span(array)
    if is_read_only and high - low < array.nbytes:
        # Nobody can see that its elements overlap at the receiver, too.
        memory = np.asarray(_Memory(address_of(array) + low, high - low, array))
        return _Copy(memory, [number], -low, array.strides)
    items = np.ascontiguousarray(_items(array))
    return _Copy(items, [number], 0, items.strides)


def _items(array: Array) -> Array:
    """Returns the items as bytes. For a structured array NumPy would copy only the fields, and
    leave what was between them.
    """
    return array.view(f"V{array.itemsize}")


class _Memory:
    """Bytes at an address, for `numpy.asarray`, with a reference to their owner."""

    def __init__(self, address: int, count: int, owner: object) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),
            "shape": (count,),
            "typestr": "|u1",
        }
        self.owner = owner


def compact_dtype(array: Array) -> Any:
    """Returns the type string of the dtype if it describes the dtype completely, else the dtype."""
    dtype = array.dtype
    is_told = 0 <= dtype.num < _OTHERS_DTYPES and dtype.kind != "V" and dtype.metadata is None
    return dtype.str if is_told else dtype
