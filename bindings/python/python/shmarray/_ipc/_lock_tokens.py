"""Lock tokens: locked bytes of a file without name, which the kernel frees with the last who has them.

A queue has such a file. Each byte stands for something that somebody has: a place in the queue, a
task that is not done. The locks are on descriptors that no forked child keeps, so that they travel
with a message and go when nobody can receive it any more.

| who | has its bytes by |
|---|---|
| a message under way | a token of its own |
| a process, what waits in it or was received by it | one token for all of them |

To *take* a byte is to lock it exclusively, which only one can. From then on it is *kept* by shared
locks: who gets it locks it before who gives it lets go, so that it is never free between the two.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

from ._fds import Fd, OwnedFd
from ._locks import EXCLUSIVE, FREE, SHARED, Range, free_all, lock, locked, wait_for
from ._reducers import DupFd

__all__ = ["LockToken", "LockTokenFile", "let_go", "share"]


class LockToken(OwnedFd):
    """One's hold on some bytes. It ends when this is closed."""

    __slots__ = ("bytes",)

    def __init__(self, make: Callable[[], int]) -> None:
        super().__init__(make)
        self.bytes: list[int] = []
        """Those that it took."""

    def take(self, byte: int) -> bool:
        """Whether it was nobody's; then it is this one's."""
        try:
            lock(self.fileno(), EXCLUSIVE, byte)
        except BlockingIOError:
            return False
        self.bytes.append(byte)
        return True

    def free(self, byte: int) -> None:
        """Lets one go."""
        lock(self.fileno(), FREE, byte)


def share(one: int, other: int, byte: int) -> None:
    """The one has it. The other keeps it, too, from now on."""
    lock(one, SHARED, byte)
    lock(other, SHARED, byte)


def let_go(fd: int) -> None:
    """Closes a token that came with a message.

    Its bytes are free, also if some process has a copy of it.
    """
    free_all(fd)
    os.close(fd)


class LockTokenFile(Fd):
    """The file."""

    __slots__ = ("_mine",)

    def __init__(self, fd: int | None = None) -> None:
        super().__init__(os.memfd_create("shmarray-tokens", os.MFD_CLOEXEC) if fd is None else fd)
        self._mine: LockToken | None = None

    def __reduce__(self) -> Any:
        return _rebuild, (DupFd(self._fd),)

    def open(self) -> LockToken:
        """A token that has no byte yet."""
        return LockToken(lambda: os.open(f"/proc/self/fd/{self._fd}", os.O_RDWR | os.O_CLOEXEC))

    def mine(self) -> LockToken:
        """This process's. Not for two threads at once."""
        if self._mine is None or self._mine.fileno() < 0:  # a child has closed its parent's
            self._mine = self.open()
        return self._mine

    def free(self, among: Range) -> Iterator[Range]:
        """Those that nobody has, in order. The kernel is asked about twice for each lock."""
        left = [among] if among.first < among.end else []
        while left:
            asked = left.pop()
            taken = locked(self._fd, asked)
            if taken is None:
                yield asked
                continue
            rest = Range(taken.end, asked.end), Range(asked.first, taken.first)
            left += [one for one in rest if one.first < one.end]

    def wait_until_free(self, among: Range) -> None:
        """Until nobody has any of them."""
        while (taken := locked(self._fd, among)) is not None:
            token = self.open()
            wait_for(token.fileno(), taken.first)
            token.close()


def _rebuild(fd: Any) -> LockTokenFile:
    return LockTokenFile(fd.detach())
