"""The spawn payload: how a process object reaches the child that is started for it.

The process object is packed and sent into a new pipe of core. The standard launcher passes on only
the receiving end of that pipe. Arguments therefore travel by handle, and their message holds them
as long as the child can still receive it. If the child's end is closed unread, they are released.
"""

import contextlib
import multiprocessing.context as standard  # pyright does not find it in the package
import os
from collections.abc import Callable, Iterator
from typing import Any

from .. import _internals
from . import _family_lock, _fds, _main_missing, _message

__all__ = ["SpawnPayload", "launching"]

_PREFIX = "SHMARRAY_"


class SpawnPayload:
    """The object that the standard launcher pickles instead of a process object."""

    def __init__(self, process_obj: Any, popen: Any) -> None:
        self._name = process_obj._name  # the launcher reads it
        self._process_obj = process_obj
        self._popen = popen
        # The child calls it before it unpickles the process object.
        self._set_start_method = process_obj._start_method_setter()
        with _fds.owned_by(self):
            self._here, self._there = _internals.Pipe.pair()

    def __reduce__(self) -> Any:
        _message.send(self._here, _message.pack((_family_lock.take(), self._process_obj)))
        end = self._popen.DupFd(self._popen.duplicate_for_child(self._there.fileno()))
        return _open, (end, _environment(), self._set_start_method)

    def close(self) -> None:
        """Closes both ends: the child has its end by now, or never will."""
        self._here.close()
        self._there.close()


def _open(end: Any, environment: dict[str, str], set_start_method: Callable[[], None]) -> Any:
    """Returns the process object, in the child."""
    _take_over(environment)
    set_start_method()
    received = _internals.Pipe.from_fd(end.detach()).receive()
    try:
        return _message.unpack(*received)[1]
    except AttributeError as error:
        _main_missing.add_hint(error)
        raise


def _environment() -> dict[str, str]:
    """Returns the variables of this library. A fork server has the environment of the time when it
    was started, so its children are sent these.
    """
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}


def _take_over(environment: dict[str, str]) -> None:
    """Sets the environment of this process, which has not used shared memory yet."""
    for name in _environment().keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)
    _internals.follow_parent()


@contextlib.contextmanager
def launching(process_obj: Any, popen: Any) -> Iterator[SpawnPayload]:
    """Within the block the standard launcher runs. If that decides the standard start method, the
    decision is undone afterwards.
    """
    _internals.announce_family()
    decided = standard._default_context.get_start_method(allow_none=True)
    with contextlib.closing(SpawnPayload(process_obj, popen)) as payload:
        try:
            yield payload
        finally:
            if decided is None:
                standard._default_context.set_start_method(None, force=True)
