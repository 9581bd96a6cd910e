"""Objects and bytes as messages of core's pipes: arrays by handle, descriptors beside them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from .. import _core, _shortage
from .._codec import _pickler
from ._fds import Arrived, Owned
from ._reducers import ForkingPickler, extra_reducers

__all__ = ["Packed", "Pickler", "pack", "pack_by", "pack_bytes", "send", "unpack", "unpack_bytes"]

_BYTES = b"\xff" * 8
"""How a message of bytes begins. No pickled object does."""
_STREAM_BYTES = 156 << 10
"""A stream of this size and what goes with it fit into one packet of the socket, which is faster than shared memory."""


class Packed(NamedTuple):
    """A message that can be sent."""

    payload: tuple[bytes | memoryview | str, ...]
    """Pieces in order. A ``str`` among them is ASCII."""
    arrays: Sequence[Any]
    descriptors: Sequence[Owned]


class Pickler(_pickler.Pickler):
    """Uses the reducers of ``ForkingPickler`` first."""

    STREAM_BYTES = _STREAM_BYTES
    SMALL_BYTES = 1 << 20
    """Up to this size a copy takes the receiver less time than a mapping."""
    LARGE_BYTES = 144 << 10

    REDUCERS = (*extra_reducers(), *_pickler.Pickler.REDUCERS)


_pickler.REUSED.add(Pickler)


def pack(obj: object) -> Packed:
    """Raises what pickling raises."""
    payload = _pickler.payload_of(obj, _STREAM_BYTES)
    if payload is not None:
        return Packed(payload, (), ())
    if type(obj) is str and obj.isascii():
        return Packed(*_pickler.pack_text(obj), ())
    if type(obj) is np.ndarray and not any(np.ndarray in reducers for reducers in Pickler.REDUCERS):
        array = _pickler.pack_array(obj, Pickler.LARGE_BYTES)
        if array is not None:
            return Packed(*array, ())
    return pack_by(obj, Pickler)


def pack_by(obj: object, pickler: Callable[[], _pickler.Pickler]) -> Packed:
    """Raises what pickling raises."""
    name = object()
    try:
        _core.begin_message(name)
        payload, arrays = _pickler.pack(obj, pickler)
    finally:
        luggage = _core.end_message(name)
    return Packed(payload, arrays, () if luggage is None else luggage.close_up())


def pack_bytes(data: memoryview) -> Packed:
    """A message of bytes."""
    if data.nbytes <= _STREAM_BYTES:
        is_whole = (
            isinstance(data.obj, bytes) and data.c_contiguous and data.nbytes == len(data.obj)
        )
        return Packed(
            (_BYTES, cast(bytes, data.obj) if is_whole else data), (), ()
        )  # bytes need no copy
    try:
        shared = _core.share(np.frombuffer(data, np.uint8), "C", None, False, 0o600)
    except _shortage.FULL as error:
        _shortage.tell(error)
        return Packed((_BYTES, data), (), ())
    return Packed((_BYTES,), [shared], ())


def send(
    pipe: _core.Pipe, message: Packed, timeout: float | None = None, token: Owned | None = None
) -> None:
    """Sends a message, and before its other descriptors that of a token.

    Raises TimeoutError when there was no room in that time, BrokenPipeError when nobody can
    receive.
    """
    descriptors = message.descriptors if token is None else [token, *message.descriptors]
    fds = [one.fileno() for one in descriptors] if descriptors else []
    pipe.send(message.payload, message.arrays, timeout, fds)


def unpack(payload: bytes | memoryview, message: _core.Message, fds: Sequence[int] = ()) -> Any:
    """The object of a message; ``fds`` are the descriptors that were taken from it already."""
    fds = fds or message.take_descriptors()
    if not fds:
        return _unpack(payload, message)
    with Arrived(fds):
        return _unpack(payload, message)


def _unpack(payload: bytes | memoryview, message: _core.Message) -> Any:
    if payload[:8] == _BYTES:
        return ForkingPickler.loads(_bytes(payload, message))
    return _pickler.unpack(payload, message)


def unpack_bytes(payload: bytes | memoryview, message: _core.Message) -> bytes:
    """The bytes of a message; of an object, bytes that ``pickle.loads`` makes it of.

    Nothing is unpickled here: who asks for bytes need not trust who sent them.
    """
    if payload[:8] == _BYTES:
        return message.read(0) if len(message) else bytes(payload[8:])
    if _pickler.is_itself(payload):
        return bytes(ForkingPickler.dumps(message.array(0, "r").copy("K")))
    memories = [message.read(index) for index in range(len(message))]
    return bytes(ForkingPickler.dumps(_Unopened(bytes(payload), memories)))


class _Unopened:
    """The message of an object, with the memory of its arrays."""

    def __init__(self, payload: bytes, memories: Sequence[bytes]) -> None:
        self._payload, self._memories = payload, memories

    def __reduce__(self) -> Any:
        return _open, (self._payload, self._memories)


def _open(payload: bytes, memories: Sequence[bytes]) -> Any:
    """Its object."""
    return _pickler.unpack(payload, _Memories(memories))


class _Memories:
    """The memory of arrays that are no array alone."""

    def __init__(self, memories: Sequence[bytes]) -> None:
        self._memories = memories

    def array(self, _index: int, _mode: str) -> Any:
        raise ValueError("no message: its payload is that of an array alone")

    def memory(self, index: int, _mode: str) -> Any:
        return bytearray(self._memories[index])


def _bytes(payload: bytes | memoryview, message: _core.Message) -> memoryview:
    return memoryview(payload)[8:] if len(message) == 0 else message.array(0, "r").data
