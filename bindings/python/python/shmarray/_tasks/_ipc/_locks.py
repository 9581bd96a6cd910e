"""Open-file-description locks on bytes. The kernel releases them with the last fd of the open
file.
"""

import fcntl
import os
import struct
from typing import NamedTuple

__all__ = ["Range", "free_all", "lock", "locked", "wait_for"]

FREE = fcntl.F_UNLCK
SHARED = fcntl.F_RDLCK
EXCLUSIVE = fcntl.F_WRLCK

_FLOCK = struct.Struct("@hhqqi4x")
"""The kernel's ``struct flock``: type, whence, start, length, pid."""
_TO_THE_END = 0


class Range(NamedTuple):
    """The bytes from ``first`` up to ``end``, without ``end``."""

    first: int
    end: int


def lock(fd: int, kind: int, byte: int) -> None:
    """Locks a byte, or changes the kind of its lock. Raises BlockingIOError if another lock
    conflicts.
    """
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))


def wait_for(fd: int, byte: int) -> None:
    """Waits until nobody has the byte locked. Other threads run meanwhile."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(EXCLUSIVE, os.SEEK_SET, byte, 1, 0))
    lock(fd, FREE, byte)


def free_all(fd: int) -> None:
    """Releases all locks, even if other processes have an fd of this open file."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(FREE, os.SEEK_SET, 0, _TO_THE_END, 0))


def locked(fd: int, asked: Range) -> Range | None:
    """Returns bytes of the range that somebody else has locked, or None."""
    flock = _FLOCK.pack(EXCLUSIVE, os.SEEK_SET, asked.first, asked.end - asked.first, 0)
    kind, _, first, count, _ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, flock))
    if kind == FREE:
        return None
    return Range(
        max(first, asked.first),
        asked.end if count == _TO_THE_END else min(first + count, asked.end),
    )
