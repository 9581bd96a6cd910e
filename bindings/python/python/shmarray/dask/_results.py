"""Moves a worker's results into shared memory when somebody asks for them first."""

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any

import numpy as np

from .. import is_shared
from .._tasks import _internals
from . import _frames, _handshakes, _pool
from ._config import Settings


class Results:
    """The data of a worker, whose private arrays are replaced by shared ones before they are sent.

    So an array is copied once, for however many receivers, and the worker has no second copy. Data
    are immutable in Dask; from here on others may have these, so they are read-only.
    """

    def __init__(self, data: MutableMapping[Any, Any]) -> None:
        self._data = data
        self._in_work: dict[Any, asyncio.Task[None]] = {}

    async def share(self, keys: Collection[Any]) -> None:
        """Shares those that are arrays in memory and large enough. Others are left as they are."""
        for key in keys:
            value = self._value(key)
            if type(value) is not np.ndarray or value.nbytes < Settings.min_shared_bytes:
                continue
            if value.base is not None and is_shared(value):
                self._protect(key, value)
            elif value.flags.forc and _frames.can_be_copied(value):
                is_alone = sys.getrefcount(value) <= _REFERENCES
                if not (is_alone and self._move(key, value)):
                    await self._share_one(key, value)

    def _move(self, key: Any, value: "np.ndarray[Any, Any]") -> bool:
        """Replaces an array that was born shared by a shared one in its memory. Nothing else may
        refer to it, neither a task nor a view: it could be written to.
        """
        moved = _frames.moved(value)
        self._replace(key, value, moved)
        return moved is not None

    async def _share_one(self, key: Any, value: "np.ndarray[Any, Any]") -> None:
        if value.nbytes < _internals.DASK_THREAD_BYTES:
            self._replace(key, value, _frames.copied(value))
            return
        if key not in self._in_work:
            self._in_work[key] = asyncio.create_task(self._share_in_thread(key, value))
            self._in_work[key].add_done_callback(lambda _: self._in_work.pop(key, None))
        # The copying goes on if one of those who ask goes away.
        await asyncio.shield(self._in_work[key])

    async def _share_in_thread(self, key: Any, value: "np.ndarray[Any, Any]") -> None:
        _pool.follow_limit()
        self._replace(key, value, await asyncio.to_thread(_frames.copied, value))
        _pool.prepare(value.nbytes)

    def _replace(self, key: Any, value: object, shared: "np.ndarray[Any, Any] | None") -> None:
        # Meanwhile it may have been released, spilled, or computed again.
        if shared is not None and self._value(key) is value:
            shared.flags.writeable = False
            self._data[key] = shared

    def _protect(self, key: Any, value: "np.ndarray[Any, Any]") -> None:
        """Makes the data read-only. The task may have kept the array itself."""
        if value.flags.writeable:
            view = value.view()
            view.flags.writeable = False
            self._data[key] = view

    def _value(self, key: Any) -> Any:
        """Returns a value in memory; None for one that was spilled to disk or is not there."""
        return getattr(self._data, "fast", self._data).get(key)


def _count_references() -> int:
    """Returns how often an object is referred to that is in a mapping and in a local variable."""
    data = {0: object()}
    value = data[0]
    return sys.getrefcount(value)


_REFERENCES = _count_references()


def shared_first(
    get_data: Callable[..., Awaitable[Any]], results: Results
) -> Callable[..., Awaitable[Any]]:
    """Returns the handler of a worker that others ask for data."""

    @functools.wraps(get_data)
    async def handler(
        comm: Any, keys: Collection[Any], who: Any = None, serializers: Any = None
    ) -> Any:
        if _handshakes.reaches(comm):
            await results.share(keys)
        return await get_data(comm, keys=keys, who=who, serializers=serializers)

    return handler
