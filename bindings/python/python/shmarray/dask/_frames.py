"""Replaces the large frames of a serialized object by handles, and handles by memory."""

import contextlib
import logging
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from distributed.comm.core import CommClosedError
from distributed.utils import ensure_memoryview, nbytes

from .. import Error, StaleHandleError, discard
from .. import array as shared_copy
from .._tasks import _internals
from . import _host
from ._config import Settings
from ._counters import count
from ._under_way import UnderWay

logger = logging.getLogger("shmarray.dask")

KEY = "shmarray"
"""The key in an object's header. Its value has for each frame that is a handle the frame's index,
the offset and the size of its bytes in the memory, and whether others may have that.
"""
LARGEST_PART = 8
"""A frame that is a smaller part of its segment than one in this many is copied: it would keep the
whole segment.
"""


class _Sent(typing.NamedTuple):
    handle: str
    offset: int
    is_kept: bool
    """Whether the sender, or somebody else, may have the memory as well."""


class _State:
    was_full: typing.ClassVar[bool] = False


def by_handle(
    header: dict[str, Any], frames: Sequence[Any], under_way: UnderWay, is_copy: bool
) -> tuple[dict[str, Any], list[Any]]:
    """Returns the header and the frames with handles. With ``is_copy`` frames in shared memory were
    copied there for this message.
    """
    entries, frames = [], list(frames)
    for index, frame in enumerate(frames):
        size = nbytes(frame)
        if size < Settings.min_shared_bytes:
            continue
        sent = _send(frame, size)
        if sent is None:
            continue
        under_way.add([sent.handle])
        count("sent_by_handle_bytes", size)
        entries.append((index, sent.offset, size, sent.is_kept and not is_copy))
        frames[index] = sent.handle.encode()
    return ({**header, KEY: entries} if entries else header), frames


def count_wire(frames: Sequence[Any]) -> int:
    """Counts the large frames of an object that goes as bytes. Returns how many bytes they have."""
    sizes: list[int] = [nbytes(frame) for frame in frames]
    size = sum(size for size in sizes if size >= Settings.min_bytes)
    if size:
        count("sent_by_wire_bytes", size)
    return size


def arrived(header: Mapping[str, Any], frames: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Returns the header and the frames of an object with memory in place of the handles, and gives
    the tickets back.

    Raises CommClosedError if memory is gone, because the sender has died or has given up: then
    Dask asks for it again, or another worker.
    """
    entries, frames = header[KEY], list(frames)
    handles = [str(ensure_memoryview(frames[entry[0]]), "utf-8") for entry in entries]
    try:
        for (index, offset, size, is_kept), handle in zip(entries, handles, strict=True):
            memory = _internals.sent_memory(handle, "r" if is_kept else "r+")
            frames[index] = memoryview(memory)[offset : offset + size]
            count("received_by_handle_bytes", size)
    except (FileNotFoundError, StaleHandleError) as error:
        raise CommClosedError(f"the sender of an array has died or given up: {error}") from error
    except (OSError, MemoryError, Error) as error:
        _host.withdraw(error)
        raise CommClosedError(f"an array could not be attached: {error}") from error
    finally:
        for handle in handles:
            discard(handle)
    fixed = {entry[0] for entry in entries if entry[3]}
    return _with_fixed({key: header[key] for key in header if key != KEY}, fixed), frames


def part_of_shared(view: np.ndarray[Any, Any]) -> tuple[Any, int, bool, int] | None:
    """Returns where in shared memory an array is, if it is a sizeable part of its segment."""
    if view.base is None:
        return None
    location = _internals.locate(view)
    if location is None or view.nbytes * LARGEST_PART < location[0].nbytes:
        return None
    return location


def can_be_copied(array: np.ndarray[Any, Any]) -> bool:
    """Returns whether `copied` takes an array: one of NumPy's own numbers, large enough."""
    return (
        array.nbytes >= Settings.min_bytes
        and array.dtype.isbuiltin == 1
        and not array.dtype.hasobject
    )


def copied(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Returns a copy of an array of numbers in shared memory, in C order unless the array is in
    Fortran order. Returns None if there is no room.
    """
    try:
        return shared_copy(array, order="A")
    except _internals.FULL as error:
        if not _State.was_full:
            _State.was_full = True
            logger.warning("%s. Arrays without room go as bytes.", error)
        return None


def moved(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Returns a shared array in the memory of a private one, which becomes read-only. Returns None
    if it was not born shared.
    """
    if not array.flags.owndata or not array.flags.writeable:
        return None
    array.flags.writeable = False
    if (found := _internals.move_in_use(array)) is None:
        array.flags.writeable = True
        return None
    memory, offset = found
    handle = None
    try:
        handle = str(_internals.handle_to_send(memory))
        shared = _internals.sent_memory(handle, "r")
    except (OSError, MemoryError, Error):
        return None  # there is no room for a ticket; a copy needs none
    finally:
        if handle is not None:
            discard(handle)
    return np.ndarray(array.shape, array.dtype, shared, offset, array.strides)


def _send(frame: Any, size: int) -> _Sent | None:
    """Takes a ticket. Returns None for a frame that goes as bytes."""
    view = np.frombuffer(ensure_memoryview(frame), np.uint8)
    if (location := part_of_shared(view)) is not None:
        try:
            return _Sent(str(_internals.handle_to_send(location[0])), location[3], True)
        except (OSError, MemoryError, Error, ValueError, TypeError):
            pass  # of another user, or its ticket found no room
    if size < Settings.min_bytes:
        return None
    copy = copied(view)
    if copy is not None:
        location = _internals.locate(copy)
        assert location is not None
        with contextlib.suppress(*_internals.FULL):
            return _Sent(str(_internals.handle_to_send(location[0])), location[3], False)
    count("found_no_room_bytes", size)
    count("sent_by_wire_bytes", size)
    return None


def _with_fixed(header: dict[str, Any], fixed: set[int]) -> dict[str, Any]:
    """Returns the header of an object whose arrays in these frames must not be written into. Dask
    would copy the memory of an array that is said to be writeable and is not.
    """
    if not fixed:
        return header
    if header["serializer"] == "pickle":
        # The first frame is the pickle.
        writeable = header["writeable"]
        header["writeable"] = tuple(
            is_writeable and index not in fixed for index, is_writeable in enumerate(writeable, 1)
        )
        return header
    return {**header, "sub-header": _all_fixed(header["sub-header"])}


def _all_fixed(header: Any) -> Any:
    """Returns the header of a serializer of Dask's, in which each array says whether it is
    writeable.
    """
    if not isinstance(header, Mapping):
        return header
    return {
        key: [False] * len(value) if key == "writeable" else _all_fixed(value)
        for key, value in header.items()
    }
