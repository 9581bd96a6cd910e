"""Descriptors of this process: those that travel in messages, and those that no forked child may
keep.

While an object is pickled for a message, ``DupFd`` (in ``reduction``) puts copies of the
descriptors of its parts beside the message; while it is unpickled, ``detach`` takes them from
there.

A descriptor that stands for something which the kernel gives back with its last owner must have
one: a child that was forked meanwhile would keep a copy of it. So an ``OwnedFd`` one is closed in
every forked child, and forks wait while one is made or closed.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

from .. import _core, _wire

__all__ = [
    "Fd",
    "IncomingFds",
    "OwnedFd",
    "is_packing",
    "no_fork",
    "owned_by",
    "travelling_fd",
]


class Fd:
    """A descriptor that is closed with its last reference."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """It, or -1 when it was closed."""
        return self._fd

    def close(self, _close: Callable[[int], None] = os.close) -> None:
        """Twice is as good as once."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close(fd)

    def __del__(self) -> None:
        self.close()


_no_fork = threading.RLock()
"""Forks wait for who has it."""


class _Dropped(list["OwnedFd"]):
    """What was dropped, and is closed as soon as nobody forks.

    It is not waited for: the garbage collector also runs where a lock is held that a fork waits
    for.
    """

    def close_all(self, _no_fork: Any = _no_fork, _close: Callable[[Fd], None] = Fd.close) -> None:
        """Closes it now, if that can be. Else who has the lock does, when he has let it go."""
        while self and _no_fork.acquire(blocking=False):
            try:
                _close(self.pop())
            except (IndexError, OSError):
                pass  # another thread was faster, or somebody has closed it behind our back
            finally:
                _no_fork.release()


_dropped = _Dropped()
_all_owned: "weakref.WeakSet[Closable]" = weakref.WeakSet()


class Closable(Protocol):
    """What has descriptors."""

    def close(self) -> None: ...


class OwnedFd(Fd):
    """A descriptor that forked children close."""

    __slots__ = ()

    def __init__(self, make: Callable[[], int]) -> None:
        super().__init__(-1)
        with _no_fork:
            self._fd = make()
            _all_owned.add(self)
        _dropped.close_all()

    def close(
        self,
        _close: Callable[[int], None] = os.close,
        _no_fork: Any = _no_fork,
        _dropped: _Dropped = _dropped,
    ) -> None:
        """Twice is as good as once."""
        with _no_fork:
            super().close(_close)
        _dropped.close_all()

    def __del__(self, _dropped: _Dropped = _dropped) -> None:
        if getattr(self, "_fd", -1) >= 0:  # a signal may have come before it had one
            _dropped.append(self)
            _dropped.close_all()


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """Meanwhile forks wait."""
    with _no_fork:
        yield
    _dropped.close_all()


@contextlib.contextmanager
def owned_by(owner: Closable) -> Iterator[None]:
    """Makes descriptors that forked children close by closing their owner."""
    with no_fork():
        yield
        _all_owned.add(owner)


def _close_in_child() -> None:
    for owned in [*_all_owned, *_dropped]:
        owned.close()
    _fork_again()


def _fork_again() -> None:
    _no_fork.release()
    _dropped.close_all()


os.register_at_fork(
    before=_no_fork.acquire, after_in_parent=_fork_again, after_in_child=_close_in_child
)


class _Current(threading.local):
    """The message that this thread unpickles."""

    incoming: "IncomingFds | None" = None


_current = _Current()


class OutgoingFds:
    """The descriptors that go with the message a thread is pickling (``_core.begin_message``)."""

    def __init__(self) -> None:
        self._owned: list[OwnedFd] = []

    def add(self, fd: int) -> int:
        """Puts a copy of a descriptor there, and says its index."""
        self._owned.append(OwnedFd(lambda: os.dup(fd)))
        return len(self._owned) - 1

    def close_up(self) -> list[OwnedFd]:
        """What travels with the message: all of them, if they are few."""
        direct, rest = self._owned[: _wire.DIRECT_FDS], self._owned[_wire.DIRECT_FDS :]
        return [*direct, _bundle(rest)] if rest else direct


def _bundle(owned: Sequence[OwnedFd]) -> OwnedFd:
    """The end of a pipe that holds these."""
    into, out = _core.Pipe.pair()
    for start in range(0, len(owned), _wire.DIRECT_FDS):
        into.send(b"", [], 0, [one.fileno() for one in owned[start : start + _wire.DIRECT_FDS]])
    return OwnedFd(lambda: os.dup(out.fileno()))


class IncomingFds:
    """Descriptors that came with a message:

    for what is unpickled by this thread within a `with`.
    """

    def __init__(self, fds: Sequence[int]) -> None:
        self._fds = dict(enumerate(fds))
        self._bundle = self._fds.pop(_wire.DIRECT_FDS, None)
        self._outer: IncomingFds | None = None

    def __enter__(self) -> Self:
        self._outer, _current.incoming = _current.incoming, self
        return self

    def __exit__(self, *_: object) -> None:
        _current.incoming = self._outer
        for fd in (*self._fds.values(), *([] if self._bundle is None else [self._bundle])):
            os.close(fd)  # nobody took it

    def take(self, index: int) -> int:
        """The one at a index, which is the caller's from then on."""
        if index >= _wire.DIRECT_FDS and self._bundle is not None:
            bundle, self._bundle = self._bundle, None
            self._open_bundle(bundle)
        return self._fds.pop(index)

    def _open_bundle(self, fd: int) -> None:
        bundle, fds = _core.Pipe.from_fd(fd), list[int]()
        with contextlib.suppress(EOFError):
            while True:
                fds += bundle.receive()[1].take_fds()
        self._fds.update(enumerate(fds, _wire.DIRECT_FDS))


class TravellingFd:
    """What stands for a descriptor in a message."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """The descriptor, which is the caller's from then on."""
        if _current.incoming is None:
            raise RuntimeError(
                "a descriptor that travels in a message can be had only while that is unpickled"
            )
        return _current.incoming.take(self._index)


def is_packing() -> bool:
    """Whether this thread is pickling a message, which descriptors may travel with."""
    return _core.is_in_message()


def travelling_fd(fd: int) -> TravellingFd | None:
    """What stands for it in the message that this thread is pickling, if it does."""
    outgoing = _core.outgoing_fds(OutgoingFds)
    return None if outgoing is None else TravellingFd(outgoing.add(fd))
