"""A worker as its parent sees it: its process, its pipe, and its tasks."""

import collections
import contextlib
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from .. import _internals, _wire
from .._ipc import _fds
from .._ipc._message import OutgoingMessage
from . import _pipe
from ._ends import End, Ends
from ._task import Task

TASKS_MOST = 2
"""The limit of tasks at a worker: the current one, and the next, so that the worker need not wait.
"""
SMALL_TASKS_MOST = 16
"""The limit for small tasks, if their owner lets them wait there. Fewer threads wake up then."""
SMALL_BYTES = 16 << 10
"""The limit of a small task, which has no arrays and no fds."""


class Worker:
    """A new process. It exits when the parent closes its end of the pipe, or ends."""

    is_ready = False
    was_let_go = False
    refusal: BaseException | None = None
    """The exception of its initializer."""
    was_ended = False
    _is_slow = False

    def __init__(
        self, start: Callable[[End], BaseProcess], tasks_left: float, small_most: int
    ) -> None:
        self._tasks_left = tasks_left
        self._small_most = small_most
        self.tasks: collections.deque[Task] = collections.deque()
        """The tasks that were sent and not answered, in order."""
        self._ends = Ends()
        try:
            with self._ends.passed_on() as end:
                self.process = start(end)
        except BaseException:
            self._ends.close()
            raise
        self._life = _Life(self.process)

    def __str__(self) -> str:
        """Returns how it has ended, in words."""
        return _ending(self.process.pid, self.process.exitcode)

    def pipe(self) -> int:
        """Returns the fd that is readable when the worker has sent a message."""
        return self._ends.here.fileno()

    def death(self) -> int:
        """Returns the fd that is readable when the worker has ended."""
        return self._life.fileno()

    def hear(self) -> _pipe.WorkerMessage | None:
        """Returns a message of the worker, or None."""
        return _pipe.receive_now(self._ends.here)

    def takes_another(self) -> bool:
        most = 1 if self._is_slow else self._small_most
        return not self.was_let_go and len(self.tasks) < most and self._tasks_left > 0

    def has_room_for(self, task: Task) -> bool:
        """Returns whether a task may wait at this worker."""
        return len(self.tasks) < TASKS_MOST or (task.packed is not None and _is_small(task.packed))

    def send(self, task: Task) -> None:
        """Sends a packed task without waiting. Raises TimeoutError if there is no room."""
        assert task.packed is not None
        _pipe.send(self._ends.here, _wire.TASK, task.number, task.packed, 0)
        task.packed = None
        self.tasks.append(task)
        self._tasks_left -= 1

    def answered(self, number: int) -> Task | None:
        """Removes and returns the task of this number. Returns None if there is none: a child of
        the worker has answered, too.
        """
        self._is_slow = False
        if self.tasks and self.tasks[0].number == number:
            return self.tasks.popleft()
        task = next((task for task in self.tasks if task.number == number), None)
        if task is not None:
            self.tasks.remove(task)
        return task

    def take_back(self) -> Task | None:
        """Returns a task that is still in the pipe, so that the worker has not begun it and never
        will.
        """
        received = _pipe.receive_now(self._ends.there)
        task = None if received is None else self.answered(received.number)
        if received is None or task is None:
            return None
        task.packed = received.pack_again()
        self._tasks_left += 1
        return task

    def take_all_back(self) -> list[Task]:
        """Returns all such tasks, in order. The worker gets no other until it has finished its
        current one.
        """
        tasks = list(iter(self.take_back, None))
        self._is_slow = True
        return tasks

    def has_done_all(self) -> bool:
        """Returns whether it has performed all tasks that it may perform."""
        return not self.tasks and self._tasks_left <= 0

    def end(self, by: signal.Signals) -> None:
        """Ends the worker now, by this signal."""
        self.was_ended = True
        self._life.send(by)

    def let_go(self) -> None:
        """Closes the pipe: the worker leaves after its current task."""
        self.was_let_go = True
        self._ends.close()

    def reap(self) -> None:
        """Waits until the worker has ended, and sweeps what it held."""
        self.process.join()
        _internals.sweep_dead()


def _is_small(packed: OutgoingMessage) -> bool:
    payload, arrays, fds = packed
    return not arrays and not fds and sum(map(len, payload)) <= SMALL_BYTES


def _ending(pid: int | None, exitcode: int | None) -> str:
    """Returns how a process ended, in words."""
    if exitcode is None:
        return f"worker {pid} has ended"
    if exitcode >= 0:
        return f"worker {pid} ended with exit code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:  # a real-time signal
        name = f"signal {-exitcode}"
    return f"worker {pid} was killed by {name}"


class _Life:
    """A process from its start to its end, never another process that got the same pid.

    A process's sentinel may be kept open by its children, and a pid may be reused by the kernel.
    Neither is true of a pidfd.
    """

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self._pidfd: _fds.OwnedFd | None = None
        pid: int | None = getattr(process, "pid", None)
        if pid is None:
            return  # no process of the system
        # The system may have no pidfds, or the process has ended and its parent knows.
        with contextlib.suppress(OSError):
            self._pidfd = _fds.OwnedFd(lambda: os.pidfd_open(pid))

    def fileno(self) -> int:
        """Returns the fd that is readable when the process has ended."""
        return self._process.sentinel if self._pidfd is None else self._pidfd.fileno()

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process: SIGTERM or SIGKILL."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd.fileno(), number)
        elif number == signal.SIGKILL:
            self._process.kill()
        else:
            self._process.terminate()
