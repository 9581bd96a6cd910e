"""Objects with ``read``, as ``numpy.load`` takes them."""

import io
from mmap import mmap
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ._loading import name_of

_START_BYTES = 12
"""The bytes of an NPY file that tell how long its header is."""
_READ_BYTES = 1 << 20
"""The bytes asked of an object at once that cannot read into memory."""


class Reader(Protocol):
    """Has ``read``; perhaps ``readinto``, too."""

    def read(self, size: int, /) -> bytes: ...


def read_array(file: Any, *, shared: bool, max_header_size: int | None) -> NDArray[Any] | bytes:
    """Returns the next array of a file, which is left behind it. If that has Python objects, it
    returns the header.
    """
    if type(file) is io.BytesIO:
        # The same bytes, not a copy, until somebody writes.
        return _read_memory(file, file.getvalue(), shared, max_header_size)
    if isinstance(file, mmap):
        return _read_memory(file, file, shared, max_header_size)
    header, dtype, shape, order = read_header(file, max_header_size)
    if dtype is None:
        return header
    array = (
        _core.create(shape, dtype, order, False, None, False, 0o600)
        if shared
        else _room(shape, dtype, order)
    )
    if array.nbytes:
        _fill(file, array)
    return array


Header = tuple[bytes, np.dtype[Any] | None, tuple[int, ...], Literal["C", "F"]]
"""Its bytes, the dtype or None for Python objects, the shape, and the order."""


def read_header(file: Any, max_header_size: int | None) -> Header:
    """Reads the header of a file's next array."""
    start = _read(file, _START_BYTES)
    if not start:
        raise EOFError("No data left in file")
    name = name_of(file)
    # Version 1.0 has two bytes less before the text.
    size = _core.npy_header_size(start, name)
    header = start + _read(file, size - len(start))
    if len(header) < size:
        raise ValueError(
            f"EOF: reading array header, expected {size} bytes got {len(header)}: "
            f"invalid file: header: it is cut off"
        )
    return header, *_core.npy_header(header, max_header_size, name)


def _read_memory(
    file: io.BytesIO | mmap, data: bytes | mmap, shared: bool, max_header_size: int | None
) -> NDArray[Any] | bytes:
    """Returns the next array of a file that is in memory: of a map, unless shared, it is a view."""
    at = file.tell()
    if at >= len(data):
        raise EOFError("No data left in file")
    found = _core.load_npy(data, shared, at, max_header_size)
    assert found is not None, "the data has a buffer"
    array, size = found
    file.seek(at + size)
    if array is None:
        return data[at : at + size]
    if shared or data is file:
        return array
    copy = _room(array.shape, array.dtype, "F" if array.flags.fnc else "C")
    if array.nbytes:
        _bytes_of(copy)[:] = _bytes_of(array)
    return copy


def _room(shape: tuple[int, ...], dtype: np.dtype[Any], order: Literal["C", "F"]) -> NDArray[Any]:
    """Returns a private array. ``numpy.empty`` would make items of one byte of empty ones."""
    return np.ndarray(shape, dtype, order=order)


def _bytes_of(array: NDArray[Any]) -> Any:
    """Returns the bytes of a contiguous array, padding included, as an array."""
    return array.reshape(-1, order="A").view(np.uint8)


class Chained:
    """A part of a file that was read, and then the rest, for pickle."""

    def __init__(self, start: bytes, file: Reader) -> None:
        self._start = io.BytesIO(start)
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Returns so many bytes, or fewer at the end of the file."""
        if size < 0:
            return self._start.read() + self._file.read(-1)
        start = self._start.read(size)
        return start + _read(self._file, size - len(start))

    def readline(self) -> bytes:
        """Returns the bytes up to the end of a line, and reads no others."""
        line = self._start.readline()
        while not line.endswith(b"\n"):
            byte = self.read(1)
            if not byte:
                break
            line += byte
        return line


def _read(file: Reader, size: int) -> bytes:
    """Returns so many bytes, or fewer at the end of the file."""
    parts: list[bytes] = []
    while size > 0:
        part = file.read(size)
        if not isinstance(part, (bytes, bytearray)):
            raise TypeError(f"read() returned {type(part).__name__}: open the file in binary mode")
        if not part:
            break
        parts.append(bytes(part))
        size -= len(part)
    return b"".join(parts)


def _fill(file: Any, array: NDArray[Any]) -> None:
    """Fills an array from a file, without a buffer between if the file can."""
    room = memoryview(_bytes_of(array))
    done = 0
    size = len(room)
    while done < size:
        if hasattr(file, "readinto"):
            count = file.readinto(room[done:])
        else:
            part = _read(file, min(size - done, _READ_BYTES))
            count = len(part)
            room[done : done + count] = part
        if not count:
            raise ValueError(
                f"Failed to read all data for array. Expected {array.shape} = {array.size} "
                f"elements, could only read {done // array.itemsize} elements. "
                f"(file seems not fully written?)"
            )
        done += count
