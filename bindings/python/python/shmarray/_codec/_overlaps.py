"""Finds private arrays that have elements in common, and copies them without their gaps.

The elements of an array lie in *runs*, which are bytes without gaps. The starts of its runs are
multiples of its *period* apart. A column of a matrix in C order has runs of one element and the
period of a row. A contiguous array is one run without a period. Arrays whose extents overlap need
not have elements in common: columns side by side have none. Modulo the greatest common divisor of
all periods, each array covers one interval as long as its run. If these intervals are disjoint, so
are the arrays. This test takes as long as sorting the intervals. It may find an overlap where there
is none; then arrays stay together, which is correct but longer.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Strides: TypeAlias = tuple[int, ...]


class Extent(NamedTuple):
    """A private array and the bytes that it covers."""

    low: int
    high: int
    """The address behind its highest byte."""
    number: int
    """Unique, so that comparing two extents never compares their arrays."""
    array: Array
    run: int
    period: int


class Member(NamedTuple):
    """The position of an array in a copy."""

    number: int
    offset: int
    strides: Strides


class Copy(NamedTuple):
    """An array to be copied in C order, and the arrays that lie in this copy."""

    source: Array
    members: list[Member]


def address_of(array: Array) -> int:
    """Returns the address of the first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def extent_of(number: int, array: Array) -> Extent:
    """Returns the extent of an array that has elements."""
    address, item = address_of(array), array.itemsize
    if array.flags.c_contiguous:
        return Extent(address, address + array.nbytes, number, array, array.nbytes, 0)
    run, period = item, 0
    for stride, count in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if stride <= run:
            run += (count - 1) * stride
        elif count > 1:
            period = math.gcd(period, stride)
    low = address - _first(array.shape, array.strides)
    return Extent(low, low + _reach(array.shape, array.strides) + item, number, array, run, period)


def copies_of(arrays: Sequence[tuple[int, Array]]) -> Iterator[Copy]:
    """Yields copies that have each element of these numbered arrays once."""
    number, array = arrays[0]
    if len(arrays) == 1 and array.flags.c_contiguous:
        return iter([Copy(array, [Member(number, 0, array.strides)])])
    return copies(itertools.starmap(extent_of, arrays))


def copies(extents: Iterable[Extent]) -> Iterator[Copy]:
    """Yields copies that have each element once."""
    return map(_copy, _groups(extents))


def _groups(extents: Iterable[Extent]) -> Iterator[list[Extent]]:
    """Yields groups of arrays that may have elements in common."""
    for chain in _chains((extent.low, extent.high, extent) for extent in extents):
        rings = _rings(chain, math.gcd(*(extent.period for extent in chain)))
        if len(rings) == 1:
            yield chain
        else:
            for ring in rings:
                yield from _groups(ring)


def _chains(intervals: Iterable[tuple[int, int, Extent]]) -> list[list[Extent]]:
    """Groups intervals that overlap, directly or through others, in ascending order."""
    chains: list[list[Extent]] = []
    end = 0
    for start, stop, extent in sorted(intervals):
        if not chains or start >= end:
            chains.append([])
        chains[-1].append(extent)
        end = max(end, stop)
    return chains


def _rings(extents: list[Extent], period: int) -> list[list[Extent]]:
    """Groups extents whose runs overlap modulo a period, each group from the start of its
    interval.
    """
    if len(extents) == 1 or any(extent.run >= period for extent in extents):
        return [extents]
    rings = _chains(
        (extent.low % period, extent.low % period + extent.run, extent) for extent in extents
    )
    beyond = max(extent.low % period + extent.run for extent in rings[-1]) - period
    while len(rings) > 1 and rings[0][0].low % period < beyond:
        rings[-1] += rings.pop(0)
    return rings


def _copy(group: list[Extent]) -> Copy:
    first, low, high = group[0], group[0].low, max(extent.high for extent in group)
    if len(group) == 1 and first.array.flags.c_contiguous:
        return Copy(first.array, [Member(first.number, 0, first.array.strides)])
    if all(extent.period == 0 for extent in group) or any(
        extent.run >= high - low for extent in group
    ):
        return _memory(group, low, high)
    if len(group) == 1 and _has_each_byte_once(first.array):
        return _elements(first)
    members, size = _without_gaps(group)
    memory = np.zeros(size, np.uint8)
    for extent, member in zip(group, members, strict=True):
        _put(extent.array, memory, member)
    return Copy(memory, members)


def _memory(group: list[Extent], low: int, high: int) -> Copy:
    """Copies extents without gaps as one piece of memory."""
    if len(group) > 1:
        # This keeps the alignment of all. The added bytes are on the same page.
        low -= low % _ALIGNMENT
    members = [
        Member(number, address_of(array) - low, array.strides)
        for _, _, number, array, _, _ in group
    ]
    return Copy(np.asarray(_Memory(low, high - low, group)), members)


def _elements(extent: Extent) -> Copy:
    """Copies a single array without its gaps. Its dimensions keep their order in memory and their
    direction.
    """
    array = extent.array
    axes = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    upwards = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)
    strides, step = list(array.strides), array.itemsize
    for axis in reversed(axes):
        strides[axis] = -step if strides[axis] < 0 else step
        step *= array.shape[axis]
    member = Member(extent.number, _first(array.shape, strides), tuple(strides))
    return Copy(_items(array)[upwards].transpose(axes), [member])


def _without_gaps(group: list[Extent]) -> tuple[list[Member], int]:
    """Returns the members of a copy that has only the bytes that the runs cover in each period, and
    the size of the copy.
    """
    period = math.gcd(*(extent.period for extent in group))
    alignment = max(extent.array.dtype.alignment for extent in group)
    if period % alignment:
        alignment = 1  # no member is aligned from row to row
    origin = _rings(group, period)[0][0].low % period
    origin -= origin % alignment
    width = max((extent.low - origin) % period + extent.run for extent in group)
    width = min(period, -(-width // alignment) * alignment)
    start = min(extent.low - (extent.low - origin) % period for extent in group)
    members, size = [], 0
    for extent in group:
        shape = extent.array.shape
        # A stride that is not a multiple of the period is a stride within a run.
        strides = tuple(
            step // period * width if step % period == 0 else step for step in extent.array.strides
        )
        row, column = divmod(extent.low - start, period)
        low = row * width + column
        members.append(Member(extent.number, low + _first(shape, strides), strides))
        size = max(size, low + _reach(shape, strides) + extent.array.itemsize)
    return members, size


def _put(array: Array, memory: Array, member: Member) -> None:
    items = _items(array)
    there: Array = np.ndarray(items.shape, items.dtype, memory, member.offset, member.strides)
    once = tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)
    there[once] = items[once]


def _items(array: Array) -> Array:
    """Returns the items as bytes. For a structured array NumPy would copy only the fields, and
    leave what was between them.
    """
    return array.view(f"V{array.itemsize}")


def _has_each_byte_once(array: Array) -> bool:
    """Returns whether each stride is longer than the elements within it. If not, elements may
    overlap.
    """
    reach = array.itemsize
    for stride, count in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if count > 1 and stride < reach:
            return False
        reach += (count - 1) * stride
    return True


def _first(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the distance in bytes from the lowest element of an array to its first one."""
    return -sum(
        (count - 1) * stride for count, stride in zip(shape, strides, strict=True) if stride < 0
    )


def _reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the distance in bytes from the lowest element of an array to its highest one."""
    return sum((count - 1) * abs(stride) for count, stride in zip(shape, strides, strict=True))


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


_ALIGNMENT = 16
