"""Ends of channels that go to other processes, and the ends of processes that ``multiprocessing``
starts.

A channel that a process gives to another one counts as an end from then on, as an end of a pipe
does, and not only when the other one has opened it. ``Channel`` imports this module at its first
use, since the standard library's part of it takes milliseconds.
"""

import contextlib
import functools
import itertools
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import context, process, reduction, util
from typing import Any

from . import _core

__all__ = ["close_started", "prepare", "reduce_channel"]

# As deep are channels looked for in what a process is given: in a tuple of arguments of a pool's
# initializer, in an object's attributes.
_DEPTH = 4
_MOST_LOOKED_AT = 10_000
# The channel was closed, is another user's, or has no ends left. Then its handle has to do.
_NOT_HANDED_OVER = (ValueError, OSError, _core.Error)


class _UnderWay:
    """The fds of ends that a process that is being started inherits. It needs them until then."""

    lock = threading.Lock()
    fds: list[tuple["weakref.ref[Any]", int]] = []  # noqa: RUF012 (of the process)

    @classmethod
    def keep(cls, popen: Any, fd: int) -> None:
        with cls.lock:
            cls.fds.append((weakref.ref(popen), fd))

    @classmethod
    def close_started(cls) -> None:
        """Closes those of processes that have started. ``Popen`` has a pid then."""

        def is_starting(popen: Any) -> bool:
            return popen is not None and getattr(popen, "pid", None) is None

        with cls.lock:
            started = [fd for popen, fd in cls.fds if not is_starting(popen())]
            cls.fds = [(popen, fd) for popen, fd in cls.fds if fd not in started]
        for fd in started:
            os.close(fd)


def close_started() -> None:
    """Lets go of ends that processes have inherited which were started meanwhile."""
    if _UnderWay.fds:
        _UnderWay.close_started()


def reduce_channel(channel: Any, dup_fd: Callable[[int], Any] = reduction.DupFd) -> Any:
    """Reduces a channel for another process, which opens an end that counts from now on."""
    close_started()
    try:
        handle, fd = channel._hand_over()
    except _NOT_HANDED_OVER:
        return channel.__reduce__()
    popen = context.get_spawning_popen()
    try:
        reduced = _arrive, (type(channel), handle, channel.receives, dup_fd(fd))
    except BaseException:
        os.close(fd)
        raise
    if popen is None:
        os.close(fd)  # the message has a copy
    else:
        _UnderWay.keep(popen, fd)
    return reduced


def _arrive(cls: Any, handle: str, receives: bool, fd: Any) -> Any:
    fd = fd.detach()
    try:
        return cls.open(handle, receive=receives)
    finally:
        os.close(fd)


class _Process:
    is_prepared = False


def prepare(channel_class: type) -> None:
    """Prepares this process, which uses channels, for the processes that it gives them to."""
    if _Process.is_prepared:
        return
    _Process.is_prepared = True
    reduction.ForkingPickler.register(channel_class, reduce_channel)
    os.register_at_fork(
        before=_hand_over_to_child,
        after_in_parent=_leave_to_child,
        after_in_child=_adopt_in_child,
    )
    util.register_after_fork(_ends_by_itself, _ends_by_itself)  # type: ignore[attr-defined]
    if process.parent_process() is not None:
        _ends_by_itself(None)


def _ends_by_itself(_key: Any) -> None:
    """Lets a child that ``multiprocessing`` has started leave its channels when it ends: it does so
    by ``os._exit``, which runs no other handlers, and has not died.
    """
    util.Finalize(None, _core.leave_channels, exitpriority=-1000)


class _Fork(threading.local):
    """What the thread that forks hands over to the child."""

    handed_over: list[tuple[Any, str, int]] = []  # noqa: RUF012 (each fork has its own list)


_fork = _Fork()


def _hand_over_to_child() -> None:
    """Hands over the channels that a ``Process`` is given. Its ``start`` forks in ``_launch``; a
    child that is forked otherwise inherits channels, and joins at its first use of one.
    """
    frame = sys._getframe().f_back  # None if no code of Python forks
    _fork.handed_over = []
    while frame is not None and frame.f_code.co_name == "_launch":
        started = frame.f_locals.get("process_obj")
        if isinstance(started, process.BaseProcess):
            for channel in _channels_in(vars(started)):
                with contextlib.suppress(*_NOT_HANDED_OVER):
                    _fork.handed_over.append((channel, *channel._hand_over()))
            return
        frame = frame.f_back


def _leave_to_child() -> None:
    handed_over, _fork.handed_over = _fork.handed_over, []
    for _channel, _handle, fd in handed_over:
        os.close(fd)


def _adopt_in_child() -> None:
    handed_over, _fork.handed_over = _fork.handed_over, []
    _UnderWay.lock = threading.Lock()
    for channel, handle, fd in handed_over:
        with contextlib.suppress(*_NOT_HANDED_OVER):
            channel._adopt(handle)
        os.close(fd)


def _channels_in(given: object) -> Iterator[Any]:
    """Finds the channels in what a process is given."""
    seen: set[int] = set()
    level: list[object] = [given]
    for _ in range(_DEPTH + 1):
        deeper: list[object] = []
        for found in level:
            if id(found) in seen or len(seen) >= _MOST_LOOKED_AT:
                continue
            seen.add(id(found))
            if isinstance(found, _core.Channel):
                yield found
            else:
                deeper.extend(itertools.islice(_parts_of(found), _MOST_LOOKED_AT))
        level = deeper


def _parts_of(found: object) -> Iterable[object]:
    match found:
        case dict():
            return found.values()
        case list() | tuple() | set() | frozenset():
            return found
        case functools.partial():
            return found.func, found.args, found.keywords
        case types.MethodType():
            return found.__self__, found.__func__
        case types.FunctionType():
            with contextlib.suppress(ValueError):  # a cell may be empty
                return [cell.cell_contents for cell in found.__closure__ or ()]
            return ()
        case types.ModuleType() | type():
            return ()
        case _:
            attributes = getattr(found, "__dict__", None)
            return (attributes,) if isinstance(attributes, dict) else ()
