"""The tickets of what a comm has sent, until the receiver has answered."""

import threading
from collections.abc import Sequence

from .. import discard


class UnderWay:
    """The handles that one comm has sent since its peer answered. A broken comm gives their tickets
    back.

    A comm that carries data alternates: the peer answers after it has loaded a message. Tickets
    that it has not taken by then it never takes: Dask may serialize a message twice, and an object
    may fail to load. So they are given back, too. To give back a ticket that was taken does
    nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handles: list[str] = []
        self._is_broken = self._is_answered = False

    def begin(self) -> None:
        """Begins a message. Gives back what is left of those before, if they were answered."""
        with self._lock:
            if not self._is_answered:
                return
            self._is_answered = False
            handles, self._handles = self._handles, []
        _give_back(handles)

    def answered(self) -> None:
        """Called when the peer has sent a message."""
        self._is_answered = True

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
        discard(handle)
