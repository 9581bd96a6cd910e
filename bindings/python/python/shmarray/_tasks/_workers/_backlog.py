"""The limit of tasks that wait for workers: the bytes that fit into a pipe, and one task of any
size.
"""

import threading

BYTES_MOST = 64 << 10
"""The size of the standard pool's pipe."""


class Backlog:
    """Counts the bytes of waiting tasks. Any thread may add a task. Only one thread takes tasks
    off.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added = self._taken_off = 0
        self._is_full = False
        self._has_room = threading.Event()
        self._has_room.set()

    def has_room(self) -> bool:
        return not self._is_full

    def wait(self) -> None:
        """Waits until there is room."""
        if self._is_full:
            self._has_room.wait()

    def add(self, size: int) -> None:
        """Adds a task of this size, whether there is room or not."""
        with self._lock:
            self._added += size
            if self._added - self._taken_off < BYTES_MOST or self._is_full:
                return
            self._has_room.clear()
            self._is_full = True
        self._make_room()  # the thread that takes tasks off may not have seen that it is full

    def take_off(self, size: int) -> None:
        """Takes a task off. Wakes the threads that wait for room when half of it is free, not for
        each task.
        """
        self._taken_off += size
        if self._is_full:
            self._make_room()

    def _make_room(self) -> None:
        with self._lock:
            if self._added - self._taken_off <= BYTES_MOST // 2:
                self._is_full = False
                self._has_room.set()
