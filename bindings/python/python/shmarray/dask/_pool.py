"""The memory that a worker keeps for the arrays that it sends next."""

import asyncio
import contextlib
import os
import re
import time
import typing
from pathlib import Path

from distributed import Worker

from .. import Error
from .._tasks import _internals

_VARIABLE = "SHMARRAY_POOL_BYTES"
_PART = 0.6
"""The part of a worker's memory limit that its own memory and the pool together may have, unless
Dask spills from a smaller part on.
"""
_STATUS = re.compile(rb"^Rss(?:Anon|File):\s+(\d+) kB$", re.MULTILINE)


_IDLE_SECONDS = 10.0
"""Memory that was not used for this long goes back to the system."""


class _State:
    most_bytes: typing.ClassVar[int | None] = None
    """How much memory the process and its pool may have. None if it has no limit."""
    next_trim: typing.ClassVar[float] = 0.0
    preparing: typing.ClassVar["asyncio.Task[object] | None"] = None


def attend(worker: Worker) -> None:
    """Lets the pool of this process have what the worker's limit leaves, unless the environment
    says how much. The pool counts as the worker's memory.
    """
    manager = worker.memory_manager
    if not manager.memory_limit or os.environ.get(_VARIABLE):
        return
    fractions = (manager.memory_target_fraction, manager.memory_spill_fraction)
    part = min([_PART, *(float(fraction) for fraction in fractions if fraction)])
    _State.most_bytes = int(manager.memory_limit * part)
    follow_limit()


def follow_limit() -> None:
    """Sets the limit of the pool to what the process leaves of its own at this moment. Releases
    unused memory if nothing is left.
    """
    if _State.most_bytes is None:
        return
    try:
        found = _STATUS.findall(Path("/proc/self/status").read_bytes())
    except OSError:
        return
    left = max(0, _State.most_bytes - sum(int(kilobytes) << 10 for kilobytes in found))
    _internals.limit_pool(left)
    if left == 0:
        _internals.trim_pool(all=True)


def tend() -> None:
    """Keeps the pool within its limit, and releases what is idle. To be called now and then."""
    follow_limit()
    now = time.monotonic()
    if now >= _State.next_trim:
        _State.next_trim = now + _IDLE_SECONDS
        _internals.free_idle()
        _internals.trim_pool(all=False)


def prepare(size: int) -> None:
    """Reserves memory for another array of so many bytes, in a thread, unless some is free. So the
    next result is copied to pages that exist, also if this one is kept. To be called in an event
    loop.
    """
    if _State.preparing is None or _State.preparing.done():
        _State.preparing = asyncio.create_task(asyncio.to_thread(_prepare, size))


def _prepare(size: int) -> None:
    with contextlib.suppress(*_internals.FULL, Error):  # the next array reports it
        _internals.prepare_pool(size)
