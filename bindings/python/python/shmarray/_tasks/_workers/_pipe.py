"""Messages in a worker's pipe: a kind, the number of the task, and an object."""

from typing import Any

from .. import _internals, _wire
from .._ipc import _fds, _message
from .._ipc._message import OutgoingMessage

NOTHING = OutgoingMessage((), [], [])
"""The message without an object."""


class Gone(Exception):  # noqa: N818 (no error: the parent let its workers go, or has ended)
    """The other end of the pipe is closed."""


def send(
    pipe: _internals.Pipe,
    kind: int,
    number: int,
    packed: OutgoingMessage,
    timeout: float | None = None,
) -> None:
    """Sends a message. Raises Gone, and TimeoutError if there is no room."""
    payload, arrays, fds = packed
    try:
        pipe.send(
            (_wire.WORKER_HEAD.pack(kind, number), *payload),
            arrays,
            timeout,
            [one.fileno() for one in fds],
        )
    except BrokenPipeError:
        raise Gone from None


class WorkerMessage:
    """A message that has arrived. It holds its arrays until it is dropped."""

    __slots__ = ("_message", "_payload", "kind", "number")

    def __init__(self, payload: bytes | memoryview, message: _internals.Message) -> None:
        self.kind, self.number = _wire.WORKER_HEAD.unpack_from(payload)
        self._payload = memoryview(payload)[_wire.WORKER_HEAD.size :]
        self._message = message

    def unpack(self) -> Any:
        """Returns its object. Raises what unpickling raises."""
        return _message.unpack(self._payload, self._message)

    def pack_again(self) -> OutgoingMessage:
        """Returns the message to send to another receiver."""
        arrays = [self._message.memory(index, "r") for index in range(len(self._message))]
        fds = [_owned(fd) for fd in self._message.take_fds()]
        return OutgoingMessage((bytes(self._payload),), arrays, fds)


def _owned(fd: int) -> _fds.OwnedFd:
    return _fds.OwnedFd(lambda: fd)


def receive(pipe: _internals.Pipe) -> WorkerMessage:
    """Waits for a message. Raises Gone."""
    try:
        return WorkerMessage(*pipe.receive())
    except EOFError:
        raise Gone from None


def receive_within(pipe: _internals.Pipe, seconds: float) -> WorkerMessage | None:
    """Waits so long for a message. Returns None if there was none. Raises Gone."""
    try:
        return WorkerMessage(*pipe.receive(seconds))
    except TimeoutError:
        return None
    except EOFError:
        raise Gone from None


def receive_now(pipe: _internals.Pipe) -> WorkerMessage | None:
    """Returns a message if there is one, else None."""
    return receive_within(pipe, 0)
