"""The tasks of a ``JoinableQueue`` that are not done.

Each process of the queue has an entry, which counts its tasks (`_core.QueueTasks`). It locks the
byte of the file that has the entry's number, by an fd that no forked child keeps, so the kernel
knows which entries are living processes'.
"""

import itertools
import os
import threading
from typing import Any

from .. import _internals
from ._fds import OwnedFd
from ._locks import is_locked, lock
from ._queue_slots import QueueEnd
from ._reducers import DupFd

__all__ = ["QueueTasks"]

_LOOK_SECONDS = 0.1
"""How often a process that waits looks for dead processes: a death wakes nobody."""


class QueueTasks:
    """The tasks of a queue that are not done. A process that dies has none any more."""

    def __init__(self, entries: _internals.QueueTasks | None = None) -> None:
        self._entries = _internals.QueueTasks() if entries is None else entries
        self.reset()

    def __reduce__(self) -> Any:
        return _rebuild, (DupFd(self._entries.fileno()),)

    def reset(self) -> None:
        """Sets the state that each process has for itself."""
        self._entries.forget()
        self._lock = threading.Lock()
        self._mine: OwnedFd | None = None

    def mine(self) -> _internals.QueueTasks:
        """Returns the entries, of which this process has one."""
        if self._mine is None:
            self._claim()
        return self._entries

    def _claim(self) -> None:
        path = f"/proc/self/fd/{self._entries.fileno()}"
        with self._lock:
            if self._mine is None:
                mine = OwnedFd(lambda: os.open(path, os.O_RDWR | os.O_CLOEXEC))
                self._entries.claim(next(n for n in itertools.count() if lock(mine.fileno(), n)))
                self._mine = mine

    def wait_until_done(self, reader: QueueEnd) -> None:
        """Waits until no task is left. ``reader`` is the receiving end of the pipe."""
        while True:
            seen = self._entries.wakeups()
            if self._are_done(reader):
                return
            self._entries.wait(seen, _LOOK_SECONDS)

    def _are_done(self, reader: QueueEnd) -> bool:
        words, with_tasks = self._entries.entries()
        if any(is_locked(self._entries.fileno(), entry) for entry in with_tasks):
            return False
        if reader.closed:
            return self._entries.unfinished() <= 0
        return not reader.poll() and self._entries.entries()[0] == words


def _rebuild(fd: Any) -> QueueTasks:
    return QueueTasks(_internals.QueueTasks.from_fd(fd.detach()))
