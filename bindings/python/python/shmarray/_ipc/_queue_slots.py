"""The places of a queue, and how many messages are in one that has no bound."""

from typing import Any, Protocol

from .. import _core
from ._reducers import DupFd

__all__ = ["PLACE_BYTES", "Count", "Places"]

PLACE_BYTES = 8
"""How a message of a queue with a bound begins: with its place."""


class End(Protocol):
    """One end of a queue's pipe, as a connection has it."""

    @property
    def pipe(self) -> _core.Pipe: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class Places:
    """Those of a queue with a bound: no process takes one with it when it dies."""

    def __init__(self, most: int, places: _core.Places | None = None) -> None:
        self.most = most
        self._places = _core.Places(most) if places is None else places

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self.most, DupFd(self._places.fileno()))

    def take(self, reader: End, timeout: float | None) -> bytes | None:
        """A place; None when there was none in that time.

        ``reader`` is where the messages arrive.
        """
        return self._places.take(reader.pipe, timeout)

    def kept(self, place: bytes) -> None:
        """Its message waits in this process for room in the pipe."""
        self._places.kept(place)

    def being_sent(self, place: bytes) -> None:
        """This process is about to send it."""
        self._places.being_sent(place)

    def sent(self, place: bytes) -> None:
        """Its message is in the pipe."""
        self._places.sent(place)

    def free(self, place: bytes) -> None:
        """Its message, which begins so, was received; or will not be sent."""
        self._places.free(place)

    def taken(self, reader: End) -> int:
        """How many are not free."""
        return self._places.taken(reader.pipe)


class Count(Places):
    """Of a queue without a bound:

    a hint. Who dies between a message and its count leaves it wrong by one.
    """

    def __init__(self, most: int, places: _core.Places | None = None) -> None:
        super().__init__(0, places)
        self.most = most

    def take(self, reader: End, timeout: float | None) -> bytes | None:  # noqa: ARG002 (there is always one)
        self._places.count(1)
        return b""

    def kept(self, place: bytes) -> None:
        """Nothing changes."""

    being_sent = sent = kept

    def free(self, place: bytes) -> None:  # noqa: ARG002 (it has none)
        self._places.count(-1)

    def taken(self, reader: End) -> int:  # noqa: ARG002 (they were counted)
        return max(0, self._places.counted())


def _rebuild(kind: type[Places], most: int, descriptor: Any) -> Places:
    return kind(most, _core.Places.from_fd(descriptor.detach()))
