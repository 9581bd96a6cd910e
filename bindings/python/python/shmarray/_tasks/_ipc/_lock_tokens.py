"""Lock tokens: locked bytes of an unnamed file. The kernel unlocks a byte with its last holder.

A queue has such a file. Each byte stands for a task that is not done. The locks are on fds that no
forked child keeps. They travel with messages, and end when nobody can receive the message any more.

| holder | holds its bytes by |
|---|---|
| a message under way | a lock token of its own |
| a process, for messages that wait in it or that it received | one lock token for all of them |

A process *takes* a byte by an exclusive lock, which only one can have. From then on the byte is
held by shared locks: the next holder locks it before the previous one unlocks it, so it is never
free in between.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

from ._fds import Fd, OwnedFd
from ._locks import EXCLUSIVE, FREE, SHARED, Range, free_all, lock, locked, wait_for
from ._reducers import DupFd

__all__ = ["LockToken", "LockTokenFile", "let_go", "share"]


class LockToken(OwnedFd):
    """A hold on some bytes. It ends when the token is closed."""

    __slots__ = ("bytes",)

    def __init__(self, make: Callable[[], int]) -> None:
        super().__init__(make)
        self.bytes: list[int] = []
        """The bytes that it took."""

    def take(self, byte: int) -> bool:
        """Takes a byte. Returns False if another holder has it."""
        try:
            lock(self.fileno(), EXCLUSIVE, byte)
        except BlockingIOError:
            return False
        self.bytes.append(byte)
        return True

    def free(self, byte: int) -> None:
        """Unlocks a byte."""
        lock(self.fileno(), FREE, byte)


def share(one: int, other: int, byte: int) -> None:
    """Passes a byte on: ``other`` holds it, too, from now on."""
    lock(one, SHARED, byte)
    lock(other, SHARED, byte)


def let_go(fd: int) -> None:
    """Unlocks the bytes of a token that came with a message, and closes it. Unlocking comes first,
    because a forked child may have a copy of the fd.
    """
    free_all(fd)
    os.close(fd)


class LockTokenFile(Fd):
    """The file whose bytes are locked."""

    __slots__ = ("_mine",)

    def __init__(self, fd: int | None = None) -> None:
        super().__init__(
            os.memfd_create("shmarray-lock-tokens", os.MFD_CLOEXEC) if fd is None else fd
        )
        self._mine: LockToken | None = None

    def __reduce__(self) -> Any:
        return _rebuild, (DupFd(self._fd),)

    def open(self) -> LockToken:
        """Returns a new lock token that holds no byte yet."""
        return LockToken(lambda: os.open(f"/proc/self/fd/{self._fd}", os.O_RDWR | os.O_CLOEXEC))

    def mine(self) -> LockToken:
        """Returns the lock token of this process. Two threads must not call this at once."""
        # A forked child has closed its parent's token.
        if self._mine is None or self._mine.fileno() < 0:
            self._mine = self.open()
        return self._mine

    def free(self, among: Range) -> Iterator[Range]:
        """Yields the free bytes in a range, in order. Asks the kernel about twice for each lock."""
        left = [among] if among.first < among.end else []
        while left:
            asked = left.pop()
            held = locked(self._fd, asked)
            if held is None:
                yield asked
                continue
            rest = Range(held.end, asked.end), Range(asked.first, held.first)
            left += [one for one in rest if one.first < one.end]

    def wait_until_free(self, among: Range) -> None:
        """Waits until nobody holds a byte of the range."""
        while (held := locked(self._fd, among)) is not None:
            token = self.open()
            wait_for(token.fileno(), held.first)
            token.close()


def _rebuild(fd: Any) -> LockTokenFile:
    return LockTokenFile(fd.detach())
