"""What goes through a worker's pipe:

messages of one object, each with what it is and the number of its task.
"""

from typing import Any

from .. import _core, _wire
from .._codec import _pickler
from .._ipc import _fds, _message
from .._ipc._message import OutgoingMessage

NOTHING = OutgoingMessage((), [], [])
"""No object."""


class Gone(Exception):  # noqa: N818 (no error: the parent let its workers go, or has ended)
    """Nobody has the other end of the pipe."""


def send(
    pipe: _core.Pipe, kind: int, number: int, packed: OutgoingMessage, timeout: float | None = None
) -> None:
    """Raises Gone, and TimeoutError when there is no room."""
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

    def __init__(self, payload: bytes | memoryview, message: _core.Message) -> None:
        self.kind, self.number = _wire.WORKER_HEAD.unpack_from(payload)
        self._payload, self._message = memoryview(payload)[_wire.WORKER_HEAD.size :], message

    def unpack(self) -> Any:
        """Its object. Raises what unpickling raises."""
        fds = self._message.take_fds()
        if fds:
            return _message.unpack(self._payload, self._message, fds)
        return _pickler.decode(self._payload, self._message)

    def pack_again(self) -> OutgoingMessage:
        """What is to be sent to another receiver in its place."""
        arrays = [self._message.memory(index, "r") for index in range(len(self._message))]
        fds = [_owned(fd) for fd in self._message.take_fds()]
        return OutgoingMessage((bytes(self._payload),), arrays, fds)


def _owned(fd: int) -> _fds.OwnedFd:
    return _fds.OwnedFd(lambda: fd)


def receive(pipe: _core.Pipe) -> WorkerMessage:
    """Waits for a message. Raises Gone."""
    try:
        return WorkerMessage(*pipe.receive())
    except EOFError:
        raise Gone from None


def receive_now(pipe: _core.Pipe) -> WorkerMessage | None:
    """A message, if there is one."""
    try:
        return WorkerMessage(*pipe.receive(0))
    except TimeoutError:
        return None
