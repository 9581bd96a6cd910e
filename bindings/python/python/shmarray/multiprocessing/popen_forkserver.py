"""Starts a process by a server that forks."""

import io
import multiprocessing.context as context  # pyright does not find it in the package
import os
from multiprocessing import popen_forkserver, util
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from .._tasks._ipc import _spawn_payload
from .._tasks._ipc._reaping import Reaping
from . import forkserver, spawn

__all__ = ["Popen"]


class Popen(Reaping, popen_forkserver.Popen):
    """Works as the standard one, with a spawn payload and this package's server."""

    if TYPE_CHECKING:
        _fds: list[int]

    def _launch(self, process_obj: Any) -> None:
        with _spawn_payload.launching(process_obj, self) as payload:
            stream = io.BytesIO()
            context.set_spawning_popen(self)
            try:
                ForkingPickler(stream).dump(spawn.get_preparation_data(payload._name))
                ForkingPickler(stream).dump(payload)
            finally:
                context.set_spawning_popen(None)
            self.sentinel, writer = forkserver.connect_to_new_process(self._fds)
            # The fd that tells the child of this process's end. It stays open as long as this
            # object or this process lives.
            parent = os.dup(writer)
            self.finalizer = util.Finalize(self, _close_all, (parent, self.sentinel))
            with open(writer, "wb", closefd=True) as file:
                file.write(stream.getbuffer())
            self.pid = forkserver.read_signed(self.sentinel)


def _close_all(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
