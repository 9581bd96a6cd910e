"""Says which shared memory this process has, so that a peer can compare it with its own."""

import logging
import typing

from .. import __version__
from .._tasks import _internals
from ._config import Settings

logger = logging.getLogger("shmarray.dask")

PROTOCOL = 1
"""The version of DASK.md. Peers of another version get bytes."""


class _State:
    withdrawn: typing.ClassVar[bool] = False


def identity() -> dict[str, typing.Any] | None:
    """Returns what two processes have in common if each can attach the other's arrays. Returns None
    if this process has no shared memory.
    """
    if _State.withdrawn or not Settings.is_enabled:
        return None
    try:
        boot, device, inode, user = _internals.memory_identity()
    except OSError:
        return None
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "boot": boot,
        "directory": f"{device}:{inode}",
        "user": user,
    }


def withdraw(error: BaseException) -> None:
    """Makes new comms of this process carry bytes, after a handle of a living peer could not be
    attached. Otherwise Dask would try again for ever.
    """
    if not _State.withdrawn:
        _State.withdrawn = True
        logger.warning(
            "An array of another process on this host could not be attached. From now on this "
            "process sends and receives bytes: %s",
            error,
        )
