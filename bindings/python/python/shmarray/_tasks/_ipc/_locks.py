"""Open-file-description locks on bytes. The kernel releases them with the last fd of the open
file.
"""

import fcntl
import os
import struct

__all__ = ["is_locked", "lock"]

_FLOCK = struct.Struct("@hhqqi4x")
"""The kernel's ``struct flock``: type, whence, start, length, pid."""


def lock(fd: int, byte: int) -> bool:
    """Locks a byte exclusively. Returns False if another open file has it locked."""
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0))
    except BlockingIOError:
        return False
    return True


def is_locked(fd: int, byte: int) -> bool:
    """Returns whether another open file has a byte locked."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
    return bool(_FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)
