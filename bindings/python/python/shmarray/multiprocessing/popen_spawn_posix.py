"""Starts a process as a new program."""

from multiprocessing import popen_spawn_posix
from typing import Any

from .._tasks._ipc import _spawn_payload
from .._tasks._ipc._reaping import Reaping

__all__ = ["Popen"]


class Popen(Reaping, popen_spawn_posix.Popen):
    """Works as the standard one, with a spawn payload."""

    def _launch(self, process_obj: Any) -> None:
        with _spawn_payload.launching(process_obj, self) as payload:
            super()._launch(payload)  # type: ignore[misc]
