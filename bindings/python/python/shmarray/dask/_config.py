"""The keys of Dask's configuration below ``distributed.shmarray``."""

import typing

import dask.config
from dask.utils import parse_bytes

from .._tasks import _internals

_MIN_SIZE = f"{_internals.DASK_LEAST_BYTES >> 20} MiB"
DEFAULTS = {
    "distributed": {"shmarray": {"enabled": True, "min-size": _MIN_SIZE, "allocator": False}}
}
PRELOAD = "shmarray.dask"
_PRELOADS = ("worker", "nanny", "scheduler")


class Settings:
    """The values of the keys when `load` was called."""

    is_enabled: typing.ClassVar[bool] = True
    min_bytes: typing.ClassVar[int] = _internals.DASK_LEAST_BYTES
    """Smaller private buffers go by wire."""
    min_shared_bytes: typing.ClassVar[int] = min_bytes // 4
    """Smaller buffers go by wire, also if they are in shared memory."""
    uses_allocator: typing.ClassVar[bool] = False
    """Whether the arrays of a worker's tasks are born shared."""


def load() -> None:
    """Reads the keys. Raises ValueError for a value that is no size."""
    dask.config.update_defaults(DEFAULTS)
    Settings.is_enabled = bool(dask.config.get("distributed.shmarray.enabled"))
    Settings.uses_allocator = bool(dask.config.get("distributed.shmarray.allocator"))
    size = dask.config.get("distributed.shmarray.min-size")
    try:
        Settings.min_bytes = parse_bytes(size)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(
            f"invalid distributed.shmarray.min-size: {size!r} is no number of bytes"
        ) from error
    Settings.min_shared_bytes = Settings.min_bytes // 4


def preload() -> None:
    """Makes the servers that this process starts from now on import this package."""
    for kind in _PRELOADS:
        key = f"distributed.{kind}.preload"
        names = dask.config.get(key, default=None) or []
        names = [names] if isinstance(names, str) else list(names)
        if PRELOAD not in names:
            dask.config.set({key: [*names, PRELOAD]})
