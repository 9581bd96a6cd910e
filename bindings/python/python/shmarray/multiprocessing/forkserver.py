"""The fork server of this package. It has imported the modules that its children need.

It runs the code of the standard module's server. In its children that module returns the inherited
fds.
"""

import os
import sys
from collections.abc import Sequence
from multiprocessing import forkserver
from multiprocessing.forkserver import MAXFDS_TO_SEND as MAXFDS_TO_SEND
from multiprocessing.forkserver import SIGNED_STRUCT as SIGNED_STRUCT
from multiprocessing.forkserver import get_inherited_fds
from multiprocessing.forkserver import main as main
from multiprocessing.forkserver import read_signed as read_signed
from multiprocessing.forkserver import write_signed as write_signed
from typing import TYPE_CHECKING

__all__ = [
    "connect_to_new_process",
    "ensure_running",
    "get_inherited_fds",
    "set_forkserver_preload",
]

_OURS = "shmarray._tasks._ipc._spawn_payload", "shmarray.multiprocessing.queues"
"""The modules that every child needs, and those that most children use."""


class ForkServer(forkserver.ForkServer):
    """The standard fork server with this package preloaded."""

    if TYPE_CHECKING:
        _forkserver_alive_fd: int | None

    def __init__(self) -> None:
        super().__init__()
        self.set_forkserver_preload(["__main__"])

    if sys.version_info < (3, 15):

        def set_forkserver_preload(self, modules_names: Sequence[str]) -> None:
            """Sets the modules that a server started from now on tries to import."""
            super().set_forkserver_preload([*modules_names, *_OURS])

    else:

        def set_forkserver_preload(
            self, modules_names: Sequence[str], *, on_error: str = "ignore"
        ) -> None:
            """Sets the modules that a server started from now on tries to import."""
            super().set_forkserver_preload([*modules_names, *_OURS], on_error=on_error)

    def forget(self) -> None:
        """Forgets the parent's server in a forked child, which cannot wait for it."""
        if self._forkserver_alive_fd is not None:
            os.close(self._forkserver_alive_fd)
        preload = {name: of for name, of in vars(self).items() if name.startswith("_preload")}
        super().__init__()
        vars(self).update(preload)


_forkserver = ForkServer()
os.register_at_fork(after_in_child=_forkserver.forget)
ensure_running = _forkserver.ensure_running
connect_to_new_process = _forkserver.connect_to_new_process
set_forkserver_preload = _forkserver.set_forkserver_preload
