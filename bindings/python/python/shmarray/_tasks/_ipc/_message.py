"""Packs objects and bytes as messages of core's pipes: arrays by handle, fds beside them."""

import copyreg
import pickle
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from ... import array
from .. import _internals, _wire
from ._fds import IncomingFds, OwnedFd
from ._reducers import ReducingPickler, extra_reducers

__all__ = [
    "OutgoingMessage",
    "PipePickler",
    "pack",
    "pack_by",
    "pack_bytes",
    "pack_special",
    "send",
    "send_plain",
    "unpack",
    "unpack_bytes",
]


class OutgoingMessage(NamedTuple):
    """A message that can be sent."""

    payload: tuple[bytes | memoryview | str, ...]
    """The pieces of the payload in order. A ``str`` among them is ASCII."""
    arrays: Sequence[Any]
    fds: Sequence[OwnedFd]


@_internals.reused
class PipePickler(_internals.ArrayPickler):
    """A pickler that asks the reducers of ``ForkingPickler`` first."""

    STREAM_BYTES = _internals.PIPE_STREAM_BYTES
    SMALL_BYTES = _internals.PIPE_SMALL_BYTES
    LARGE_BYTES = _internals.PIPE_LARGE_BYTES
    READ_ONLY = (
        _internals.ReadOnly.NONE if pickle.DEFAULT_PROTOCOL < 5 else _internals.ReadOnly.BUFFERS
    )
    """As the standard pickler of this Python: the programs that we replace store into arguments."""
    COPIES = _internals.SENT_COPIES

    REDUCERS = (*extra_reducers(), *_internals.ArrayPickler.REDUCERS)


_ALL_REDUCERS = (copyreg.dispatch_table, *PipePickler.REDUCERS)


def send_plain(
    pipe: _internals.Pipe, obj: object, front: bytes = b"", timeout: float | None = None
) -> bool | None:
    """Sends an object at once that needs no pickler, as most small objects, behind ``front``.
    Returns whether there was room in time, and None if it is no such object.
    """
    return pipe.send_plain(obj, _internals.PIPE_STREAM_BYTES, _ALL_REDUCERS, front, timeout)


def pack(obj: object, copies: _internals.Copies | None = None) -> OutgoingMessage:
    """Packs an object. Raises what pickling raises. ``copies`` are those of the object's call."""
    payload = _internals.encode_plain(obj, _internals.PIPE_STREAM_BYTES, _ALL_REDUCERS)
    return pack_special(obj, copies) if payload is None else OutgoingMessage(payload, (), ())


def pack_special(obj: object, copies: _internals.Copies | None = None) -> OutgoingMessage:
    """Packs an object that `send_plain` does not send."""
    if type(obj) is str and obj.isascii():
        return OutgoingMessage(*_internals.encode_text(obj), ())
    if type(obj) is np.ndarray and not any(
        np.ndarray in reducers for reducers in PipePickler.REDUCERS
    ):
        encoded = _internals.encode_array(obj, PipePickler, copies)
        if encoded is not None:
            return OutgoingMessage(*encoded, ())
    return pack_by(obj, PipePickler, copies)


def pack_by(
    obj: object,
    pickler: Callable[[], _internals.ArrayPickler],
    copies: _internals.Copies | None = None,
) -> OutgoingMessage:
    """Packs an object by a pickler. Raises what pickling raises."""
    name = object()
    try:
        _internals.begin_message(name)
        payload, arrays = _internals.encode(obj, pickler, copies)
    finally:
        outgoing = _internals.end_message(name)
    return OutgoingMessage(payload, arrays, () if outgoing is None else outgoing.close_up())


def pack_bytes(data: memoryview) -> OutgoingMessage:
    """Packs bytes."""
    if data.nbytes <= _internals.PIPE_STREAM_BYTES:
        is_whole = (
            isinstance(data.obj, bytes) and data.c_contiguous and data.nbytes == len(data.obj)
        )
        piece = cast(bytes, data.obj) if is_whole else data  # bytes need no copy
        return OutgoingMessage((_wire.BYTES, piece), (), ())
    try:
        shared = array(np.frombuffer(data, np.uint8))
    except _internals.FULL as error:
        _internals.warn_of_shortage(error)
        return OutgoingMessage((_wire.BYTES, data), (), ())
    return OutgoingMessage((_wire.BYTES,), [shared], ())


def send(
    pipe: _internals.Pipe,
    message: OutgoingMessage,
    timeout: float | None = None,
    payload: list[bytes | memoryview | str] | None = None,
    tasks: _internals.QueueTasks | None = None,
) -> None:
    """Sends a message. When it is sent, a list of its payload's pieces is emptied, and it is a task
    of ``tasks`` in the pipe; a signal's handler cannot raise in between.

    Raises TimeoutError if there was no room in time, BrokenPipeError if nobody can receive.
    """
    pieces = message.payload if payload is None else payload
    pipe.send(pieces, message.arrays, timeout, [one.fileno() for one in message.fds], tasks)


def unpack(payload: bytes | memoryview, message: _internals.Message) -> Any:
    """Returns the object of a message."""
    fds = message.take_fds()
    if not fds:
        return _unpack(payload, message)
    with IncomingFds(fds):
        return _unpack(payload, message)


def _unpack(payload: bytes | memoryview, message: _internals.Message) -> Any:
    if payload[: len(_wire.BYTES)] == _wire.BYTES:
        return ReducingPickler.loads(_bytes(payload, message))
    return _internals.decode(payload, message)


def unpack_bytes(payload: bytes | memoryview, message: _internals.Message) -> bytes:
    """Returns the bytes of a message. For an object these are bytes that ``pickle.loads`` loads.

    Nothing is unpickled here: a receiver of bytes need not trust their sender.
    """
    if payload[: len(_wire.BYTES)] == _wire.BYTES:
        return message.read(0) if len(message) else bytes(payload[len(_wire.BYTES) :])
    if _internals.is_array_alone(payload):
        return bytes(ReducingPickler.dumps(message.array(0, "r").copy("K")))
    memories = [message.read(index) for index in range(len(message))]
    return bytes(ReducingPickler.dumps(_Unopened(bytes(payload), memories)))


class _Unopened:
    """The message of an object with the memory of its arrays, to be pickled."""

    def __init__(self, payload: bytes, memories: Sequence[bytes]) -> None:
        self._payload = payload
        self._memories = memories

    def __reduce__(self) -> Any:
        return _open, (self._payload, self._memories)


def _open(payload: bytes, memories: Sequence[bytes]) -> Any:
    """Returns the object of such a message."""
    return _internals.decode(payload, _Memories(memories))


class _Memories:
    """The memory of arrays, in the place of ``_internals.Message``."""

    def __init__(self, memories: Sequence[bytes]) -> None:
        self._memories = memories

    def array(self, _index: int, _mode: str) -> Any:
        raise ValueError("no message: its payload is that of an array alone")

    def memory(self, index: int, _mode: str) -> Any:
        return bytearray(self._memories[index])


def _bytes(payload: bytes | memoryview, message: _internals.Message) -> memoryview:
    return (
        memoryview(payload)[len(_wire.BYTES) :] if len(message) == 0 else message.array(0, "r").data
    )
