"""Clients that ask workers themselves for results, if they are on the scheduler's host.

A scheduler forwards what it does not unpack, to any host. So what goes through it goes as bytes.
"""

import functools
import typing
from typing import Any

from distributed import Client

from . import _handshakes


class _State:
    is_installed: typing.ClassVar[bool] = False


def install() -> None:
    """Sets ``direct_to_workers`` of each client that connects from now on, where neither the
    program nor Dask's configuration says anything, and the client has the scheduler's address or
    its shared memory.
    """
    if _State.is_installed:
        return
    _State.is_installed = True
    standard = Client._ensure_connected

    @functools.wraps(standard)
    async def ensure_connected(self: Client, *arguments: Any, **options: Any) -> None:
        await standard(self, *arguments, **options)
        if self.direct_to_workers is None and _is_near(self):
            self.direct_to_workers = True

    Client._ensure_connected = ensure_connected  # type: ignore[method-assign]


def _is_near(client: Client) -> bool:
    comm = client.scheduler_comm and client.scheduler_comm.comm
    if not comm or comm.closed():
        return False
    return _handshakes.is_same_memory(comm) or comm.same_host
