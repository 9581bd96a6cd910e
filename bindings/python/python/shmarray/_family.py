"""The family of this process, and the variable by which the processes that it starts join it."""

import contextlib
import os

from . import _core

VARIABLE = "SHMARRAY_FAMILY"

number: int | None = None
"""The number of the family, once `announce_family` was called. Forked children inherit it."""


def announce_family() -> None:
    """Gives this process a family, and makes the programs that it starts from now on join it, by
    a variable in their environment.
    """
    global number
    if number is None:
        # Without shared memory there are no messages to hold.
        with contextlib.suppress(OSError, MemoryError):
            number, fd = _core.family()
            os.close(fd)
    if number is not None:
        os.environ[VARIABLE] = str(number)


def hold_family() -> int | None:
    """Returns a new fd that holds this process's family, or None if it has not announced one."""
    return None if number is None else _core.family()[1]
