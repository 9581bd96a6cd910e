"""The send queue: messages that a process has put into a queue, on their way into the pipe, in
order.
"""

import collections
import contextlib
import errno
import select
import threading
import time
import weakref
from collections.abc import Callable
from multiprocessing import util
from typing import NamedTuple, TypeVar

from . import _message
from ._queue_slots import QueueEnd, QueueSlots
from ._queue_tasks import QueueTasks

__all__ = ["SendQueue"]

_Result = TypeVar("_Result")
_ROOM_SECONDS = 0.001
"""How long a sender waits for room before its messages wait for the thread, which takes longer for
each than the sender does.
"""
_RETRY_SECONDS = 0.1
"""The interval for trying again when the system lacks a resource."""


class _Waiting(NamedTuple):
    """A message that found no room in the pipe."""

    payload: list[bytes | memoryview | str]
    """Its pieces; empty once they are sent."""
    message: _message.OutgoingMessage
    slot: bytes


class SendQueue:
    """Sends messages at once where the pipe has room. A thread sends the others. It lives as long
    as messages wait.
    """

    def __init__(
        self,
        reader: QueueEnd,
        writer: QueueEnd,
        slots: QueueSlots,
        tasks: QueueTasks | None,
    ) -> None:
        self._lock = threading.Lock()
        self._reader = weakref.ref(reader)
        self._writer = writer
        self._slots = slots
        self._tasks = tasks
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._thread: threading.Thread | None = None
        self._at_exit: util.Finalize | None = None
        self._may_lose = self._is_used = self._is_closed = self._is_ending = False
        self._is_direct = False
        """Whether no message waits, and messages may be sent."""

    def put(self, obj: object, slot: bytes) -> None:
        """Sends an object or lets it wait. If this raises, the slot is still the caller's."""
        is_sent: bool | None = False
        if self._is_direct:
            # Without the lock: threads that put at the same time do so in no order.
            is_sent = _message.send_plain(self._writer.pipe, obj, slot, _ROOM_SECONDS)
        if is_sent:
            self._set_in_pipe(slot)
            return
        message = _message.pack_special(obj) if is_sent is None else _message.pack(obj)
        self._send(message._replace(payload=(slot, *message.payload)) if slot else message, slot)

    def _set_in_pipe(self, slot: bytes) -> None:
        if slot:
            self._slots.set_in_pipe(slot)
        if self._tasks is not None:
            self._tasks.mine().set_in_pipe()

    def _send(self, message: _message.OutgoingMessage, slot: bytes) -> None:
        with self._lock:
            self._is_used = True
            if self._is_ending:
                return
            if self._waiting:
                # Left to the thread alone, they would go only when it gets the GIL.
                with contextlib.suppress(OSError, MemoryError):  # the thread meets it, too
                    self._send_what_has_room()
            if not self._waiting and self._sends(message):
                self._set_in_pipe(slot)
                self._is_direct = True
                return
            self._is_direct = False
            if self._thread is None:
                self._start_thread()
            self._slots.set_waiting(slot)
            self._waiting.append(_Waiting([*message.payload], message, slot))

    def _sends(self, message: _message.OutgoingMessage) -> bool:
        """Sends a message. Returns False if there is no room soon."""
        try:
            _message.send(self._writer.pipe, message, _ROOM_SECONDS)
        except TimeoutError:
            return False
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            return False
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

    def _send_on(self) -> None:
        while not self._is_done():
            try:
                _retry(self._send_or_wait)
            except OSError:
                self._lose_all()  # nobody can receive any more

    def _is_done(self) -> bool:
        """Returns whether no message waits. Then the thread ends."""
        with self._lock:
            if self._waiting:
                return False
            self._thread = None
            self._is_direct = not self._is_ending
            if self._at_exit is not None:
                self._at_exit.cancel()
            if self._is_closed:
                self._writer.close()
            return True

    def _send_or_wait(self) -> None:
        """Sends waiting messages, or waits until there is room for one."""
        with self._lock:
            has_sent = self._send_what_has_room()
        if not has_sent:
            self._wait_for_room()

    def _send_what_has_room(self) -> bool:
        """Sends waiting messages, in order, without waiting. Returns whether it sent any."""
        before = len(self._waiting)
        while self._waiting:
            first = self._waiting[0]
            # It may have been sent by a call that a signal's handler ended.
            if first.payload and not self._sends_waiting(first):
                break
            self._waiting.popleft()
            if first.slot:
                self._slots.set_in_pipe(first.slot)
        return len(self._waiting) < before

    def _sends_waiting(self, waiting: _Waiting) -> bool:
        """Sends a waiting message. Returns False if there was no room. A crash during this call
        leaves open whether the message was sent.
        """
        self._slots.set_sending(waiting.slot)
        try:
            tasks = None if self._tasks is None else self._tasks.mine()
            _message.send(self._writer.pipe, waiting.message, 0.0, waiting.payload, tasks)
        except BaseException as error:
            if waiting.payload:
                self._slots.set_waiting(waiting.slot)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._writer.fileno(), select.POLLOUT)
        poll.poll()

    def _lose_all(self) -> None:
        with self._lock:
            while self._waiting:
                lost = self._waiting.popleft()
                self._slots.free(lost.slot)
                if self._tasks is not None:
                    self._tasks.mine().set_lost()

    def close(self) -> None:
        """Declares that nothing will be put any more. As in the standard module, a queue that was
        never used is not closed.
        """
        with self._lock:
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
        with self._lock:
            self._is_ending = True
            self._is_direct = False
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
