"""Dask with arrays by handle within a host, and by Dask's own comms between hosts.

>>> import distributed, shmarray.dask
>>> shmarray.dask.register()
>>> client = distributed.Client(n_workers=2, dashboard_address=None)  # doctest: +SKIP

Nothing else changes in a program. Where the sender and the receiver of a message have the same
shared memory, the large buffers in it, of NumPy, xarray, pandas and whatever else gives its memory
to Dask's serializers, are in shared memory, and the message has their handles. Elsewhere Dask sends
bytes as without this package.

Data are immutable in Dask. An array that others may have arrives read-only, and a store into it
raises NumPy's usual ValueError. An array that was copied for its receiver alone is writeable.

For a cluster of other processes: ``dask worker --preload shmarray.dask``, or ``WorkerPlugin``.

Dask's configuration has two keys, also as environment variables:

* ``distributed.shmarray.min-size`` (``DASK_DISTRIBUTED__SHMARRAY__MIN_SIZE``), "1 MiB": smaller
  private buffers go as bytes. Of buffers in shared memory those below a quarter of it do.
* ``distributed.shmarray.enabled`` (``DASK_DISTRIBUTED__SHMARRAY__ENABLED``), true.

``counters()`` says what went by handle and what by wire.
"""

from .. import _replaced as _replaced
from ._counters import Counters, counters
from ._setup import NannyPlugin, SchedulerPlugin, WorkerPlugin, dask_setup, register

__all__ = [
    "Counters",
    "NannyPlugin",
    "SchedulerPlugin",
    "WorkerPlugin",
    "counters",
    "dask_setup",
    "register",
]
