"""The family of this process, which keeps messages whose way nobody knows, is that of those it
starts.

A process is in its family from its first use of shared memory on. Until then what keeps the family
for a process that is being started is a descriptor, which is sent to it with its arguments.
"""

import contextlib
import os
from typing import Any

from .. import _by_handle, _core
from ._descriptors import Descriptor
from .reduction import DupFd

__all__ = ["Keeper", "environment", "keeper", "say", "take_over"]

_VARIABLE, _PREFIX = "SHMARRAY_FAMILY", "SHMARRAY_"


class _Process:
    """What is known of this process, and of those that were forked from it."""

    family: int | None = None
    keeper: "Keeper | None" = None
    """What it was sent by the one that started it."""


def say() -> None:
    """Has the children that are started from now on be of this process's family, and this process
    in it.
    """
    if _Process.family is None:
        with contextlib.suppress(
            OSError, MemoryError
        ):  # without shared memory there are no messages to keep
            _Process.family, fd = _core.family()
            os.close(fd)
    if _Process.family is not None:
        os.environ[_VARIABLE] = str(_Process.family)


class Keeper(Descriptor):
    """Keeps the family: while it is under way, and in the process where it arrives."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _arrive, (DupFd(self._fd),)


def _arrive(descriptor: Any) -> Keeper:
    _Process.keeper = Keeper(descriptor.detach())
    return _Process.keeper


def keeper() -> Keeper | None:
    """For a process that is being started."""
    with contextlib.suppress(OSError):
        return None if _Process.family is None else Keeper(_core.family()[1])
    return None


def environment() -> dict[str, str]:
    """What a child of a server must be told, which has the environment of the server's start."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}


def take_over(told: dict[str, str]) -> None:
    """Makes that the environment of this process, which has not used shared memory yet."""
    for name in environment().keys() - told.keys():
        del os.environ[name]
    os.environ.update(told)
    _by_handle.follow_parent()
