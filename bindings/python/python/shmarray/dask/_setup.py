"""Registers this package with Dask in a process, and attends to the servers there."""

import asyncio
import logging
from typing import Any

from distributed import Nanny, Scheduler, Worker
from distributed.core import Status
from distributed.diagnostics import plugin as dask_plugin
from distributed.protocol.pickle import dumps

from .. import use_allocator
from .._tasks import _internals
from . import _client, _config, _families, _handshakes, _memory, _pool, _worker

logger = logging.getLogger("shmarray.dask")


def register() -> None:
    """Makes Dask send arrays by handle between processes of this host, from this process and from
    the workers that it starts.

    Call it before a ``Client`` or a ``LocalCluster`` is made. Workers, nannies and schedulers that
    are started by themselves get it by ``dask worker --preload shmarray.dask``, by the keys
    ``distributed.worker.preload`` and ``distributed.nanny.preload`` of Dask's configuration, or
    while they run by ``client.register_plugin(shmarray.dask.WorkerPlugin())``. A second call reads
    the configuration again.

    Raises ValueError for a value of ``distributed.shmarray.min-size`` that is no size.

    >>> import dask.array, distributed, shmarray.dask
    >>> shmarray.dask.register()
    >>> cluster = distributed.LocalCluster(n_workers=2, dashboard_address=None)  # doctest: +SKIP
    >>> with distributed.Client(cluster):  # doctest: +SKIP
    ...     dask.array.ones((4000, 4000)).sum().compute()
    16000000.0
    """
    _config.load()
    _config.preload()
    _families.install()
    _handshakes.install()
    _memory.install()
    _client.install()


class WorkerPlugin(dask_plugin.WorkerPlugin):
    """Registers this package on running workers, and on those that join later:
    ``client.register_plugin(shmarray.dask.WorkerPlugin())``.

    Comms that exist already carry bytes as before; Dask closes most of them when they are idle.
    """

    name = "shmarray"
    idempotent = True

    async def setup(self, worker: Worker) -> None:
        """Called in the worker's process."""
        await dask_setup(worker)


class SchedulerPlugin(dask_plugin.SchedulerPlugin):
    """Registers this package on a running scheduler, so that clients on its host know that they
    are: ``client.register_plugin(shmarray.dask.SchedulerPlugin())``.
    """

    name = "shmarray"
    idempotent = True

    async def start(self, scheduler: Scheduler) -> None:
        """Called in the scheduler's process."""
        await dask_setup(scheduler)


class NannyPlugin(dask_plugin.NannyPlugin):
    """Makes a nanny count shared memory once. Workers send it to their nannies."""

    name = "shmarray"
    idempotent = True

    def setup(self, nanny: Nanny) -> None:  # noqa: ARG002 (it applies to the process)
        """Called in the nanny's process."""
        register()


async def dask_setup(server: Any) -> None:
    """Registers this package in a server's process. Dask calls this for ``--preload``."""
    register()
    if isinstance(server, Worker):
        _worker.attend(server)
        if _config.Settings.uses_allocator:
            use_allocator()
        if server.nanny:
            _internals.leave_family()
            _pool.attend(server)
            # A nanny answers only when it has started, which its worker does first.
            telling = asyncio.create_task(_tell_nanny(server))
            _tellings.add(telling)
            telling.add_done_callback(_tellings.discard)


_tellings: set[asyncio.Task[None]] = set()
"""The event loop itself does not keep its tasks."""


async def _tell_nanny(worker: Worker) -> None:
    """Makes the nanny measure memory as the worker does: ``--preload`` reaches only workers."""
    plugin = NannyPlugin()
    address = str(worker.nanny)
    nanny = worker.rpc(address)
    try:
        await nanny.plugin_add(plugin=dumps(plugin), name=plugin.name)
    except OSError as error:
        if worker.status in (Status.init, Status.running, Status.paused):
            logger.warning("The nanny counts shared memory as the worker's own: %s", error)
    finally:
        await nanny.close_rpc()
