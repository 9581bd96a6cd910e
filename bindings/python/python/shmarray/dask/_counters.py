"""Counts what this process has sent and received."""

import threading
from typing import NamedTuple


class Counters(NamedTuple):
    """Bytes of large buffers that this process has exchanged with others through Dask's comms.

    Large are those of at least ``distributed.shmarray.min-size``, and of a quarter of it if they
    were in shared memory already.
    """

    sent_by_handle_bytes: int = 0
    """Sent as handles."""
    received_by_handle_bytes: int = 0
    """Received as handles."""
    sent_by_wire_bytes: int = 0
    """Sent by Dask's comm, because the receiver does not have the same shared memory or does not
    use this package, or because shared memory was full.
    """
    found_no_room_bytes: int = 0
    """The part of them for which shared memory was full."""


_lock = threading.Lock()
_counts = dict.fromkeys(Counters._fields, 0)


def count(name: str, size: int) -> None:
    """Adds to a counter. Any thread may call this."""
    with _lock:
        _counts[name] += size


def counters() -> Counters:
    """Returns the counters of this process.

    A worker's are also in its metrics, ``worker.metrics["shmarray"]``, and so in
    ``client.scheduler_info()["workers"][address]["metrics"]["shmarray"]``.

    >>> import shmarray.dask
    >>> shmarray.dask.counters().sent_by_handle_bytes
    0
    """
    with _lock:
        return Counters(**_counts)
