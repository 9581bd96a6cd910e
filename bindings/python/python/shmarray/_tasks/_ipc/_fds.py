"""Fds of this process: those that travel in messages, and those that no forked child may keep.

While an object is pickled for a message, ``DupFd`` (in ``_reducers``) adds copies of its fds to the
message. While the object is unpickled, ``detach`` takes them from the message.

Some fds stand for a resource that the kernel releases when its last fd is closed. A child that is
forked must not keep a copy of such an fd. It is an `OwnedFd`: every forked child closes it, and
forks wait while one is made or closed.
"""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self

from .. import _internals, _wire

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
    """An fd that is closed with its last reference."""

    __slots__ = ("__weakref__", "_fd")

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        """Returns the fd, or -1 after `close`."""
        return self._fd

    def close(self, _close: Callable[[int], None] = os.close) -> None:
        """Closes the fd. A second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close(fd)

    def __del__(self) -> None:
        self.close()


_no_fork = threading.RLock()
"""Held while an owned fd is made or closed. A fork acquires it first."""


class _Dropped(list["OwnedFd"]):
    """Owned fds that were dropped, to be closed as soon as no fork is under way.

    Dropping one does not wait for the lock: the garbage collector may run while the thread holds a
    lock that the fork waits for.
    """

    def close_all(self, _no_fork: Any = _no_fork, _close: Callable[[Fd], None] = Fd.close) -> None:
        """Closes them now if the lock is free. Otherwise its holder closes them after releasing
        it.
        """
        while self and _no_fork.acquire(blocking=False):
            try:
                _close(self.pop())
            except (IndexError, OSError):
                pass  # another thread closed it, or the program closed the fd itself
            finally:
                _no_fork.release()


_dropped = _Dropped()
_all_owned: "weakref.WeakSet[Closable]" = weakref.WeakSet()


class Closable(Protocol):
    """An owner of fds."""

    def close(self) -> None: ...


class OwnedFd(Fd):
    """An fd that forked children close."""

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
        """Closes the fd. A second call does nothing."""
        with _no_fork:
            super().close(_close)
        _dropped.close_all()

    def __del__(self, _dropped: _Dropped = _dropped) -> None:
        if getattr(self, "_fd", -1) >= 0:  # a signal may have interrupted __init__
            _dropped.append(self)
            _dropped.close_all()


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """Delays forks for the duration of the ``with`` block."""
    with _no_fork:
        yield
    _dropped.close_all()


@contextlib.contextmanager
def owned_by(owner: Closable) -> Iterator[None]:
    """Within the block fds are made that belong to ``owner``. A forked child closes the owner."""
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
    """The fds of the message that this thread unpickles."""

    incoming: "IncomingFds | None" = None


_current = _Current()


class OutgoingFds:
    """The fds of the message that a thread is pickling (``_internals.begin_message``)."""

    def __init__(self) -> None:
        self._owned: list[OwnedFd] = []

    def add(self, fd: int) -> int:
        """Adds a copy of an fd. Returns its index."""
        self._owned.append(OwnedFd(lambda: os.dup(fd)))
        return len(self._owned) - 1

    def close_up(self) -> list[OwnedFd]:
        """Returns the fds that travel beside the message: all of them, or the first and a
        bundle.
        """
        direct = self._owned[: _wire.DIRECT_FDS]
        rest = self._owned[_wire.DIRECT_FDS :]
        return [*direct, _bundle(rest)] if rest else direct


def _bundle(owned: Sequence[OwnedFd]) -> OwnedFd:
    """Returns the end of a pipe that holds these fds."""
    into, out = _internals.Pipe.pair()
    for start in range(0, len(owned), _wire.DIRECT_FDS):
        into.send(b"", [], 0, [one.fileno() for one in owned[start : start + _wire.DIRECT_FDS]])
    return OwnedFd(lambda: os.dup(out.fileno()))


class IncomingFds:
    """The fds that came with a message. Within the ``with`` block this thread unpickles the
    message.
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
            os.close(fd)  # an fd that no object took

    def take(self, index: int) -> int:
        """Returns the fd of an index. The caller owns it from then on."""
        if index >= _wire.DIRECT_FDS and self._bundle is not None:
            bundle, self._bundle = self._bundle, None
            self._open_bundle(bundle)
        return self._fds.pop(index)

    def _open_bundle(self, fd: int) -> None:
        bundle = _internals.Pipe.from_fd(fd)
        fds = list[int]()
        with contextlib.suppress(EOFError):
            while True:
                fds += bundle.receive()[1].take_fds()
        self._fds.update(enumerate(fds, _wire.DIRECT_FDS))


class TravellingFd:
    """Stands for an fd in a message."""

    def __init__(self, index: int) -> None:
        self._index = index

    def detach(self) -> int:
        """Returns the fd. The caller owns it from then on."""
        if _current.incoming is None:
            raise RuntimeError(
                "an fd that travels in a message can be had only while that is unpickled"
            )
        return _current.incoming.take(self._index)


def is_packing() -> bool:
    """Returns whether this thread is pickling a message, beside which fds can travel."""
    return _internals.is_in_message()


def travelling_fd(fd: int) -> TravellingFd | None:
    """Returns what stands for the fd in the message that this thread is pickling, or None."""
    outgoing = _internals.outgoing_fds(OutgoingFds)
    return None if outgoing is None else TravellingFd(outgoing.add(fd))
