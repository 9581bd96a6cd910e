"""Objects and bytes as messages of core's pipes: arrays by handle, fds beside them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .. import _core, _shortage, _wire
from .._codec import _pickler
from ._fds import IncomingFds, OwnedFd
from ._reducers import ReducingPickler, extra_reducers

__all__ = [
    "OutgoingMessage",
    "PipePickler",
    "pack",
    "pack_by",
    "pack_bytes",
    "send",
    "unpack",
    "unpack_bytes",
]

_STREAM_BYTES = 156 << 10
"""A stream of this size and what goes with it fit into one packet of the socket, which is faster than shared memory."""


class OutgoingMessage(NamedTuple):
    """A message that can be sent."""

    payload: tuple[bytes | memoryview | str, ...]
    """Pieces in order. A ``str`` among them is ASCII."""
    arrays: Sequence[Any]
    fds: Sequence[OwnedFd]


class PipePickler(_pickler.ArrayPickler):
    """Uses the reducers of ``ForkingPickler`` first."""

    STREAM_BYTES = _STREAM_BYTES
    SMALL_BYTES = 1 << 20
    """Up to this size a copy takes the receiver less time than a mapping."""
    LARGE_BYTES = 144 << 10

    REDUCERS = (*extra_reducers(), *_pickler.ArrayPickler.REDUCERS)


_pickler.REUSED.add(PipePickler)


def pack(obj: object) -> OutgoingMessage:
    """Raises what pickling raises."""
    payload = _pickler.encode_plain(obj, _STREAM_BYTES)
    if payload is not None:
        return OutgoingMessage(payload, (), ())
    if type(obj) is str and obj.isascii():
        return OutgoingMessage(*_pickler.encode_text(obj), ())
    if type(obj) is np.ndarray and not any(
        np.ndarray in reducers for reducers in PipePickler.REDUCERS
    ):
        array = _pickler.encode_array(obj, PipePickler.LARGE_BYTES)
        if array is not None:
            return OutgoingMessage(*array, ())
    return pack_by(obj, PipePickler)


def pack_by(obj: object, pickler: Callable[[], _pickler.ArrayPickler]) -> OutgoingMessage:
    """Raises what pickling raises."""
    name = object()
    try:
        _core.begin_message(name)
        payload, arrays = _pickler.encode(obj, pickler)
    finally:
        outgoing = _core.end_message(name)
    return OutgoingMessage(payload, arrays, () if outgoing is None else outgoing.close_up())


def pack_bytes(data: memoryview) -> OutgoingMessage:
    """A message of bytes."""
    if data.nbytes <= _STREAM_BYTES:
        is_whole = (
            isinstance(data.obj, bytes) and data.c_contiguous and data.nbytes == len(data.obj)
        )
        return OutgoingMessage(
            (_wire.BYTES, cast(bytes, data.obj) if is_whole else data), (), ()
        )  # bytes need no copy
    try:
        shared = _core.share(np.frombuffer(data, np.uint8), "C", None, False, 0o600)
    except _shortage.FULL as error:
        _shortage.tell(error)
        return OutgoingMessage((_wire.BYTES, data), (), ())
    return OutgoingMessage((_wire.BYTES,), [shared], ())


def send(
    pipe: _core.Pipe,
    message: OutgoingMessage,
    timeout: float | None = None,
    token: OwnedFd | None = None,
) -> None:
    """Sends a message, and before its other fds that of a token.

    Raises TimeoutError when there was no room in that time, BrokenPipeError when nobody can
    receive.
    """
    fds = message.fds if token is None else [token, *message.fds]
    numbers = [one.fileno() for one in fds] if fds else []
    pipe.send(message.payload, message.arrays, timeout, numbers)


def unpack(payload: bytes | memoryview, message: _core.Message, fds: Sequence[int] = ()) -> Any:
    """The object of a message; ``fds`` are the fds that were taken from it already."""
    fds = fds or message.take_fds()
    if not fds:
        return _unpack(payload, message)
    with IncomingFds(fds):
        return _unpack(payload, message)


def _unpack(payload: bytes | memoryview, message: _core.Message) -> Any:
    if payload[: len(_wire.BYTES)] == _wire.BYTES:
        return ReducingPickler.loads(_bytes(payload, message))
    return _pickler.decode(payload, message)


def unpack_bytes(payload: bytes | memoryview, message: _core.Message) -> bytes:
    """The bytes of a message; of an object, bytes that ``pickle.loads`` makes it of.

    Nothing is unpickled here: who asks for bytes need not trust who sent them.
    """
    if payload[: len(_wire.BYTES)] == _wire.BYTES:
        return message.read(0) if len(message) else bytes(payload[len(_wire.BYTES) :])
    if _pickler.is_itself(payload):
        return bytes(ReducingPickler.dumps(message.array(0, "r").copy("K")))
    memories = [message.read(index) for index in range(len(message))]
    return bytes(ReducingPickler.dumps(_Unopened(bytes(payload), memories)))


class _Unopened:
    """The message of an object, with the memory of its arrays."""

    def __init__(self, payload: bytes, memories: Sequence[bytes]) -> None:
        self._payload, self._memories = payload, memories

    def __reduce__(self) -> Any:
        return _open, (self._payload, self._memories)


def _open(payload: bytes, memories: Sequence[bytes]) -> Any:
    """Its object."""
    return _pickler.decode(payload, _Memories(memories))


class _Memories:
    """The memory of arrays that are no array alone."""

    def __init__(self, memories: Sequence[bytes]) -> None:
        self._memories = memories

    def array(self, _index: int, _mode: str) -> Any:
        raise ValueError("no message: its payload is that of an array alone")

    def memory(self, index: int, _mode: str) -> Any:
        return bytearray(self._memories[index])


def _bytes(payload: bytes | memoryview, message: _core.Message) -> memoryview:
    return (
        memoryview(payload)[len(_wire.BYTES) :] if len(message) == 0 else message.array(0, "r").data
    )
