"""Pickles objects for other processes as the standard module does. Fds travel in the message.

The reducers that are registered with the standard ``ForkingPickler`` apply here, too. Those that
are registered here apply only here.
"""

from multiprocessing import reduction
from multiprocessing.reduction import HAVE_SEND_HANDLE as HAVE_SEND_HANDLE
from multiprocessing.reduction import AbstractReducer as AbstractReducer
from multiprocessing.reduction import recv_handle, recvfds, send_handle, sendfds
from typing import TYPE_CHECKING, Any

from .._tasks._ipc._reducers import DupFd, ReducingPickler

__all__ = [
    "DupFd",
    "ForkingPickler",
    "dump",
    "recv_handle",
    "recvfds",
    "register",
    "send_handle",
    "sendfds",
]


class ForkingPickler(ReducingPickler):
    """The standard ``ForkingPickler`` with the reducers of this module."""


register = ForkingPickler.register


def dump(obj: Any, file: Any, protocol: int | None = None) -> None:
    """Pickles as ``pickle.dump``, with the reducers of this module."""
    ForkingPickler(file, protocol).dump(obj)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Returns any other name of the standard module."""
        return getattr(reduction, name)
