"""Process executors that move arrays by handle, and whose workers may die.

The future of a task whose worker died raises ``WorkerLost``. The executor goes on:

>>> import os
>>> from shmarray.concurrent import ProcessPoolExecutor, WorkerLost
>>> with ProcessPoolExecutor(1) as executor:
...     lost = executor.submit(os._exit, 3)
...     try:
...         lost.result()
...     except WorkerLost as error:
...         print("exit code", error.exitcode)
...     executor.submit(pow, 2, 10).result()
exit code 3
1024

As with the standard executor, an initializer that raises breaks the executor.
"""

import functools
import os
import signal
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, _base
from concurrent.futures import process as _standard
from concurrent.futures.process import BrokenProcessPool as BrokenProcessPool
from multiprocessing import parent_process, util
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .. import WorkerLost as AnyWorkerLost
from .. import multiprocessing
from .._tasks import _internals
from .._tasks._borrowed import own
from .._tasks._workers import Call, Dispatcher, Task, WorkerProtocol
from ..multiprocessing.context import check_context

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class WorkerLost(AnyWorkerLost, BrokenProcessPool):
    """The worker of a task died. The executor is not broken: other tasks go on."""


class ExecutorTask(Task):
    """The task of a future."""

    def __init__(self, future: Future[Any], call: tuple[Any, Any, Any]) -> None:
        super().__init__(call)
        self._future = future

    def begin(self) -> bool:
        return self._future.set_running_or_notify_cancel()

    def settle(self, succeeded: bool, value: Any) -> None:
        if succeeded:
            self._future.set_result(value)
        else:
            self._future.set_exception(value)

    def drop(self, error: BaseException) -> None:
        if self._future.cancel():
            self._future.set_running_or_notify_cancel()  # wakes those who wait for several
        else:
            self._future.set_exception(error)


class ExecutorProtocol(WorkerProtocol):
    """Performs tasks as the standard executor's workers do."""

    @staticmethod
    def initialize(initializer: Callable[..., object], initargs: Any) -> Any:
        try:
            initializer(*initargs)
        except BaseException as error:
            _base.LOGGER.critical("Exception in initializer:", exc_info=True)
            raised = _raised(error)
            raised.exc = BrokenProcessPool(f"the initializer raised {error!r}")
            return raised
        return None

    @staticmethod
    def perform(function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, Any]:
        try:
            return True, function(*args, **kwargs)
        except BaseException as error:
            return False, _raised(error)

    @staticmethod
    def explain(error: BaseException, value: object) -> Any:  # noqa: ARG004 (as any protocol's)
        return _raised(error)


def _raised(error: BaseException) -> Any:
    """Returns an exception to send, with the worker's traceback as text."""
    return _standard._ExceptionWithTraceback(error, error.__traceback__)  # type: ignore[arg-type]


class ProcessPoolExecutor(_standard.ProcessPoolExecutor):
    """Works as ``concurrent.futures.ProcessPoolExecutor``, which has the rest of its documentation.

    >>> import numpy
    >>> from shmarray.concurrent import ProcessPoolExecutor
    >>> with ProcessPoolExecutor(2) as executor:
    ...     [array.shape for array in executor.map(numpy.zeros, [10, 1_000_000])]
    [(10,), (1000000,)]
    """

    _protocol: type[WorkerProtocol] = ExecutorProtocol
    _mp_context: Any
    _idle_seconds: float | None = None

    def __init__(
        self,
        max_workers: int | None = None,
        mp_context: Any = None,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
        *,
        max_tasks_per_child: int | None = None,
        allocator: bool = False,
    ) -> None:
        if max_workers is None:
            max_workers = getattr(os, "process_cpu_count", os.cpu_count)() or 1
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        if mp_context is None:
            mp_context = multiprocessing.get_context(
                None if max_tasks_per_child is None else "spawn"
            )
        check_context(mp_context, "mp_context")
        _check_tasks(max_tasks_per_child, mp_context)
        self._max_workers = max_workers
        self._mp_context = mp_context
        self._max_tasks_per_child = max_tasks_per_child
        self._setup = initializer, initargs
        self._has_allocator = allocator
        self._shutdown_lock = threading.Lock()
        self._shutdown_thread = False
        self._dispatcher: Dispatcher | None = None
        self._call = Call()

    @property
    def _broken(self) -> str | bool:  # type: ignore[override]
        dispatcher = self._dispatcher
        return False if dispatcher is None or dispatcher.error is None else str(dispatcher.error)

    @property
    def _executor_manager_thread(self) -> threading.Thread | None:  # type: ignore[override]
        return None if self._dispatcher is None else self._dispatcher.thread

    @property
    def _processes(self) -> dict[int | None, BaseProcess]:  # type: ignore[override]
        """The workers' processes by pid. Methods of the standard executor and programs read it."""
        return (
            {}
            if self._dispatcher is None
            else {process.pid: process for process in self._dispatcher.processes}
        )

    def submit(
        self,
        fn: Callable[_Parameters, _Result],
        /,
        *args: _Parameters.args,
        **kwargs: _Parameters.kwargs,
    ) -> Future[_Result]:
        """Schedules ``fn(*args, **kwargs)`` for a worker, and returns the future of its result.

        Raises RuntimeError if the executor or the interpreter is being shut down, BrokenProcessPool
        if no worker gets through the initializer, OSError if none can be started.
        """
        with self._shutdown_lock:
            if self._broken:
                raise BrokenProcessPool(self._broken)
            if self._shutdown_thread:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if _exit.has_begun:
                raise RuntimeError("cannot schedule new futures after interpreter shutdown")
            if self._dispatcher is None:
                self._dispatcher = self._start_dispatcher()
            future: Future[_Result] = Future()
            task = self._make_task(future, (fn, args, kwargs))
            task.copies = self._call.copies
            self._dispatcher.submit(task)
            return future

    if not TYPE_CHECKING:  # its type is that of the standard executor's

        def map(self, fn, *iterables, chunksize=1, **options):
            if chunksize > 1:
                iterables = [own(iterable) for iterable in iterables]
            if options.get("buffersize") is None:  # else tasks are submitted later
                self._call.copies = _internals.CallCopies.of(fn, iterables, compares=True)
            try:
                return super().map(fn, *iterables, chunksize=chunksize, **options)
            finally:
                self._call.copies = None

    def _make_task(self, future: Future[Any], call: tuple[Any, Any, Any]) -> Task:
        return ExecutorTask(future, call)

    def _start_dispatcher(self) -> Dispatcher:
        dispatcher = Dispatcher(
            self._max_workers,
            functools.partial(_start, self._mp_context),
            self._protocol,
            *self._setup,
            tasks_most=self._max_tasks_per_child,
            on_demand=True,
            idle_seconds=self._idle_seconds,
            lost=WorkerLost,
            allocator=self._has_allocator,
        )
        if self._mp_context.get_start_method(allow_none=False) == "fork":
            dispatcher.fill()  # before this process has threads of ours
        dispatcher.thread.start()
        _exit.waits_for(dispatcher)
        weakref.finalize(self, dispatcher.close).atexit = False
        return dispatcher

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more tasks. The workers leave when the last task is done, or cancelled before it
        began.
        """
        with self._shutdown_lock:
            self._shutdown_thread = True
            dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.close(drop_waiting=cancel_futures)
            if wait:
                dispatcher.join()

    def terminate_workers(self) -> None:
        """Ends the workers by SIGTERM, without waiting for their tasks, and takes no more.

        Tasks that have not begun are cancelled, and the others raise WorkerLost. The standard
        executor has this since Python 3.14.
        """
        self._force_shutdown(operation="terminate")

    def kill_workers(self) -> None:
        """Ends the workers by SIGKILL, as ``terminate_workers`` does by SIGTERM."""
        self._force_shutdown(operation="kill")

    def _force_shutdown(self, operation: str) -> None:
        signals = {"terminate": signal.SIGTERM, "kill": signal.SIGKILL}
        if operation not in signals:
            raise ValueError(f"Unsupported operation: {operation!r}")
        dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.check_process()
        self.shutdown(wait=False, cancel_futures=True)
        if dispatcher is not None:
            dispatcher.end_workers(signals[operation])


def _check_tasks(most: object, context: Any) -> None:
    if most is None:
        return
    if not isinstance(most, int):
        raise TypeError("max_tasks_per_child must be an integer")
    if most <= 0:
        raise ValueError("max_tasks_per_child must be >= 1")
    if context.get_start_method(allow_none=False) == "fork":
        raise ValueError(
            "max_tasks_per_child is incompatible with the 'fork' multiprocessing start method"
        )


def _start(context: Any, target: Any, args: Any) -> BaseProcess:
    process: BaseProcess = context.Process(target=target, args=args)
    process.start()
    return process


class _Exit:
    """Finishes all tasks before the interpreter exits, as the standard executors do.

    In a child that multiprocessing started, this happens before it waits for its own children. With
    the standard executors, workers and their parent wait for each other there.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self._expected_in: int | None = None
        self._dispatchers: weakref.WeakSet[Dispatcher] = weakref.WeakSet()

    def waits_for(self, dispatcher: Dispatcher) -> None:
        if self._expected_in != os.getpid():
            self._expected_in = os.getpid()
            self._dispatchers = weakref.WeakSet()
            threading._register_atexit(self._begin)  # type: ignore[attr-defined]
            if parent_process() is not None:
                util.Finalize(None, self._begin, exitpriority=100)
        self._dispatchers.add(dispatcher)

    def _begin(self) -> None:
        self.has_begun = True
        dispatchers = list(self._dispatchers)
        for dispatcher in dispatchers:
            dispatcher.close()
        for dispatcher in dispatchers:
            dispatcher.join()


_exit = _Exit()
