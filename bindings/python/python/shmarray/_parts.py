"""The memory of the arrays of a message: which of it is one, and how each part of it travels."""

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _core

Array: TypeAlias = NDArray[Any]
Bytes: TypeAlias = NDArray[np.uint8]
"""One dimension of bytes."""

View: TypeAlias = tuple[int, int, tuple[int, ...], tuple[int, ...] | None, Any, bool]
"""Where an array lies: its part, offset in bytes, shape, strides in bytes, dtype, and whether it is writeable."""

LARGE_BYTES = 32 << 10
"""From this size on private memory is copied into a segment; what is smaller travels in the message."""


class Part(NamedTuple):
    """Memory that arrays of a message lie in."""

    mode: str | None
    """How it is attached where it arrives, as `numpy.memmap` says it; None if it travels in the message."""
    array: Bytes | None
    """All data of its segment."""
    inline: bytes
    """What travels in the message."""


class Extent(NamedTuple):
    """An array of private memory, and the bytes that it spans."""

    low: int
    high: int
    index: int
    array: Array


class Plan:
    """Parts, and where in them each array of a message lies."""

    def __init__(self, arrays: Sequence[Array], large_bytes: int, private_mode: str) -> None:
        self.parts: list[Part] = []
        self.views: list[View] = [_NOWHERE] * len(arrays)
        self._arrays, self._large_bytes, self._private_mode = arrays, large_bytes, private_mode
        self._segments: dict[int, int] = {}
        private = []
        for index, array in enumerate(arrays):
            whole = _core.whole(array)
            if whole is not None:
                self._lies_in(index, array, self._segment(whole), address_of(array) - address_of(whole))
            elif array.size == 0:
                self._lies_in(index, np.empty(array.shape, array.dtype), self._add(Part(None, None, b"")), 0)
            else:
                private.append(Extent(*_span(array), index, array))
        for cluster in _clusters(private):
            self._copy(cluster)

    def _segment(self, whole: Bytes) -> int:
        """The part of a segment, of which there is one for each way in which it is mapped."""
        address = address_of(whole)
        if address not in self._segments:
            mode = "r+" if whole.flags.writeable else "r"
            self._segments[address] = self._add(Part(mode, whole, b""))
        return self._segments[address]

    def _copy(self, cluster: Sequence[Extent]) -> None:
        low, high = cluster[0].low, max(extent.high for extent in cluster)
        needed = sum(extent.array.nbytes for extent in cluster)
        if len(cluster) == 1 and high - low > needed:
            self._copy_without_gaps(cluster[0])
        elif high - low <= 2 * needed or len(cluster) > _PAIRWISE_MOST:
            self._copy_span(cluster, low, high)
        else:
            for those_that_share in _components(cluster):
                if len(those_that_share) == 1:
                    self._copy_without_gaps(those_that_share[0])
                else:
                    low, high = those_that_share[0].low, max(extent.high for extent in those_that_share)
                    self._copy_span(those_that_share, low, high)

    def _copy_without_gaps(self, extent: Extent) -> None:
        array = extent.array
        order: Literal["C", "F"] = "F" if array.strides[0] < array.strides[-1] else "C"
        if array.nbytes < self._large_bytes:
            part, like = Part(None, None, array.tobytes(order)), np.empty(array.shape, array.dtype, order)
        else:
            like = _core.share(array.view(f"V{array.itemsize}"), order, None, False, 0o600)
            part = Part(self._private_mode, _core.whole(like), b"")
        self._lies_in(extent.index, like, self._add(part), 0)

    def _copy_span(self, extents: Iterable[Extent], low: int, high: int) -> None:
        if high - low < self._large_bytes:
            part = Part(None, None, ctypes.string_at(low, high - low))
        else:
            part = Part(self._private_mode, _core.share_memory(low, high - low), b"")
        number = self._add(part)
        for extent in extents:
            self._lies_in(extent.index, extent.array, number, address_of(extent.array) - low)

    def _add(self, part: Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def _lies_in(self, index: int, like: Array, part: int, offset: int) -> None:
        writeable = self._arrays[index].flags.writeable
        dtype = self._arrays[index].dtype
        name = dtype.str if dtype.isbuiltin == 1 and dtype.metadata is None else dtype
        self.views[index] = (part, offset, like.shape, like.strides, name, writeable)


_TooHardError: type[Exception] = getattr(np, "exceptions", np).TooHardError  # its place before NumPy 1.25
_NOWHERE: View = (0, 0, (), (), "|u1", True)
_PAIRWISE_MOST = 32
"""Up to so many arrays that overlap are compared with one another, which is quadratic."""


def address_of(array: Array) -> int:
    """Where its first element is."""
    address: int = array.__array_interface__["data"][0]
    return address


def _span(array: Array) -> tuple[int, int]:
    """The bytes from the lowest to behind the highest of an array that has some."""
    low = high = address_of(array)
    for count, stride in zip(array.shape, array.strides, strict=True):
        reach = (count - 1) * stride
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high + array.itemsize


def _clusters(extents: Iterable[Extent]) -> Iterable[list[Extent]]:
    """Those whose spans overlap, from the lowest on."""
    cluster: list[Extent] = []
    end = 0
    for extent in sorted(extents):
        if cluster and extent.low >= end:
            yield cluster
            cluster = []
        cluster.append(extent)
        end = max(end, extent.high)
    if cluster:
        yield cluster


def _components(cluster: Sequence[Extent]) -> list[list[Extent]]:
    """Those that have elements in common, directly or through others."""
    components: list[list[Extent]] = []
    for extent in cluster:
        apart, joined = [], [extent]
        for component in components:
            if any(_share(extent.array, other.array) for other in component):
                joined.extend(component)
            else:
                apart.append(component)
        components = [*apart, sorted(joined)]
    return components


def _share(one: Array, other: Array) -> bool:
    try:
        return np.shares_memory(one, other, max_work=10_000)
    except _TooHardError:
        return True  # then they travel together
