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
    start = _read(file, _START_BYTES, "magic")
    if not start:
        raise EOFError("No data left in file")
    # Version 1.0 has two bytes less before the text.
    size = _core.npy_header_size(start)
    header = start + _read(file, size - len(start), "header")
    dtype, shape, order = _core.npy_header(header)
    if dtype is None:
        return header
    array = (
        _core.create(shape, dtype, order, False, None, False, 0o600)
        if shared
        else np.empty(shape, dtype, order)
    )
    _fill(file, memoryview(array.reshape(-1, order="A").view(np.uint8)) if array.nbytes else b"")
    return array


def _read_bytes_io(file: io.BytesIO, *, shared: bool) -> NDArray[Any] | bytes:
    data, at = file.getvalue(), file.tell()  # the same bytes, not a copy, until somebody writes
    if at >= len(data):
        raise EOFError("No data left in file")
    found = _core.load_npy(data, True, at) if shared else None
    if found is None:
        found = _core.load_npy(data, False, at)
    array, bytes_ = found
    file.seek(at + bytes_)
    if array is None:
        return data[at : at + bytes_]
    return array if shared else array.copy(order="K")


def _read(file: Reader, size: int, what: str) -> bytes:
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


def _fill(file: Any, room: Any) -> None:
    """Fills memory from a file, without a buffer between if the file can."""
    done, size = 0, len(room)
    while done < size:
        if hasattr(file, "readinto"):
            count = file.readinto(room[done:])
        else:
            part = _read(file, min(size - done, _READ_BYTES), "data")
            count = len(part)
            room[done : done + count] = part
        if not count:
            raise ValueError(f"invalid file: data: it ends after {done} of {size} bytes")
        done += count
