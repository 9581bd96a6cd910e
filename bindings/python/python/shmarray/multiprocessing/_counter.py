"""A count that processes share, and that one can wait for."""

import contextlib
import os
import select
from typing import Any

from ._descriptors import Descriptor
from .reduction import DupFd

__all__ = ["Counter"]


class Counter(Descriptor):
    """An eventfd. What it says is a hint: who dies between a deed and its count leaves it wrong by one."""

    __slots__ = ()

    def __init__(self, count: int = 0, fd: int | None = None) -> None:
        flags = os.EFD_CLOEXEC | os.EFD_NONBLOCK | os.EFD_SEMAPHORE
        super().__init__(os.eventfd(count, flags) if fd is None else fd)

    def __reduce__(self) -> Any:
        return _rebuild, (DupFd(self._fd),)

    def add(self) -> None:
        """One more; it wakes those who wait."""
        os.eventfd_write(self._fd, 1)

    def subtract(self) -> None:
        """One less, if there is one."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def wait(self, seconds: float) -> None:
        """Until there is one, or the time is over."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.poll(seconds * 1000)

    def value(self) -> int:
        """The count."""
        with open(f"/proc/self/fdinfo/{self._fd}") as facts:
            (line,) = (line for line in facts if line.startswith("eventfd-count:"))
        return int(line.split()[1], 16)


def _rebuild(descriptor: Any) -> Counter:
    return Counter(fd=descriptor.detach())
