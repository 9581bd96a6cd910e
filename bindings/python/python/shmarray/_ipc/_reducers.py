"""How objects are pickled for other processes: as the standard module does, but fds travel in the
message.

What is registered with the standard ``ForkingPickler`` counts here, too; what is registered here
counts only here.
"""

import copyreg
import socket
from collections.abc import Callable
from multiprocessing import connection, reduction
from typing import TYPE_CHECKING, Any, ClassVar

from ._fds import travelling_fd

__all__ = ["DupFd", "ReducingPickler", "extra_reducers"]


class ReducingPickler(reduction.ForkingPickler):
    """The standard one, with the reducers of this module."""

    _extra_reducers: ClassVar[dict[type, Callable[[Any], Any]]] = {}

    if not TYPE_CHECKING:  # it takes what the standard one takes

        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self.dispatch_table = reducers()


def reducers() -> dict[type, Callable[[Any], Any]]:
    """A new ``dispatch_table`` of all that is registered now."""
    ours, standard = extra_reducers()
    return {**copyreg.dispatch_table, **standard, **ours}


def extra_reducers() -> tuple[dict[type, Callable[[Any], Any]], dict[type, Callable[[Any], Any]]]:
    """The reducers registered here, and those of the standard ``ForkingPickler``:

    live, and the first wins.
    """
    return ReducingPickler._extra_reducers, reduction.ForkingPickler._extra_reducers  # type: ignore[attr-defined]


def DupFd(fd: int) -> Any:  # noqa: N802 (the standard's name)
    """What stands for a fd in a pickle; its ``detach`` gives the fd where that is
    unpickled.
    """
    return travelling_fd(fd) or reduction.DupFd(fd)


def _reduce_socket(one: socket.socket) -> Any:
    rebuild = reduction._rebuild_socket  # type: ignore[attr-defined]
    return rebuild, (DupFd(one.fileno()), one.family, one.type, one.proto)


def _reduce_connection(one: connection.Connection) -> Any:
    rebuild = connection.rebuild_connection  # type: ignore[attr-defined]
    return rebuild, (DupFd(one.fileno()), one.readable, one.writable)


ReducingPickler.register(socket.socket, _reduce_socket)
ReducingPickler.register(connection.Connection, _reduce_connection)
