"""A task: a call that a worker is to make, and what becomes of it."""

import abc
import threading
from typing import Any

from .._ipc._message import OutgoingMessage
from ._child import WorkerProtocol


class Task(abc.ABC):
    """What its owner asks for. The dispatcher calls the methods."""

    number = 0
    """Its place among those that its dispatcher was given."""

    def __init__(self, call: tuple[Any, Any, Any]) -> None:
        self.call: tuple[Any, Any, Any] | None = call
        """The function, its arguments, and those with names; ``None`` when they are packed."""
        self.packed: OutgoingMessage | None = None
        """What is to be sent; ``None`` when it has been."""
        self.has_begun = False

    def pack(self, protocol: type[WorkerProtocol]) -> None:
        """Raises what pickling does."""
        call, self.call = self.call, None
        self.packed = protocol.pack(call)

    @abc.abstractmethod
    def begin(self) -> bool:
        """It is about to be sent for the first time. ``False`` when nobody wants it any more."""

    @abc.abstractmethod
    def settle(self, succeeded: bool, value: Any) -> None:
        """It has a result, or the exception that it raised instead."""

    @abc.abstractmethod
    def drop(self, error: BaseException) -> None:
        """It will have none, since its owner ended the workers."""


class callbacks:  # noqa: N801 (used as a function, and in each task)
    """What people's callbacks raise is said on stderr, as of any thread, and goes no further."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> bool:
        if raised[1] is not None:
            threading.excepthook(threading.ExceptHookArgs((*raised, threading.current_thread())))
        return True


CALLBACKS = callbacks()
"""It has nothing of its own, so one is enough."""
