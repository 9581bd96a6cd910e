"""The family of this process, as the environment says it to the processes that it starts."""

import contextlib
import os

from . import _core

VARIABLE = "SHMARRAY_FAMILY"

number: int | None = None
"""That of this process, and of those that were forked from it, once `say` was called."""


def say() -> None:
    """Has the children that are started from now on be of this process's family, and this process
    in it.
    """
    global number
    if number is None:
        with contextlib.suppress(
            OSError, MemoryError
        ):  # without shared memory there are no messages to keep
            number, fd = _core.family()
            os.close(fd)
    if number is not None:
        os.environ[VARIABLE] = str(number)
