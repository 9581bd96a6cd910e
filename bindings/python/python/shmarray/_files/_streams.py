"""Objects with ``read``, as ``numpy.load`` takes them."""

import io
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _core

_START_BYTES = 12
"""The bytes of an NPY file that tell how long its header is."""
_READ_BYTES = 1 << 20
"""The bytes asked of an object at once that cannot read into memory."""


class Reader(Protocol):
    """Has ``read``; perhaps ``readinto``, too."""

    def read(self, size: int, /) -> bytes: ...


def read_array(file: Any, *, shared: bool) -> NDArray[Any] | bytes:
    """Returns the next array of a file, which is left behind it. If that has Python objects, it
    returns the header.
    """
    if type(file) is io.BytesIO:
        return _read_bytes_io(file, shared=shared)
    start = _read(file, _START_BYTES)
    if not start:
        raise EOFError("No data left in file")
    # Version 1.0 has two bytes less before the text.
    size = _core.npy_header_size(start)
    header = start + _read(file, size - len(start))
    if len(header) < size:
        raise ValueError(
            f"EOF: reading array header, expected {size} bytes got {len(header)}: "
            f"invalid file: header: it is cut off"
        )
    dtype, shape, order = _core.npy_header(header)
    if dtype is None:
        return header
    array = (
        _core.create(shape, dtype, order, False, None, False, 0o600)
        if shared
        else np.ndarray(shape, dtype, order=order)
    )
    if array.nbytes:
        _fill(file, array)
    return array


def _read_bytes_io(file: io.BytesIO, *, shared: bool) -> NDArray[Any] | bytes:
    data, at = file.getvalue(), file.tell()  # the same bytes, not a copy, until somebody writes
    if at >= len(data):
        raise EOFError("No data left in file")
    found = _core.load_npy(data, shared, at)
    assert found is not None, "bytes have a buffer"
    array, size = found
    file.seek(at + size)
    if array is None:
        return data[at : at + size]
    if shared:
        return array
    # `array.copy` would make items of one byte of those that have none.
    return array.copy(order="K") if array.nbytes else np.ndarray(array.shape, array.dtype)


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
    flat: Any = array.reshape(-1, order="A").view(np.uint8)
    room = memoryview(flat)
    done, size = 0, len(room)
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
