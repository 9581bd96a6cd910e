"""Process pools that move arrays by handle, and whose workers may die.

The task of a worker that dies raises ``WorkerLost``. A new worker replaces the dead one, and the
pool goes on:

>>> import os, shmarray, shmarray.multiprocessing as mp
>>> with mp.get_context("fork").Pool(1) as pool:
...     lost = pool.apply_async(os._exit, (3,))
...     try:
...         lost.get()
...     except shmarray.WorkerLost as error:
...         print("exit code", error.exitcode)
...     pool.map(abs, [-1, 2])
exit code 3
[1, 2]

Where the standard pool waits forever, this one raises: ``WorkerLost`` for unfinished tasks if the
pool is terminated or no worker gets through the initializer, and the error of unpickling if a task
or a result cannot be unpickled.
"""

import contextlib
import functools
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import pool as _standard
from multiprocessing import util
from multiprocessing.pool import CLOSE, INIT, RUN, TERMINATE, IMapIterator, ThreadPool
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .._tasks import _internals
from .._tasks._borrowed import own
from .._tasks._workers import CALLBACKS, Backlog, Call, Dispatcher, Task, WorkerProtocol
from .context import _default_context, check_context

__all__ = ["Pool", "ThreadPool"]

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")

get_context = _default_context.get_context  # as in the standard module


if TYPE_CHECKING:
    from multiprocessing.pool import ApplyResult as ApplyResult
    from multiprocessing.pool import AsyncResult as AsyncResult
    from multiprocessing.pool import IMapUnorderedIterator as IMapUnorderedIterator
    from multiprocessing.pool import MapResult as MapResult
else:

    def __getattr__(name: str) -> Any:
        """Returns any other name of the standard module."""
        return getattr(_standard, name)


class Pool(_standard.Pool):
    """Works as ``multiprocessing.pool.Pool``, which has the rest of its documentation.

    >>> import numpy, shmarray, shmarray.multiprocessing as mp
    >>> rows = shmarray.zeros((4, 1000))
    >>> with mp.get_context("fork").Pool(2) as pool:
    ...     pool.starmap(numpy.copyto, [(row, number) for number, row in enumerate(rows)])
    [None, None, None, None]
    >>> rows[:, 0].tolist()
    [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        context: Any = None,
        *,
        allocator: bool = False,
    ) -> None:
        self._state = INIT  # for __del__, if this raises
        self._call = _PoolCall()
        self._ctx = context or get_context()
        check_context(self._ctx, "context")
        self._processes = _count(processes)
        _check(initializer, maxtasksperchild)
        self._cache: dict[int, Any] = {}
        wraps: bool = self._wrap_exception  # type: ignore[attr-defined]
        protocol = _PoolProtocol if wraps else _BarePoolProtocol
        self._dispatcher = Dispatcher(
            self._processes,
            functools.partial(_start, self.Process, self._ctx),
            protocol,
            initializer,
            initargs,
            tasks_most=maxtasksperchild,
            small_ahead=True,
            at_end=functools.partial(_abandon_all, self._cache),
            allocator=allocator,
        )
        self._dispatcher.fill()
        self._dispatcher.thread.start()
        self._taskqueue = _Feeder(self._dispatcher, protocol, self._cache)
        self._taskqueue.thread.start()
        self._terminate = util.Finalize(
            self, _terminate, (self._dispatcher, self._taskqueue), exitpriority=15
        )
        self._state = RUN

    @property
    def _pool(self) -> list[BaseProcess]:
        """The workers' processes. Methods of the standard pool and programs read it."""
        return self._dispatcher.processes

    def _repopulate_pool(self) -> None:
        """Does nothing: the dispatcher starts workers."""

    def map(
        self,
        func: Callable[[_Item], _Outcome],
        iterable: Iterable[_Item],
        chunksize: int | None = None,
    ) -> list[_Outcome]:
        with self._blocking():
            return super().map(func, iterable, chunksize)

    def starmap(
        self,
        func: Callable[..., _Outcome],
        iterable: Iterable[Iterable[Any]],
        chunksize: int | None = None,
    ) -> list[_Outcome]:
        with self._blocking():
            return super().starmap(func, iterable, chunksize)

    @contextlib.contextmanager
    def _blocking(self) -> Iterator[None]:
        """Marks a call of which this thread waits for all tasks."""
        self._call.is_blocking = True
        try:
            yield
        finally:
            self._call.is_blocking = False

    def _map_async(self, func: Any, iterable: Iterable[Any], *arguments: Any) -> Any:
        is_blocking, self._call.is_blocking = self._call.is_blocking, False
        self._check_running()
        items: Any = own(iterable)
        if not hasattr(items, "__len__"):
            items = list(items)  # as the standard pool
        copies = (
            _internals.CallCopies.of(func, [items], compares=not is_blocking)
            if len(items) > 1
            else None
        )
        with self._taskqueue.of_call(copies):
            return super()._map_async(func, items, *arguments)  # type: ignore[misc]

    if not TYPE_CHECKING:  # their types are those of the standard pool's

        def imap(self, func, iterable, chunksize=1):
            return super().imap(func, iterable if chunksize == 1 else own(iterable), chunksize)

        def imap_unordered(self, func, iterable, chunksize=1):
            gathered = iterable if chunksize == 1 else own(iterable)
            return super().imap_unordered(func, gathered, chunksize)

    def _check_running(self) -> None:
        self._dispatcher.check_process()
        if self._state == RUN and self._dispatcher.error is not None:
            raise self._dispatcher.error.with_traceback(None)
        super()._check_running()  # type: ignore[misc]

    def __enter__(self) -> Self:
        """Enters the pool even if its workers have ended. Submitting a task raises their error."""
        super()._check_running()  # type: ignore[misc]
        return self

    def close(self) -> None:
        """Takes no more tasks. The workers leave when all tasks are done."""
        if self._state == RUN:
            self._state = CLOSE
            self._taskqueue.end()

    def join(self) -> None:
        """Waits until all workers have left. Raises ValueError if the pool was not closed or
        terminated.
        """
        if self._state not in (CLOSE, TERMINATE):
            raise ValueError("Pool is still running")
        if self._state == CLOSE:
            # The feeder of a terminated pool may be in an iterable that never ends.
            self._taskqueue.thread.join()
        self._dispatcher.join()


class _PoolCall(threading.local):
    """What a thread calls of a pool."""

    is_blocking = False


def _count(processes: int | None) -> int:
    if processes is None:
        processes = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    if processes < 1:
        raise ValueError("Number of processes must be at least 1")
    return processes


def _check(initializer: Any, maxtasksperchild: Any) -> None:
    if maxtasksperchild is not None and (
        not isinstance(maxtasksperchild, int) or maxtasksperchild <= 0
    ):
        raise ValueError("maxtasksperchild must be a positive int or None")
    if initializer is not None and not callable(initializer):
        raise TypeError("initializer must be a callable")


def _start(
    process: Callable[..., BaseProcess], context: Any, target: Any, args: Any
) -> BaseProcess:
    worker = process(context, target=target, args=args)
    worker.name = worker.name.replace("Process", "PoolWorker")
    worker.daemon = True
    worker.start()
    return worker


def _terminate(dispatcher: Dispatcher, feeder: "_Feeder") -> None:
    dispatcher.terminate()
    feeder.end()
    dispatcher.join()


class _PoolProtocol(WorkerProtocol):
    """Performs tasks as the standard pool's workers do."""

    @staticmethod
    def perform(function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, Any]:
        try:
            return True, function(*args, **kwargs)
        except Exception as error:
            if function is _standard._helper_reraises_exception:  # type: ignore[attr-defined]
                return False, error
            wrap = _standard.ExceptionWithTraceback  # type: ignore[attr-defined]
            return False, wrap(error, error.__traceback__)

    @staticmethod
    def explain(error: BaseException, value: object) -> Any:
        if not isinstance(error, Exception):
            raise error
        return _standard.MaybeEncodingError(error, value)  # type: ignore[attr-defined]


class _BarePoolProtocol(_PoolProtocol):
    """Sends exceptions without the worker's traceback."""

    @staticmethod
    def perform(function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, Any]:
        try:
            return True, function(*args, **kwargs)
        except Exception as error:
            return False, error


class _Task(Task):
    """A part of a job."""

    def __init__(self, jobs: dict[int, Any], part: tuple[Any, ...], backlog: Backlog) -> None:
        self._job, self._index, function, args, kwargs = part
        super().__init__((function, args, kwargs))
        self._jobs = jobs
        self._backlog = backlog
        self._size = 0

    def pack(self, protocol: type[WorkerProtocol]) -> None:
        super().pack(protocol)
        assert self.packed is not None
        payload, arrays, _ = self.packed
        self._size = sum(map(len, payload)) + (
            sum(array.nbytes for array in arrays) if arrays else 0
        )
        self._backlog.add(self._size)

    def begin(self) -> bool:
        if self._size:
            self._backlog.take_off(self._size)
            self._size = 0
        return True

    def settle(self, succeeded: bool, value: Any) -> None:
        if self._size:
            self.begin()  # nothing else will
        _set(self._jobs, self._job, self._index, (succeeded, value))

    def drop(self, error: BaseException) -> None:  # noqa: ARG002 (what all jobs are told)
        self.begin()  # all jobs are abandoned together


class _Feeder:
    """Submits the parts of one job after the other. Their iterable may be slow or endless."""

    def __init__(
        self, dispatcher: Dispatcher, protocol: type[WorkerProtocol], jobs: dict[int, Any]
    ) -> None:
        self._dispatcher = dispatcher
        self._protocol = protocol
        self._jobs = jobs
        self._backlog = Backlog()
        self._sequences: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._call = Call()
        self._lock = threading.Lock()
        self._unfed = 0
        self.thread = threading.Thread(name="shmarray-feeder", target=self._run, daemon=True)

    @contextlib.contextmanager
    def of_call(self, copies: _internals.Copies | None) -> Iterator[None]:
        """Gives the tasks that this thread adds meanwhile these copies in common."""
        self._call.copies = copies
        try:
            yield
        finally:
            self._call.copies = None

    def put(self, sequence: tuple[Iterable[tuple[Any, ...]], Callable[[int], None] | None]) -> None:
        """Adds a job. If it is the first in line and was not given as an iterator, the parts that
        have room are submitted at once, without waking a thread.
        """
        parts, set_length = sequence
        copies = self._call.copies
        if set_length is None and _internals.has_borrowed():
            # An array of a channel's slot is valid only now. Other jobs may wait for room.
            for part in parts:
                if not self._submit(part, copies):
                    break
            return
        with self._lock:
            is_first = not self._unfed and self._backlog.has_room()
            self._unfed += 1
        if not is_first or set_length is not None:
            self._sequences.put((*sequence, copies))
            return
        rest = iter(parts)
        is_fed = True
        try:
            is_fed = self._feed_what_has_room(rest, copies)
        finally:
            if is_fed:
                self._was_fed()
        if not is_fed:
            self._sequences.put((rest, None, copies))

    def _feed_what_has_room(
        self, parts: Iterator[tuple[Any, ...]], copies: _internals.Copies | None
    ) -> bool:
        """Submits parts while there is room. Returns whether these were all."""
        while self._backlog.has_room():
            part = next(parts, None)
            if part is None or not self._submit(part, copies):
                return True
        return False

    def end(self) -> None:
        """Ends the feeder after the jobs it has. It takes no lock, because a finalizer calls it."""
        self._sequences.put(None)

    def _run(self) -> None:
        while (sequence := self._sequences.get()) is not None:
            self._feed(*sequence)
            self._was_fed()
            del sequence  # its arguments are released before the next job
        self._dispatcher.close()

    def _feed(
        self,
        parts: Iterable[tuple[Any, ...]],
        set_length: Callable[[int], None] | None,
        copies: _internals.Copies | None,
    ) -> None:
        count = 0
        for part in parts:
            count = part[1] + 1
            self._backlog.wait()
            if not self._submit(part, copies):
                return
        if set_length:
            with contextlib.suppress(KeyError):  # the job was abandoned meanwhile
                set_length(count)

    def _was_fed(self) -> None:
        with self._lock:
            self._unfed -= 1

    def _submit(self, part: tuple[Any, ...], copies: _internals.Copies | None) -> bool:
        """Submits a part. Returns False if no worker is left, so that the rest of the job is
        pointless.
        """
        task = _Task(self._jobs, part, self._backlog)
        task.copies = copies
        try:
            task.pack(self._protocol)
        except BaseException as error:
            self._raise_interrupt(part[0], error)
            _set(self._jobs, part[0], part[1], (False, error))
            return True
        try:
            self._dispatcher.submit(task)
        except BaseException as error:
            self._raise_interrupt(part[0], error)
            _abandon(self._jobs, part[0], error, tell=True)
            return False
        return True

    def _raise_interrupt(self, job: int, error: BaseException) -> None:
        """Abandons the job and raises a KeyboardInterrupt that came in the caller's thread.
        As the outcome of a part it would reach the caller only after all other parts.
        """
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is not self.thread:
            _abandon(self._jobs, job, error, tell=False)
            raise error


def _set(jobs: dict[int, Any], job: int, index: int, outcome: tuple[bool, Any]) -> None:
    """Stores the outcome of a part of a job."""
    result = jobs.get(job)
    if result is None:
        return  # the job was abandoned
    with CALLBACKS:
        try:
            result._set(index, outcome)
        except BaseException:
            jobs.pop(job, None)
            result._event.set()
            raise


def _abandon_all(jobs: dict[int, Any], error: BaseException, was_terminated: bool) -> None:
    """Abandons all jobs: no worker is left."""
    for job in list(jobs):
        _abandon(jobs, job, error, tell=not was_terminated)


def _abandon(jobs: dict[int, Any], job: int, error: BaseException, tell: bool) -> None:
    """Makes the unfinished parts of a job raise an error. The error callback is skipped if the
    program itself terminated the pool.
    """
    result = jobs.pop(job, None)
    if isinstance(result, IMapIterator):
        with result._cond:  # type: ignore[attr-defined]
            result._items.append((False, error))  # type: ignore[attr-defined]
            result._length = result._index  # type: ignore[attr-defined]
            result._cond.notify_all()  # type: ignore[attr-defined]
    elif result is not None:
        result._success = False
        result._value = error
        result._pool = None
        with CALLBACKS:
            if tell and result._error_callback:
                result._error_callback(error)
        result._event.set()
