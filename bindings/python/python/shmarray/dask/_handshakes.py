"""Adds this host's identity to the handshake of Dask's comms, and follows what each comm sends."""

import functools
import itertools
import logging
import typing
import weakref
from collections.abc import Awaitable, Mapping
from typing import Any

from distributed.comm.core import Comm
from distributed.comm.tcp import TCP
from distributed.comm.ws import WS, WSHandlerComm

from .. import __version__
from . import _host
from ._under_way import UnderWay

logger = logging.getLogger("shmarray.dask")

KEY = "shmarray"
"""The key of a handshake's entry."""
_COMPARED = ("protocol", "version", "boot", "directory", "user")


class _State:
    is_installed: typing.ClassVar[bool] = False
    were_told: typing.ClassVar[set[str]] = set()


_numbers = itertools.count(1)
_of_comm: "weakref.WeakKeyDictionary[Comm, UnderWay]" = weakref.WeakKeyDictionary()
_of_number: "weakref.WeakValueDictionary[int, UnderWay]" = weakref.WeakValueDictionary()


def install() -> None:
    """Changes the comms that carry bytes: TCP, TLS and WebSocket. Others keep Dask's ways."""
    if _State.is_installed:
        return
    _State.is_installed = True
    for kind in (TCP, WS, WSHandlerComm):
        _follow(kind)


def reached(context: Mapping[str, Any] | None) -> UnderWay | None:
    """Returns the message that is being written, if its receiver can attach this process's arrays.

    ``context`` is what Dask gives to its serializers: both sides' handshakes. Without one the bytes
    are for a file.
    """
    if not context:
        return None
    ours, theirs = (_entry(context.get(side)) for side in ("sender", "recipient"))
    if not (ours and theirs) or theirs.get("forwards") or not _is_same(ours, theirs):
        return None
    return _of_number.get(ours.get("comm", 0))


def tell_why(context: Mapping[str, Any]) -> None:
    """Says once if a receiver gets bytes because it has no or another version of this package."""
    theirs = _entry(context["recipient"])
    if not theirs:
        _tell("does not use shmarray.dask")
    elif theirs.get("version") != __version__:
        _tell(f"has another version of it, {theirs.get('version')}")


def is_same_memory(comm: Comm) -> bool:
    """Returns whether the process at the other end has the same shared memory."""
    ours = _entry(comm.local_info)
    theirs = _entry(comm.remote_info)
    return bool(ours and theirs) and _is_same(ours, theirs)


def reaches(comm: Comm) -> bool:
    """Returns whether arrays go through this comm by handle."""
    return reached({"sender": comm.local_info, "recipient": comm.remote_info}) is not None


def _is_same(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return all(ours.get(key) == theirs.get(key) for key in _COMPARED)


def _entry(handshake: Any) -> Mapping[str, Any]:
    entry = handshake.get(KEY) if isinstance(handshake, Mapping) else None
    return entry if isinstance(entry, Mapping) else {}


def _tell(how: str) -> None:
    if how not in _State.were_told:
        _State.were_told.add(how)
        logger.warning("A peer %s: arrays go to it as bytes, as without shmarray.dask.", how)


def _follow(kind: type[Comm]) -> None:
    """Replaces the methods of a class of comms."""
    handshake_info = kind.handshake_info
    read = kind.read
    write = kind.write
    close = kind.close
    abort = kind.abort

    @functools.wraps(handshake_info)
    def own_handshake_info(self: Comm) -> dict[str, Any]:
        info = handshake_info(self)
        if (identity := _host.identity()) is not None:
            # A scheduler leaves data serialized, and forwards it to anybody.
            forwards = not self.deserialize
            info[KEY] = {**identity, "forwards": forwards, "comm": _number(self)}
        return info

    @functools.wraps(read)
    def own_read(self: Comm, *arguments: Any, **options: Any) -> Awaitable[Any]:
        reading = read(self, *arguments, **options)
        under_way = _of_comm.get(self)
        return reading if under_way is None else _was_read(reading, under_way)

    @functools.wraps(write)
    def own_write(self: Comm, *arguments: Any, **options: Any) -> Awaitable[Any]:
        under_way = _of_comm.get(self)
        if under_way is None:
            return write(self, *arguments, **options)
        under_way.begin()
        return _written(write(self, *arguments, **options), under_way)

    @functools.wraps(close)
    def own_close(self: Comm) -> Awaitable[None]:
        _end(self)
        return close(self)

    @functools.wraps(abort)
    def own_abort(self: Comm) -> None:
        _end(self)
        abort(self)

    for method in (own_handshake_info, own_read, own_write, own_close, own_abort):
        setattr(kind, method.__name__, method)


async def _written(writing: Awaitable[Any], under_way: UnderWay) -> Any:
    try:
        return await writing
    except BaseException:
        under_way.end()
        raise


async def _was_read(reading: Awaitable[Any], under_way: UnderWay) -> Any:
    message = await reading
    under_way.answered()
    return message


def _number(comm: Comm) -> int:
    """Returns the number by which the context of a message leads to its comm."""
    under_way = UnderWay()
    number = next(_numbers)
    _of_comm[comm] = under_way
    _of_number[number] = under_way
    weakref.finalize(comm, under_way.end).atexit = False
    return number


def _end(comm: Comm) -> None:
    if (under_way := _of_comm.get(comm)) is not None:
        under_way.end()
