"""The family's keeper: what has a process that is being started in its parent's family.

A process is in its family from its first use of shared memory on. Until then what keeps the family
for a process that is being started is an fd, which is sent to it with its arguments.
"""

import contextlib
from typing import Any

from .. import _core, _family
from ._fds import Fd
from ._reducers import DupFd

__all__ = ["FamilyKeeper", "keeper"]


class _Process:
    """What is known of this process, and of those that were forked from it."""

    keeper: "FamilyKeeper | None" = None
    """What it was sent by the one that started it."""


class FamilyKeeper(Fd):
    """Keeps the family: while it is under way, and in the process where it arrives."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return _arrive, (DupFd(self._fd),)


def _arrive(fd: Any) -> FamilyKeeper:
    _Process.keeper = FamilyKeeper(fd.detach())
    return _Process.keeper


def keeper() -> FamilyKeeper | None:
    """For a process that is being started."""
    with contextlib.suppress(OSError):
        return None if _family.number is None else FamilyKeeper(_core.family()[1])
    return None
