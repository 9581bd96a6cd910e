"""The queue slots of a bounded queue, and the message counter of an unbounded one."""

from typing import Any, Protocol

from .. import _internals
from ._reducers import DupFd

__all__ = ["MessageCounter", "QueueEnd", "QueueSlots"]


class QueueEnd(Protocol):
    """One end of a queue's pipe, with the methods of a connection."""

    @property
    def pipe(self) -> _internals.Pipe: ...
    @property
    def closed(self) -> bool: ...
    def poll(self) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class QueueSlots:
    """The slots of a bounded queue. No slot is lost when a process dies."""

    def __init__(self, most: int, slots: _internals.QueueSlots | None = None) -> None:
        self.most = most
        self._slots = _internals.QueueSlots(most) if slots is None else slots

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.most, DupFd(self._slots.fileno()))

    def take(self, reader: QueueEnd, timeout: float | None) -> bytes | None:
        """Takes a slot. Returns None if none was free in time. ``reader`` is the receiving end of
        the pipe.
        """
        return self._slots.take(reader.pipe, timeout)

    def set_waiting(self, slot: bytes) -> None:
        """The message waits in this process for room in the pipe."""
        self._slots.set_waiting(slot)

    def set_sending(self, slot: bytes) -> None:
        """This process is about to send the message."""
        self._slots.set_sending(slot)

    def set_in_pipe(self, slot: bytes) -> None:
        """The message is in the pipe."""
        self._slots.set_in_pipe(slot)

    def free(self, slot: bytes) -> None:
        """Frees the slot: its message was received, or will not be sent. ``slot`` may have more
        bytes.
        """
        self._slots.free(slot)

    def count_taken(self, reader: QueueEnd) -> int:
        """Returns the number of slots that are not free."""
        return self._slots.count_taken(reader.pipe)


class MessageCounter(QueueSlots):
    """The counter of an unbounded queue. It is a hint: a process that dies between a message and
    its count leaves it wrong by one.
    """

    def __init__(self, most: int, slots: _internals.QueueSlots | None = None) -> None:
        super().__init__(0, slots)
        self.most = most

    def take(self, reader: QueueEnd, timeout: float | None) -> bytes | None:  # noqa: ARG002
        self._slots.add_to_count(1)
        return b""

    def set_waiting(self, slot: bytes) -> None:
        """Does nothing."""

    set_sending = set_in_pipe = set_waiting

    def free(self, slot: bytes) -> None:  # noqa: ARG002
        self._slots.add_to_count(-1)

    def count_taken(self, reader: QueueEnd) -> int:  # noqa: ARG002
        return max(0, self._slots.count())


def _rebuild(kind: type[QueueSlots], most: int, fd: Any) -> QueueSlots:
    return kind(most, _internals.QueueSlots.from_fd(fd.detach()))
