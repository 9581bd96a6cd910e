"""The dispatcher: the thread of the parent that gives tasks to workers and takes their answers.

It waits for all workers at once, and for nothing else. Other threads add tasks, start workers for
them, and end the dispatcher.
"""

import collections
import contextlib
import functools
import itertools
import math
import os
import selectors
import signal
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from ... import WorkerLost
from .. import _internals, _wire
from .._ipc import _fds
from . import _pipe
from ._child import WorkerProtocol, work
from ._task import CALLBACKS, Task
from ._worker import SMALL_TASKS_MOST, TASKS_MOST, Worker

STARTS_MOST = 4
"""The number of workers, beyond the size of the pool, that may end in a row before any was ready.
"""


class Start(Protocol):
    """Starts a process."""

    def __call__(self, target: Callable[..., None], args: tuple[Any, ...]) -> BaseProcess: ...


class Dispatcher:
    """Gives tasks to workers. Its owner starts and ends it; it has no reference to its owner, which
    may be garbage collected first.
    """

    error: BaseException | None = None
    """The error that ended it, which all unfinished tasks raise."""

    def __init__(
        self,
        size: int,
        start: Start,
        protocol: type[WorkerProtocol],
        initializer: Callable[..., object] | None = None,
        initargs: Any = (),
        *,
        tasks_most: float | None = None,
        small_ahead: bool = False,
        on_demand: bool = False,
        idle_seconds: float | None = None,
        lost: type[WorkerLost] = WorkerLost,
        at_end: Callable[[BaseException, bool], None] | None = None,
        allocator: bool = False,
    ) -> None:
        """Each worker performs ``tasks_most`` tasks. With ``small_ahead`` several small tasks may
        wait at a worker, where nobody can cancel them.

        With ``on_demand`` there are no more workers than tasks, and idle workers leave after
        ``idle_seconds``. Otherwise there are always ``size`` workers. ``at_end`` is called when the
        dispatcher ends, unless it was closed. With ``allocator`` NumPy's arrays in the workers are
        born shared.
        """
        self.thread = threading.Thread(name="shmarray-dispatcher", target=self._run, daemon=True)
        self._size = size
        self._start_process = start
        self._arguments = (protocol, initializer, initargs, allocator)
        self._protocol = protocol
        self._lost = lost
        self._at_end = at_end
        self._tasks_most = math.inf if tasks_most is None else tasks_most
        self._small_most = SMALL_TASKS_MOST if small_ahead else TASKS_MOST
        self._far = 2 * self._small_most * size
        self._on_demand = on_demand
        self._idle_seconds = idle_seconds
        self._pid = os.getpid()
        self._lock = threading.Lock()  # guards what other threads change, too
        self._workers: list[Worker] = []
        self._unwatched: collections.deque[Worker] = collections.deque()
        self._alive = self._being_started = 0
        self._failed_starts = 0
        self._waiting: collections.deque[Task] = collections.deque()
        self._numbers = itertools.count(1)
        self._unsettled = 0
        self._is_closing = self._is_terminated = self._drops_waiting = False
        self._end_signal = signal.SIGTERM
        self._wakeup_fd = _fds.OwnedFd(lambda: os.eventfd(0))
        self._selector = selectors.PollSelector()
        self._selector.register(self._wakeup_fd.fileno(), selectors.EVENT_READ, self._was_woken)
        self._has_news = self._is_asleep = False

    # Methods for other threads. A finalizer may call `close` and `terminate` in any thread at any
    # point, so these two take no lock.

    @property
    def processes(self) -> list[BaseProcess]:
        """The processes of all workers."""
        return [worker.process for worker in list(self._workers)]

    def fill(self) -> None:
        """Starts all workers. Raises what starting a process raises; then no worker is left."""
        try:
            while len(self._workers) < self._size:
                self._workers.append(self._new_worker())
                self._alive += 1
        except BaseException:
            for worker in self._workers:
                worker.end(signal.SIGTERM)
                worker.let_go()
            for worker in self._workers:
                worker.reap()
            raise

    def submit(self, task: Task) -> None:
        """Adds a task. Raises RuntimeError after `close`, the error that ended the dispatcher, or
        what starting a process raises.
        """
        self.check_process()
        if task.packed is None and _internals.has_borrowed():
            task.pack_early(self._protocol)
        with self._lock:
            if self.error is not None or self._is_closing:
                self._check_open()
            task.number = next(self._numbers)
            self._unsettled += 1
            has_workers = self._alive >= self._size or not self._lacks_workers()
            if has_workers:
                self._waiting.append(task)
        if not has_workers:
            self._submit_after_refill(task)
        self._has_news = True
        if self._is_asleep:
            self._wake_up()

    def _submit_after_refill(self, task: Task) -> None:
        try:
            self._refill()
            with self._lock:
                self._check_open()
                self._waiting.append(task)
        except BaseException:
            self._unsettle()
            self._wake_up()  # the dispatcher may have been closed, and waits for this task
            raise

    def close(self, *, drop_waiting: bool = False) -> None:
        """Ends the dispatcher when all tasks are done, or only those that have begun."""
        self._drops_waiting |= drop_waiting
        self._is_closing = True
        self._wake_up()

    def terminate(self) -> None:
        """Ends the dispatcher and all workers now."""
        self._is_terminated |= self.error is None
        self._give_up(self._lost("the workers were terminated"))

    def end_workers(self, by: signal.Signals) -> None:
        """Ends the dispatcher and all workers now, by this signal. Tasks that have not begun are
        dropped, and those that have are lost.
        """
        self._is_closing = self._drops_waiting = True
        self._end_signal = by
        self._give_up(self._lost("the workers were ended, and their tasks are lost"))
        for worker in list(self._workers):
            worker.end(by)

    def join(self) -> None:
        """Waits until the dispatcher has ended. Returns at once in its own thread and in a forked
        child.
        """
        if threading.current_thread() is not self.thread and self._pid == os.getpid():
            self.thread.join()

    def check_process(self) -> None:
        """Raises RuntimeError in a forked child, which has no part in its parent's workers."""
        if self._pid != os.getpid():
            raise RuntimeError("the workers belong to the process that forked this one")

    def _check_open(self) -> None:
        if self.error is not None:
            raise self.error.with_traceback(None)
        if self._is_closing:
            raise RuntimeError("no tasks can be added after closing")

    def _wake_up(self) -> None:
        self._has_news = True
        if self._is_asleep and self._pid == os.getpid():
            self._is_asleep = False
            os.eventfd_write(self._wakeup_fd.fileno(), 1)

    # Workers.

    def _new_worker(self) -> Worker:
        start = functools.partial(self._start_process, work)
        worker = Worker(
            lambda end: start((end, *self._arguments)), self._tasks_most, self._small_most
        )
        self._unwatched.append(worker)
        return worker

    def _refill(self) -> None:
        """Starts the workers that are missing. Raises what starting a process raises if there is
        none at all.
        """
        while self._reserves_start():
            worker = None
            try:
                worker = self._new_worker()
            except Exception:
                if not self._alive:
                    raise
                return
            finally:
                with self._lock:
                    self._being_started -= 1
                    if worker is not None:
                        self._workers.append(worker)
                        self._alive += 1
                self._wake_up()

    def _reserves_start(self) -> bool:
        """Reserves the start of a worker for the caller. Returns False if no worker is missing."""
        with self._lock:
            is_free = self._lacks_workers()
            self._being_started += is_free
            return is_free

    def _lacks_workers(self) -> bool:
        return self._alive + self._being_started < self._wanted()

    def _wanted(self) -> int:
        if self._is_ending():
            return 0
        return min(self._size, self._unsettled) if self._on_demand else self._size

    def _watch(self, worker: Worker) -> None:
        for fd, react in (worker.pipe(), self._take_answers), (worker.death(), self._ended):
            self._selector.register(fd, selectors.EVENT_READ, functools.partial(react, worker))

    def _let_go(self, worker: Worker) -> None:
        if not worker.was_let_go:
            self._selector.unregister(worker.pipe())
            worker.let_go()

    def _let_all_go(self) -> None:
        for worker in list(self._workers):
            self._let_go(worker)

    def _take_answers(self, worker: Worker) -> None:
        """Takes the answers of a worker, but not endlessly: other workers have their turn."""
        for _ in range(self._small_most):
            if worker.was_let_go or (received := worker.hear()) is None:
                return
            self._take(worker, received)
            if not worker.tasks:
                return

    def _ended(self, worker: Worker) -> None:
        """Handles the end of a worker's process. Tasks that it had not received go to others. Tasks
        that it had begun are lost.
        """
        self._selector.unregister(worker.death())
        returned = list[Task]()
        if not worker.was_let_go:
            while (received := worker.hear()) is not None:
                self._take(worker, received)
            returned = worker.take_all_back()
            self._failed_starts += not worker.is_ready
            self._let_go(worker)
        worker.reap()
        with self._lock:
            self._alive -= 1
        self._waiting.extendleft(reversed(returned))
        self._unsettle(len(worker.tasks))
        self._replace(worker)
        for task in worker.tasks:
            with CALLBACKS:
                task.settle(False, self._loss(worker))

    def _replace(self, worker: Worker) -> None:
        """Starts another worker, if one is missing."""
        error: BaseException | None = worker.refusal
        if self._failed_starts > self._size + STARTS_MOST:
            error = self._lost(
                f"{self._failed_starts} workers in a row ended before they were ready: {worker}"
            )
        if error is None:
            try:
                self._refill()
            except Exception as failure:
                error = self._lost(
                    f"no worker is left: {worker}, and another cannot be started: {failure!r}"
                )
        if error is not None:
            self._give_up(error)
        with self._lock:
            self._workers.remove(worker)

    def _loss(self, worker: Worker) -> WorkerLost:
        error = self._lost(f"{worker}, and its task is lost")
        error.pid = worker.process.pid
        error.exitcode = worker.process.exitcode
        return error

    # Tasks.

    def _take(self, worker: Worker, received: _pipe.WorkerMessage) -> None:
        """Handles a message of a worker."""
        if received.kind == _wire.READY:
            worker.is_ready = True
            self._failed_starts = 0
        elif received.kind == _wire.REFUSED:
            worker.refusal = received.unpack()  # the worker ends after this message
        elif (task := worker.answered(received.number)) is not None:
            if worker.has_done_all():
                self._let_go(worker)
            elif worker.takes_another():
                self._give_next(worker)  # before callbacks of the program run
            self._finish(task, *_outcome(received))

    def _distribute(self) -> None:
        """Gives each waiting task to the worker that has the fewest tasks; among those, to a ready
        one.
        """
        self._take_back_overtaken()
        while self._waiting:
            takers = [worker for worker in self._workers if worker.takes_another()]
            if not takers:
                return
            if not self._give_next(
                min(takers, key=lambda worker: (len(worker.tasks), not worker.is_ready))
            ):
                break
        self._balance()

    def _take_back_overtaken(self) -> None:
        """Takes back tasks that wait behind a long task while other workers are far ahead."""
        newest = max(
            (worker.tasks[-1].number for worker in self._workers if worker.tasks), default=0
        )
        for worker in self._workers:
            if len(worker.tasks) > 1 and newest - worker.tasks[1].number > self._far:
                self._waiting.extendleft(reversed(worker.take_all_back()))

    def _balance(self) -> None:
        """Gives idle workers the tasks that other workers have not begun, when no task waits."""
        for idle in [worker for worker in self._workers if worker.is_ready and not worker.tasks]:
            for busy in [worker for worker in self._workers if len(worker.tasks) > worker.is_ready]:
                if idle.takes_another() and (task := busy.take_back()) is not None:
                    self._waiting.appendleft(task)
                    self._give_next(idle)
                    break

    def _give_next(self, worker: Worker) -> bool:
        """Gives the next task to a worker. Returns False if there is no task, or no room for it."""
        while self._waiting and worker.has_room_for(self._waiting[0]):
            task = self._waiting.popleft()
            if not task.has_begun and not self._begin(task):
                continue
            try:
                worker.send(task)
            except TimeoutError:
                # There will be room when the worker has received what it has, or has died.
                self._waiting.appendleft(task)
                return False
            except Exception as error:
                self._finish(task, False, error)
                continue
            return True
        return False

    def _begin(self, task: Task) -> bool:
        """Marks a task as begun and packs it. Returns False if the task ends here."""
        if not task.begin():
            self._unsettle()
            return False
        task.has_begun = True
        try:
            if task.failure is not None:
                raise task.failure
            if task.packed is None:
                task.pack(self._protocol)
        except BaseException as error:
            self._finish(task, False, error)
            return False
        return True

    def _finish(self, task: Task, succeeded: bool, value: Any) -> None:
        self._unsettle()
        with CALLBACKS:
            task.settle(succeeded, value)

    def _unsettle(self, count: int = 1) -> None:
        with self._lock:
            self._unsettled -= count
            self._has_news |= not self._unsettled  # the dispatcher may be done

    # The loop.

    def _run(self) -> None:
        try:
            while not self._is_over():
                self._has_news = False
                self._update_workers()
                self._wait()
        except BaseException as error:  # so that nobody waits forever
            self._give_up(error)
            raise
        finally:
            if self.error is not None:
                self._end(self.error)
                if self._at_end is not None:
                    self._at_end(self.error, self._is_terminated)
            # The selector has bound methods of this object, which would otherwise live until a
            # garbage collection.
            self._selector.close()

    def _is_over(self) -> bool:
        with self._lock:
            return self._is_ending() and not self._workers and not self._being_started

    def _is_ending(self) -> bool:
        return self.error is not None or (self._is_closing and not self._unsettled)

    def _update_workers(self) -> None:
        """Does what may be necessary after an event."""
        while self._unwatched:
            self._watch(self._unwatched.popleft())
        if self.error is not None:
            self._end(self.error)
        elif self._is_ending():
            self._let_all_go()
        else:
            self._distribute()
            self._drop_waiting()

    def _wait(self) -> None:
        """Waits for an event."""
        self._is_asleep = True  # from here on a thread with news writes to the wake-up fd
        patience = self._idle_seconds if self._on_demand and not self._unsettled else None
        events = self._selector.select(0 if self._has_news else patience)
        self._is_asleep = False
        for key, _ in events:
            key.data()
        if not (events or self._has_news):
            self._let_all_go()

    def _was_woken(self) -> None:
        os.eventfd_read(self._wakeup_fd.fileno())

    # The end.

    def _give_up(self, error: BaseException) -> None:
        """Makes all unfinished tasks raise this error."""
        if self.error is None:
            self.error = error
        self._wake_up()

    def _drop_waiting(self) -> None:
        """Drops the tasks that have not begun, if `close` said so. A task that came back from a
        worker has begun.
        """
        if not self._drops_waiting:
            return
        with self._lock:
            dropped = [task for task in self._waiting if not task.has_begun]
            self._waiting = collections.deque(task for task in self._waiting if task.has_begun)
            self._drops_waiting = False
            self._unsettled -= len(dropped)
        for task in dropped:
            with CALLBACKS:
                task.drop(self._lost("the task was cancelled"))

    def _end(self, error: BaseException) -> None:
        """Ends all workers and all tasks."""
        self._drop_waiting()
        for worker in list(self._workers):
            if not worker.was_ended:
                worker.end(self._end_signal)
            with contextlib.suppress(KeyError):  # this thread may have failed to register it
                self._let_go(worker)
        with self._lock:
            tasks = [*self._waiting, *(task for worker in self._workers for task in worker.tasks)]
            self._waiting.clear()
            for worker in self._workers:
                worker.tasks.clear()
            self._unsettled -= len(tasks)
        for task in tasks:
            with CALLBACKS:
                task.drop(error) if self._is_terminated else task.settle(False, error)


def _outcome(received: _pipe.WorkerMessage) -> tuple[bool, Any]:
    """Returns the outcome of a task. If it cannot be unpickled, the task raises that error."""
    try:
        succeeded, value = received.unpack()
    except BaseException as error:
        return False, error
    return succeeded, value
