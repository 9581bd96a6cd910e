"""Open-file-description locks on bytes:

the kernel lets them go with the last descriptor of their open file.
"""

import fcntl
import os
import struct
from typing import NamedTuple

__all__ = ["Range", "free_all", "lock", "locked", "wait_for"]

FREE, SHARED, EXCLUSIVE = fcntl.F_UNLCK, fcntl.F_RDLCK, fcntl.F_WRLCK

_FLOCK = struct.Struct("@hhqqi4x")
"""What the kernel calls ``struct flock``: type, whence, start, length, pid."""
_TO_THE_END = 0


class Range(NamedTuple):
    """Bytes from ``first`` to before ``end``."""

    first: int
    end: int


def lock(fd: int, kind: int, byte: int) -> None:
    """Locks a byte, or makes its lock one of another kind.

    Raises BlockingIOError when another's forbids it.
    """
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, byte, 1, 0))


def wait_for(fd: int, byte: int) -> None:
    """Until nobody has it locked. Other threads run meanwhile."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(EXCLUSIVE, os.SEEK_SET, byte, 1, 0))
    lock(fd, FREE, byte)


def free_all(fd: int) -> None:
    """Lets all locks go, whoever else has a descriptor of this open file."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(FREE, os.SEEK_SET, 0, _TO_THE_END, 0))


def locked(fd: int, asked: Range) -> Range | None:
    """Bytes among these that somebody else has locked, if anybody has any."""
    flock = _FLOCK.pack(EXCLUSIVE, os.SEEK_SET, asked.first, asked.end - asked.first, 0)
    kind, _, first, count, _ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, flock))
    if kind == FREE:
        return None
    return Range(
        max(first, asked.first),
        asked.end if count == _TO_THE_END else min(first + count, asked.end),
    )
