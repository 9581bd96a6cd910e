"""The slots of a queue, and how many messages are in one that has no bound."""

from typing import Any, Protocol

from .. import _core
from ._reducers import DupFd

__all__ = ["MessageCounter", "QueueEnd", "QueueSlots"]


class QueueEnd(Protocol):
    """One end of a queue's pipe, as a connection has it."""

    @property
    def pipe(self) -> _core.Pipe: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class QueueSlots:
    """Those of a queue with a bound: no process takes one with it when it dies."""

    def __init__(self, most: int, slots: _core.QueueSlots | None = None) -> None:
        self.most = most
        self._slots = _core.QueueSlots(most) if slots is None else slots

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.most, DupFd(self._slots.fileno()))

    def take(self, reader: QueueEnd, timeout: float | None) -> bytes | None:
        """A slot; None when there was none in that time.

        ``reader`` is where the messages arrive.
        """
        return self._slots.take(reader.pipe, timeout)

    def kept(self, slot: bytes) -> None:
        """Its message waits in this process for room in the pipe."""
        self._slots.kept(slot)

    def being_sent(self, slot: bytes) -> None:
        """This process is about to send it."""
        self._slots.being_sent(slot)

    def sent(self, slot: bytes) -> None:
        """Its message is in the pipe."""
        self._slots.sent(slot)

    def free(self, slot: bytes) -> None:
        """Its message, which begins so, was received; or will not be sent."""
        self._slots.free(slot)

    def taken(self, reader: QueueEnd) -> int:
        """How many are not free."""
        return self._slots.taken(reader.pipe)


class MessageCounter(QueueSlots):
    """Of a queue without a bound:

    a hint. Who dies between a message and its count leaves it wrong by one.
    """

    def __init__(self, most: int, slots: _core.QueueSlots | None = None) -> None:
        super().__init__(0, slots)
        self.most = most

    def take(self, reader: QueueEnd, timeout: float | None) -> bytes | None:  # noqa: ARG002 (there is always one)
        self._slots.count(1)
        return b""

    def kept(self, slot: bytes) -> None:
        """Nothing changes."""

    being_sent = sent = kept

    def free(self, slot: bytes) -> None:  # noqa: ARG002 (it has none)
        self._slots.count(-1)

    def taken(self, reader: QueueEnd) -> int:  # noqa: ARG002 (they were counted)
        return max(0, self._slots.counted())


def _rebuild(kind: type[QueueSlots], most: int, fd: Any) -> QueueSlots:
    return kind(most, _core.QueueSlots.from_fd(fd.detach()))
