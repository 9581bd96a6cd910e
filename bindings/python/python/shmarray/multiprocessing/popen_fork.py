"""Starts a process by fork."""

from multiprocessing import popen_fork
from typing import Any

from .._tasks import _internals
from .._tasks._ipc._reaping import Reaping

__all__ = ["Popen"]


class Popen(Reaping, popen_fork.Popen):
    """Works as the standard one. The child has what its parent had."""

    def _launch(self, process_obj: Any) -> None:
        _internals.announce_family()
        super()._launch(process_obj)  # type: ignore[misc]
