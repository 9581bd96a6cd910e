"""The tickets of the message that a comm is sending, until the receiver has taken them."""

import threading
from collections.abc import Sequence

from .. import _core


class UnderWay:
    """The handles that one comm has sent last. A broken comm gives their tickets back.

    A comm that carries data alternates: a process writes again only after the peer has read what
    it wrote before. So at the next message these tickets have been taken. To give back a ticket
    that was taken does nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: list[str] = []
        self._is_broken = False

    def begin(self) -> None:
        """Forgets the message before, which was received."""
        with self._lock:
            self._handles = []

    def add(self, handles: Sequence[str]) -> None:
        """Adds handles of this message. Dask calls this in a thread for large messages, and does
        not wait for the thread if the sending is cancelled.
        """
        with self._lock:
            if not self._is_broken:
                self._handles += handles
                return
        _give_back(handles)

    def end(self) -> None:
        """Gives back what the receiver has not taken. Nothing more will be received."""
        with self._lock:
            self._is_broken = True
            handles, self._handles = self._handles, []
        _give_back(handles)


def _give_back(handles: Sequence[str]) -> None:
    for handle in handles:
        _core.discard(handle)
