"""Queues that carry arrays by handle, and that go on when one of their processes dies.

A queue is a pipe of core. Each of its processes has both ends. There is no lock between processes:
a message is sent and received whole or not at all.

* A *queue slot* bounds a queue with a ``maxsize``. It travels with the message, and is free when
  the message is received (``_queue_slots``).
* A *task* of a ``JoinableQueue`` is a message until the process that got it has called
  ``task_done``. Each process counts those that it has, for the others to see (``_queue_tasks``).

``put`` packs the object at once and sends it without waiting. Messages that find no room in the
pipe wait in the process, in order, and a thread sends them (``_send_queue``).
"""

import multiprocessing.context as context  # pyright does not find it in the package
import os
import pickle
import types
import weakref
from multiprocessing import queues, synchronize
from queue import Empty as Empty
from queue import Full as Full
from typing import TYPE_CHECKING, Any, TypeVar

from .._tasks import _internals
from .._tasks._ipc import _message
from .._tasks._ipc._fds import is_packing
from .._tasks._ipc._queue_slots import MessageCounter, QueueSlots
from .._tasks._ipc._queue_tasks import QueueTasks
from .._tasks._ipc._send_queue import SendQueue
from .connection import Pipe

__all__ = ["JoinableQueue", "Queue", "SimpleQueue"]

_T = TypeVar("_T")
_UNBOUNDED: int = synchronize.SEM_VALUE_MAX  # type: ignore[attr-defined]
"""The limit of the standard module."""

if TYPE_CHECKING:
    _StandardQueue = queues.Queue
    _StandardJoinableQueue = queues.JoinableQueue
else:  # those of Python 3.11 cannot be subscribed
    _StandardQueue = {_T: queues.Queue}
    _StandardJoinableQueue = {_T: queues.JoinableQueue}


class Queue(_StandardQueue[_T]):
    """A queue between processes.

    ``put`` pickles at once: an object that cannot be pickled raises there, and a later change of
    the object is not sent. A process that ends waits until its messages are sent, or nobody else
    can receive them. Raises what the standard class raises.

    >>> import numpy, shmarray.multiprocessing
    >>> queue = shmarray.multiprocessing.Queue()
    >>> queue.put(numpy.arange(3))
    >>> queue.get().tolist()
    [0, 1, 2]
    """

    def __class_getitem__(cls, item: Any, /) -> types.GenericAlias:
        return types.GenericAlias(cls, item)

    def __init__(self, maxsize: int = 0, *, ctx: Any = None) -> None:  # noqa: ARG002 (no locks)
        self._maxsize = maxsize if 0 < maxsize < _UNBOUNDED else _UNBOUNDED
        self._reader, self._writer = Pipe(duplex=False)
        self._slots = (
            QueueSlots(self._maxsize)
            if self._maxsize < _UNBOUNDED
            else MessageCounter(self._maxsize)
        )
        self._tasks = self._new_tasks()
        self._reset()

    def _new_tasks(self) -> QueueTasks | None:
        return None

    def _reset(self) -> None:
        """Sets the state that each process has for itself."""
        self._slot_bytes = _internals.QUEUE_SLOT_BYTES if self._maxsize < _UNBOUNDED else 0
        if self._tasks is not None:
            self._tasks.reset()
        self._send_queue = SendQueue(self._reader, self._writer, self._slots, self._tasks)
        self._closed = self._reader.closed
        _all_queues.add(self)

    def __getstate__(self) -> Any:
        if not is_packing():
            context.assert_spawning(self)
        return self._maxsize, self._reader, self._writer, self._slots, self._tasks

    def __setstate__(self, state: Any) -> None:
        self._maxsize, self._reader, self._writer, self._slots, self._tasks = state
        self._reset()

    def put(self, obj: _T, block: bool = True, timeout: float | None = None) -> None:
        """Puts an object into the queue. Raises ``Full`` if no queue slot was free in time."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        slot = self._slots.take(self._reader, _limit(block, timeout))
        if slot is None:
            raise Full
        try:
            self._send(obj, slot)
        except BaseException:
            self._slots.free(slot)
            raise

    def _send(self, obj: object, slot: bytes) -> None:
        self._send_queue.put(obj, slot)

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Takes an object out of the queue. Raises ``Empty`` if there was none in time."""
        if self._closed:
            raise ValueError(f"Queue {self!r} is closed")
        tasks = None if self._tasks is None else self._tasks.mine()
        try:
            slot, payload, message = self._reader.pipe.receive_object(
                self._slot_bytes, _limit(block, timeout), tasks
            )
        except TimeoutError:
            raise Empty from None
        except OSError:
            self._send_queue.wait_if_ending()
            raise
        self._slots.free(slot)
        obj: _T = pickle.loads(payload) if message is None else _message.unpack(payload, message)
        return obj

    def qsize(self) -> int:
        """Returns about how many objects are in the queue."""
        return self._slots.count_taken(self._reader)

    def empty(self) -> bool:
        """Returns whether there is nothing to get now."""
        return not self._reader.poll()

    def full(self) -> bool:
        """Returns whether no queue slot is free now."""
        return self._maxsize < _UNBOUNDED and self._slots.count_taken(self._reader) >= self._maxsize

    def close(self) -> None:
        """Ends the use of the queue by this process. Its messages are still sent."""
        self._closed = True
        self._send_queue.close()

    def join_thread(self) -> None:
        """Waits until this process's messages are sent, or nobody else can receive them."""
        assert self._closed, f"Queue {self!r} not closed"
        self._send_queue.join()

    def cancel_join_thread(self) -> None:
        """Allows this process's messages to be lost when it ends."""
        self._send_queue.lose()


def _limit(block: bool, timeout: float | None) -> float | None:
    """Returns how long to wait. None means forever."""
    if not block:
        return 0.0
    return None if timeout is None else max(timeout, 0.0)


class JoinableQueue(Queue[_T], _StandardJoinableQueue[_T]):
    """A queue whose objects are tasks.

    A task is done when the process that got it calls ``task_done``, or has ended. Raises what the
    standard class raises.

    >>> import shmarray.multiprocessing
    >>> queue = shmarray.multiprocessing.JoinableQueue()
    >>> queue.put("a task")
    >>> queue.get()
    'a task'
    >>> queue.task_done()
    >>> queue.join()
    """

    def _new_tasks(self) -> QueueTasks:
        return QueueTasks()

    def _send(self, obj: object, slot: bytes) -> None:
        assert self._tasks is not None
        tasks = self._tasks.mine()
        tasks.put()
        try:
            super()._send(obj, slot)
        except BaseException:
            tasks.set_lost()
            raise

    def task_done(self) -> None:
        """Marks a task that this process got as done. Raises ValueError if there is none."""
        assert self._tasks is not None
        if not self._tasks.mine().set_done():
            raise ValueError("task_done() called too many times")

    def join(self) -> None:
        """Waits until no task is left."""
        assert self._tasks is not None
        self._tasks.wait_until_done(self._reader)


class SimpleQueue(queues.SimpleQueue[_T]):
    """A queue between processes that is only a pipe: ``put`` waits until there is room.

    >>> import numpy, shmarray.multiprocessing
    >>> queue = shmarray.multiprocessing.SimpleQueue()
    >>> queue.put(numpy.arange(3))
    >>> queue.get().tolist()
    [0, 1, 2]
    """

    def __init__(self, *, ctx: Any = None) -> None:  # noqa: ARG002 (it needs no locks)
        self._reader, self._writer = Pipe(duplex=False)

    def __getstate__(self) -> Any:
        if not is_packing():
            context.assert_spawning(self)
        return self._reader, self._writer

    def __setstate__(self, state: Any) -> None:
        self._reader, self._writer = state

    def put(self, obj: _T) -> None:
        """Puts an object into the queue."""
        self._writer.send(obj)

    def get(self) -> _T:
        """Takes an object out of the queue."""
        obj: _T = self._reader.recv()
        return obj

    def empty(self) -> bool:
        """Returns whether there is nothing to get now."""
        return not self._reader.poll()

    def close(self) -> None:
        """Ends the use of the queue by this process."""
        self._reader.close()
        self._writer.close()


_all_queues: "weakref.WeakSet[Queue[Any]]" = weakref.WeakSet()


def _reset_in_child() -> None:
    for queue in list(_all_queues):
        queue._reset()


os.register_at_fork(after_in_child=_reset_in_child)

if not TYPE_CHECKING:
    del _StandardQueue, _StandardJoinableQueue

    def __getattr__(name: str) -> Any:
        """Returns any other name of the standard module."""
        return getattr(queues, name)
