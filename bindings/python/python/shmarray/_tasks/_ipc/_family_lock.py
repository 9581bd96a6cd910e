"""The family lock: the fd that keeps a child in its parent's family until it uses shared memory.

A process joins a family at its first use of shared memory. A process that is being started is sent
an fd with its arguments that holds a lock of the family until then.
"""

import contextlib
from typing import Any

from .. import _internals
from ._fds import Fd
from ._reducers import DupFd

__all__ = ["FamilyLock", "take"]


class _Process:
    """The state of this process. Forked children inherit it."""

    family_lock: "FamilyLock | None" = None
    """The lock that the parent sent."""


class FamilyLock(Fd):
    """An fd that holds the family: while it is under way, and in the process that receives it."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _arrive, (DupFd(self._fd),)


def _arrive(fd: Any) -> FamilyLock:
    _Process.family_lock = FamilyLock(fd.detach())
    return _Process.family_lock


def take() -> FamilyLock | None:
    """Returns a family lock for a process that is being started."""
    with contextlib.suppress(OSError):
        fd = _internals.hold_family()
        return None if fd is None else FamilyLock(fd)
    return None
