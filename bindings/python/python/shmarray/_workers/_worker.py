"""A worker as its parent sees it: its process, its pipe, and the tasks that it has."""

import collections
import contextlib
import os
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess

from .. import _core, _wire
from .._error import ending
from .._ipc import _fds
from .._ipc._message import OutgoingMessage
from . import _pipe
from ._ends import End, Ends
from ._task import Task

TASKS_MOST = 2
"""So many has a worker: the one that it does, and the next, so that it need not wait for that."""
SMALL_TASKS_MOST = 16
"""So many if they are small, and their owner lets them wait there: then nobody wakes up for each of them."""
SMALL_BYTES = 16 << 10
"""Of a task without arrays and fds."""


class Worker:
    """A new process, which leaves when the parent lets it go, or ends."""

    is_ready = False
    was_let_go = False
    refusal: BaseException | None = None
    """What its initializer raised."""
    was_terminated = False
    _is_slow = False

    def __init__(
        self, start: Callable[[End], BaseProcess], tasks_left: float, small_most: int
    ) -> None:
        self._tasks_left, self._small_most = tasks_left, small_most
        self.tasks: collections.deque[Task] = collections.deque()
        """Those that were sent and not answered, in their order."""
        self._ends = Ends()
        try:
            with self._ends.passed_on() as end:
                self.process = start(end)
        except BaseException:
            self._ends.close()
            raise
        self._life = _Life(self.process)

    def __str__(self) -> str:
        """How it has ended."""
        return ending(self.process.pid, self.process.exitcode)

    def pipe(self) -> int:
        """The fd that can be read when it has said something."""
        return self._ends.here.fileno()

    def death(self) -> int:
        """The fd that can be read when it has ended."""
        return self._life.fileno()

    def hear(self) -> _pipe.WorkerMessage | None:
        """What it has said."""
        return _pipe.receive_now(self._ends.here)

    def takes_another(self) -> bool:
        most = 1 if self._is_slow else self._small_most
        return not self.was_let_go and len(self.tasks) < most and self._tasks_left > 0

    def has_room_for(self, task: Task) -> bool:
        """Whether that may wait with it."""
        return len(self.tasks) < TASKS_MOST or (task.packed is not None and _is_small(task.packed))

    def send(self, task: Task) -> None:
        """Sends a packed task without waiting. Raises TimeoutError when there is no room."""
        assert task.packed is not None
        _pipe.send(self._ends.here, _wire.TASK, task.number, task.packed, 0)
        task.packed = None
        self.tasks.append(task)
        self._tasks_left -= 1

    def answered(self, number: int) -> Task | None:
        """The task of this number, which it has no longer.

        None if somebody else has answered, too: its child.
        """
        self._is_slow = False
        if self.tasks and self.tasks[0].number == number:
            return self.tasks.popleft()
        task = next((task for task in self.tasks if task.number == number), None)
        if task is not None:
            self.tasks.remove(task)
        return task

    def take_back(self) -> Task | None:
        """A task that it has not begun, and now never will: one that is still in the pipe."""
        received = _pipe.receive_now(self._ends.there)
        task = None if received is None else self.answered(received.number)
        if received is None or task is None:
            return None
        task.packed = received.pack_again()
        self._tasks_left += 1
        return task

    def take_all_back(self) -> list[Task]:
        """All those, in their order. It gets no other until it has done what it does."""
        tasks = list(iter(self.take_back, None))
        self._is_slow = True
        return tasks

    def has_done_all(self) -> bool:
        """That it may do."""
        return not self.tasks and self._tasks_left <= 0

    def terminate(self) -> None:
        """It leaves now."""
        self.was_terminated = True
        self._life.terminate()

    def let_go(self) -> None:
        """It leaves when it has done what it does."""
        self.was_let_go = True
        self._ends.close()

    def reap(self) -> None:
        """Waits until it has ended, and gives back what it held."""
        self.process.join()
        _core.sweep_dead()


def _is_small(packed: OutgoingMessage) -> bool:
    payload, arrays, fds = packed
    return not arrays and not fds and sum(map(len, payload)) <= SMALL_BYTES


class _Life:
    """A process from its start to its end: that of no other which gets its number afterwards.

    The sentinel of a process may be kept open by its children, and a number that the kernel has
    given to another process may be killed by mistake: neither is so of its fd.
    """

    def __init__(self, process: BaseProcess) -> None:
        self._process = process
        self._pidfd: _fds.OwnedFd | None = None
        pid: int | None = getattr(process, "pid", None)
        if pid is None:
            return  # no process of the system
        with contextlib.suppress(
            OSError
        ):  # there is no such thing here; or it has ended, and its parent knows
            self._pidfd = _fds.OwnedFd(lambda: os.pidfd_open(pid))

    def fileno(self) -> int:
        """Can be read when it has ended."""
        return self._process.sentinel if self._pidfd is None else self._pidfd.fileno()

    def terminate(self) -> None:
        """It gets SIGTERM."""
        if self._pidfd is None:
            self._process.terminate()
        else:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd.fileno(), signal.SIGTERM)
