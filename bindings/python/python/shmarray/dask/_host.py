"""Says which shared memory this process has, so that a peer can compare it with its own."""

import contextlib
import logging
import os
import typing
from pathlib import Path

from .. import __version__
from ._config import Settings

logger = logging.getLogger("shmarray.dask")

PROTOCOL = 1
"""The version of DASK.md. Peers of another version get bytes."""


class _State:
    withdrawn: typing.ClassVar[bool] = False
    boot: typing.ClassVar[str | None] = None


def identity() -> dict[str, typing.Any] | None:
    """Returns what two processes have in common if each can attach the other's arrays. Returns None
    if this process has no shared memory.

    An address says nothing here: two containers of one host may have one, or different shared
    memory. A mounted file system has a device number of its own within a kernel, and the kernel has
    a boot id.
    """
    if _State.withdrawn or not Settings.is_enabled:
        return None
    boot = _boot_id()
    try:
        directory = os.stat(os.environ.get("SHMARRAY_DIR") or "/dev/shm")
    except OSError:
        return None
    if boot is None:
        return None
    return {
        "protocol": PROTOCOL,
        "version": __version__,
        "boot": boot,
        "directory": f"{directory.st_dev}:{directory.st_ino}",
        "user": os.geteuid(),
    }


def _boot_id() -> str | None:
    if _State.boot is None:
        with contextlib.suppress(OSError):
            _State.boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return _State.boot


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
