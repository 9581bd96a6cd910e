"""How a process object reaches the child that is started for it.

It is packed and sent into a new pipe of core, and the end of the pipe is all that the standard
launcher passes on. So arguments go by handle, and they hold what they refer to for as long as the
child can still receive them. What the child's end is closed for, unread, is given back.
"""

import contextlib
import multiprocessing.context as standard  # pyright does not find it in the package
from collections.abc import Iterator
from typing import Any

from .. import _core
from . import _absent, _descriptors, _family, _message, context

__all__ = ["Parcel", "launching"]


class Parcel:
    """What the standard launcher pickles in the place of a process object."""

    def __init__(self, process_obj: Any, popen: Any) -> None:
        self._name = process_obj._name  # the launcher asks for it
        self._process_obj, self._popen = process_obj, popen
        with _descriptors.owned_by(self):
            self._here, self._there = _core.Pipe.pair()

    def __reduce__(self) -> Any:
        _message.send(self._here, _message.pack((_family.keeper(), self._process_obj)))
        end = self._popen.DupFd(self._popen.duplicate_for_child(self._there.fileno()))
        return _open, (
            end,
            _family.environment(),
            context._default_context.get_start_method(allow_none=True),
        )

    def close(self) -> None:
        """The child has it now, or never will."""
        self._here.close()
        self._there.close()


def _open(end: Any, environment: dict[str, str], method: str | None) -> Any:
    """The process object, in the child."""
    _family.take_over(environment)
    context._default_context.set_start_method(method, force=True)
    received = _core.Pipe.from_fd(end.detach()).receive()
    try:
        return _message.unpack(*received)[1]
    except AttributeError as error:
        _absent.tell(error)
        raise


@contextlib.contextmanager
def launching(process_obj: Any, popen: Any) -> Iterator[Parcel]:
    """Meanwhile the standard launcher runs.

    If that decides the standard start method, it is undecided again later.
    """
    _family.say()
    decided = standard._default_context.get_start_method(allow_none=True)
    with contextlib.closing(Parcel(process_obj, popen)) as parcel:
        try:
            yield parcel
        finally:
            if decided is None:
                standard._default_context.set_start_method(None, force=True)
