"""A task: a call that a worker makes, and its outcome."""

import abc
import threading
from typing import Any

from .. import _internals
from .._ipc._message import OutgoingMessage
from ._child import WorkerProtocol


class Task(abc.ABC):
    """A task of an owner. The dispatcher calls the methods."""

    number = 0
    """Its number among the tasks of its dispatcher."""

    failure: Exception | None = None
    """What packing it early raised."""

    def __init__(self, call: tuple[Any, Any, Any]) -> None:
        self.call: tuple[Any, Any, Any] | None = call
        """The function, its arguments and its keyword arguments; None once they are packed."""
        self.packed: OutgoingMessage | None = None
        """The message to send; None once it was sent."""
        self.copies: _internals.Copies | None = None
        """The copies that the tasks of one call have in common; None once it is packed."""
        self.has_begun = False

    def pack(self, protocol: type[WorkerProtocol]) -> None:
        """Packs the call. Raises what pickling raises."""
        call, self.call = self.call, None
        copies, self.copies = self.copies, None
        self.packed = protocol.pack(call, copies)

    def pack_early(self, protocol: type[WorkerProtocol]) -> None:
        """Packs the call before its turn: an array in a channel's slot is valid only now. What
        pickling raises is raised at its turn.
        """
        try:
            self.pack(protocol)
        except Exception as error:
            self.failure = error

    @abc.abstractmethod
    def begin(self) -> bool:
        """Called before the task is sent for the first time. Returns False if it was cancelled."""

    @abc.abstractmethod
    def settle(self, succeeded: bool, value: Any) -> None:
        """Called with the result, or the exception that was raised instead."""

    @abc.abstractmethod
    def drop(self, error: BaseException) -> None:
        """Called if the task will have no result, because its owner ended the workers."""


class Call(threading.local):
    """The call that a thread submits tasks for."""

    copies: _internals.Copies | None = None
    """The copies that these tasks have in common."""


class callbacks:  # noqa: N801 (used as a function, and in each task)
    """Prints exceptions of a program's callbacks to stderr, as for any thread, and suppresses
    them.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> bool:
        if raised[1] is not None:
            threading.excepthook(threading.ExceptHookArgs((*raised, threading.current_thread())))
        return True


CALLBACKS = callbacks()
"""One instance is enough: it has no state."""
