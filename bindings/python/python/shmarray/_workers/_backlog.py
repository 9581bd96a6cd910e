"""How much may wait for workers: so much as a pipe has room for, and one task of any size."""

import threading

BYTES_MOST = 64 << 10
"""As the pipe of the standard pool."""


class Backlog:
    """Counts the bytes of tasks that wait. Any thread may add some; only one takes them off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added = self._taken = 0
        self._is_full = False
        self._has_room = threading.Event()
        self._has_room.set()

    def has_room(self) -> bool:
        return not self._is_full

    def wait(self) -> None:
        """Until there is room."""
        if self._is_full:
            self._has_room.wait()

    def add(self, size: int) -> None:
        """A task of this size waits, whether there is room or not."""
        with self._lock:
            self._added += size
            if self._added - self._taken < BYTES_MOST or self._is_full:
                return
            self._has_room.clear()
            self._is_full = True
        self._make_room()  # who takes off may not have seen that it is full

    def take_off(self, size: int) -> None:
        """Who waits for room goes on when there is some more of it, not for each task."""
        self._taken += size
        if self._is_full:
            self._make_room()

    def _make_room(self) -> None:
        with self._lock:
            if self._added - self._taken <= BYTES_MOST // 2:
                self._is_full = False
                self._has_room.set()
