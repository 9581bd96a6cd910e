"""Reducers for objects that go to other processes. Fds travel in the message.

The reducers that are registered with the standard ``ForkingPickler`` apply here, too. Those that
are registered here apply only here.
"""

import copyreg
import socket
from collections.abc import Callable
from multiprocessing import connection, reduction
from typing import TYPE_CHECKING, Any, ClassVar

from ... import Channel
from .. import _internals
from ._fds import travelling_fd

__all__ = ["DupFd", "ReducingPickler", "extra_reducers"]


class ReducingPickler(reduction.ForkingPickler):
    """The standard ``ForkingPickler`` with the reducers of this module."""

    _extra_reducers: ClassVar[dict[type, Callable[[Any], Any]]] = {}

    if not TYPE_CHECKING:  # it takes the arguments of the standard one

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.dispatch_table = reducers()


def reducers() -> dict[type, Callable[[Any], Any]]:
    """Returns a new ``dispatch_table`` of all reducers that are registered now."""
    ours, standard = extra_reducers()
    return {**copyreg.dispatch_table, **standard, **ours}


def extra_reducers() -> tuple[dict[type, Callable[[Any], Any]], dict[type, Callable[[Any], Any]]]:
    """Returns the reducers registered here, and those of the standard ``ForkingPickler``. Both
    tables are live. The first one wins.
    """
    standard = reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]
    return ReducingPickler._extra_reducers, standard


def DupFd(fd: int) -> Any:  # noqa: N802 (the standard's name)
    """Returns what stands for an fd in a pickle. Its ``detach`` gives the fd to whoever unpickles
    it.
    """
    return travelling_fd(fd) or reduction.DupFd(fd)


def _reduce_socket(one: socket.socket) -> Any:
    rebuild = reduction._rebuild_socket  # type: ignore[attr-defined]
    return rebuild, (DupFd(one.fileno()), one.family, one.type, one.proto)


def _reduce_connection(one: connection.Connection) -> Any:
    rebuild = connection.rebuild_connection  # type: ignore[attr-defined]
    return rebuild, (DupFd(one.fileno()), one.readable, one.writable)


def _reduce_channel(one: Channel) -> Any:
    return _internals.reduce_channel(one, DupFd)


ReducingPickler.register(socket.socket, _reduce_socket)
ReducingPickler.register(connection.Connection, _reduce_connection)
ReducingPickler.register(Channel, _reduce_channel)
