"""The send queue: messages that a process has put into a queue, on their way into the pipe, in
order.
"""

import collections
import errno
import select
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import util
from typing import NamedTuple, TypeVar

from . import _message
from ._lock_tokens import LockToken, LockTokenFile, share
from ._queue_slots import QueueEnd, QueueSlots

__all__ = ["SendQueue"]

_Result = TypeVar("_Result")
_RETRY_SECONDS = 0.1
"""The interval for trying again when the system lacks a resource."""


class _Waiting(NamedTuple):
    """A message that found no room in the pipe, and the lock bytes that this process holds for
    it.
    """

    message: _message.OutgoingMessage
    slot: bytes
    bytes: list[int]


class SendQueue:
    """Sends messages at once where the pipe has room. A thread sends the others. It lives as long
    as messages wait.
    """

    def __init__(
        self,
        reader: QueueEnd,
        writer: QueueEnd,
        slots: QueueSlots,
        lock_tokens: LockTokenFile | None,
    ) -> None:
        self.lock = threading.Lock()
        """Held while the lock token of this process is used."""
        self._reader = weakref.ref(reader)
        self._writer = writer
        self._slots = slots
        self._lock_tokens = lock_tokens
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._thread: threading.Thread | None = None
        self._at_exit: util.Finalize | None = None
        self._may_lose = self._is_used = self._is_closed = self._is_ending = False

    def send(self, message: _message.OutgoingMessage, slot: bytes, token: LockToken | None) -> None:
        """Sends a message or lets it wait. If this raises, slot and token are still the
        caller's.
        """
        with self.lock:
            self._is_used = True
            if self._is_ending:
                return
            if not self._waiting and self._sends(message, token):
                self._slots.set_in_pipe(slot)
                return
            if self._thread is None:
                self._start_thread()
            self._slots.set_waiting(slot)
            self._waiting.append(_Waiting(message, slot, self._keep(token)))

    def _sends(self, message: _message.OutgoingMessage, token: LockToken | None) -> bool:
        """Sends a message without waiting. Returns False if there was no room."""
        try:
            _message.send(self._writer.pipe, message, 0.0, token)
        except TimeoutError:
            return False
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            return False
        if token is not None:
            token.close()
        return True

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._send_on, name="QueueFeederThread", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None  # the interpreter is ending
            raise
        if not self._may_lose:
            self._at_exit = util.Finalize(None, self._finish, exitpriority=-5)

    def _keep(self, token: LockToken | None) -> list[int]:
        """Passes the bytes of a message's token on to the token of this process."""
        if self._lock_tokens is None or token is None:
            return []
        for byte in token.bytes:
            share(token.fileno(), self._lock_tokens.mine().fileno(), byte)
        token.close()
        return token.bytes

    def _send_on(self) -> None:
        while (waiting := self._first()) is not None:
            try:
                self._send_first(waiting)
            except OSError:
                self._lose_all()  # nobody can receive any more

    def _first(self) -> _Waiting | None:
        """Returns the next message. If there is none, the thread ends."""
        with self.lock:
            if self._waiting:
                return self._waiting[0]
            self._thread = None
            if self._at_exit is not None:
                self._at_exit.cancel()
            if self._is_closed:
                self._writer.close()
            return None

    def _send_first(self, waiting: _Waiting) -> None:
        token = _retry(lambda: self._token_for(waiting.bytes))
        while not _retry(lambda: self._sends_waiting(waiting, token)):
            self._wait_for_room()
        if token is not None:
            token.close()
        with self.lock:
            self._waiting.popleft()

    def _sends_waiting(self, waiting: _Waiting, token: LockToken | None) -> bool:
        """Sends a waiting message. Returns False if there was no room. A crash during this call
        leaves open whether the message was sent.
        """
        self._slots.set_sending(waiting.slot)
        try:
            _message.send(self._writer.pipe, waiting.message, 0.0, token)
        except BaseException as error:
            self._slots.set_waiting(waiting.slot)
            if isinstance(error, TimeoutError):
                return False
            raise
        self._slots.set_in_pipe(waiting.slot)
        return True

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._writer.fileno(), select.POLLOUT)
        poll.poll()

    def _token_for(self, held: list[int]) -> LockToken | None:
        """Passes bytes from the token of this process to the token of a message, so that this
        process does not hold them once the message is received.
        """
        if self._lock_tokens is None:
            return None
        token = self._lock_tokens.open()
        with self.lock:
            for byte in held:
                share(self._lock_tokens.mine().fileno(), token.fileno(), byte)
                self._lock_tokens.mine().free(byte)
        return token

    def _lose_all(self) -> None:
        with self.lock:
            while self._waiting:
                lost = self._waiting.popleft()
                self._slots.free(lost.slot)
                for byte in lost.bytes:
                    if self._lock_tokens is not None:
                        self._lock_tokens.mine().free(byte)

    def close(self) -> None:
        """Declares that nothing will be put any more. As in the standard module, a queue that was
        never used is not closed.
        """
        with self.lock:
            if not self._is_used:
                return
            self._is_closed = True
            self._stop_receiving()
            if self._thread is None:
                self._writer.close()

    def join(self) -> None:
        """Waits until all messages are sent, or nobody can receive them."""
        thread = self._thread
        if thread is not None and not self._may_lose:
            thread.join()

    def lose(self) -> None:
        """Allows the messages that wait at the end of the process to be lost."""
        self._may_lose = True
        if self._at_exit is not None:
            self._at_exit.cancel()

    def _finish(self) -> None:
        """Waits at the end of the process. Messages that are put from now on are lost."""
        with self.lock:
            self._is_ending = True
        self._stop_receiving()
        self.join()

    def wait_if_ending(self) -> None:
        """Blocks until the process has ended, if it is ending. A thread that goes on until then can
        receive nothing, and must not raise.
        """
        if self._is_ending:
            threading.Event().wait()

    def _stop_receiving(self) -> None:
        """Closes this process's receiving end, so that the process does not wait for itself to
        receive. A queue that was dropped has closed it already.
        """
        reader = self._reader()
        if reader is not None:
            reader.close()


def _retry(action: Callable[[], _Result]) -> _Result:
    """Repeats an action until the system has the resources for it. Raises OSError if waiting cannot
    help.
    """
    while True:
        try:
            return action()
        except (OSError, MemoryError) as error:
            if getattr(error, "errno", None) in (errno.EPIPE, errno.EBADF):
                raise
            time.sleep(_RETRY_SECONDS)
