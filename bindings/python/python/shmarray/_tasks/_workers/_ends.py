"""A worker's pipe: both ends are open in the parent, one in the worker, none in any other process.

The parent keeps the worker's end as well. After the worker's death the parent receives there what
the worker had not received, so these tasks were certainly not begun. The worker's process tells
that it has died, not the pipe.

A worker leaves when the parent's end is closed, so no other process may have that end. A forked
child closes all ends except the one that it was started for.
"""

import contextlib
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from .. import _internals
from .._ipc import _fds
from .._ipc._reducers import DupFd


class Ends:
    """Both ends of a new pipe."""

    def __init__(self) -> None:
        with _fds.no_fork():
            self.here, self.there = _internals.Pipe.pair()
            _all_ends.add(self)

    def close(self) -> None:
        self.here.close()
        self.there.close()

    @contextlib.contextmanager
    def passed_on(self) -> Iterator["End"]:
        """Within the block this thread starts the worker that has this end."""
        _starting.ends = self
        try:
            yield End(self.there)
        finally:
            _starting.ends = None
            os.set_inheritable(self.there.fileno(), False)  # a launcher may have changed that

    def forget(self, null: int, but_there: bool) -> None:
        """Closes in a forked child the ends that are the parent's.

        A thread that exists only in the parent may have kept a pipe from being closed. The fd
        itself is replaced by one of ``/dev/null`` in any case.
        """
        for pipe in (self.here,) if but_there else (self.here, self.there):
            with contextlib.suppress(OSError):  # it was closed already
                os.dup2(null, pipe.fileno(), inheritable=False)
            pipe.close()


class End:
    """A worker's end, as an argument of its process."""

    def __init__(self, pipe: _internals.Pipe) -> None:
        self.pipe = pipe

    def let_signals_in(self) -> None:
        """Unblocks signals: the worker can handle them now."""
        _let_signals_in()

    def __reduce__(self) -> Any:
        return _arrive, (DupFd(self.pipe.fileno()),)


def _arrive(fd: Any) -> End:
    return End(_internals.Pipe.from_fd(fd.detach()))


class _Starting(threading.local):
    ends: Ends | None = None
    mask: set[signal.Signals | int] | None = None
    """The signals that were blocked before the fork."""


_starting = _Starting()
_all_ends: weakref.WeakSet[Ends] = weakref.WeakSet()


def _hold_signals() -> None:
    if _starting.ends is not None:
        _starting.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])


def _let_signals_in() -> None:
    if _starting.mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, _starting.mask)
        _starting.mask = None


def _forget_in_child() -> None:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for ends in list(_all_ends):
        ends.forget(null, but_there=ends is _starting.ends)
    os.close(null)
    _all_ends.clear()
    _starting.ends = None


os.register_at_fork(
    before=_hold_signals, after_in_parent=_let_signals_in, after_in_child=_forget_in_child
)
