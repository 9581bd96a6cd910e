"""Workers that are started as loky's are, and stay for the next call with the same setup."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joblib.externals.loky import process_executor
from joblib.externals.loky.backend.process import LokyProcess

from .._tasks._workers import Task
from ..concurrent.process import ProcessPoolExecutor
from ._batches import BatchProtocol, BatchTask, Snapshots


class Setup(NamedTuple):
    """The settings that workers are started with."""

    n_jobs: int
    environment: dict[str, str]
    idle_seconds: float
    allocator: bool
    initializer: Callable[..., object] | None
    initargs: Sequence[Any]

    def is_same(self, other: "Setup") -> bool:
        return (
            self[:-1] == other[:-1]
            and len(self.initargs) == len(other.initargs)
            and all(
                one is another for one, another in zip(self.initargs, other.initargs, strict=True)
            )
        )


class Executor(ProcessPoolExecutor):
    """Workers that are started as loky's are."""

    def __init__(self, setup: Setup, register: Callable[[], None]) -> None:
        """Workers call ``register`` first, so their calls may use the backend by its name."""
        self._kind = setup
        self._idle_seconds = setup.idle_seconds
        self._protocol = BatchProtocol
        beginning = register, process_executor._CURRENT_DEPTH + 1, setup.initializer, setup.initargs
        context = _Loky(setup.environment)
        super().__init__(setup.n_jobs, context, _begin, beginning, allocator=setup.allocator)
        self.snapshots: Snapshots | None = None

    def fits(self, setup: Setup) -> bool:
        """Returns whether a call with this setup can use these workers."""
        return self._kind.is_same(setup) and not self._broken

    def end_snapshots(self) -> None:
        """Drops the snapshots. Workers that still read one have it mapped."""
        if self.snapshots is not None:
            self.snapshots.clear()
            self.snapshots = None

    def terminate(self) -> None:
        """Ends the workers together with their tasks."""
        self.shutdown(wait=False)
        if self._dispatcher is not None:
            self._dispatcher.terminate()
            self._dispatcher.join()

    def _make_task(self, future: Any, call: tuple[Any, Any, Any]) -> Task:
        return BatchTask(future, call, self.snapshots)


class _Loky:
    """A context that starts processes as loky does: new interpreters that do not run the main
    program.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def get_start_method(self, allow_none: bool = False) -> str:  # noqa: ARG002 (as any context)
        return "loky"

    def Process(self, target: Callable[..., object], args: Any) -> Any:  # noqa: N802
        return LokyProcess(target=target, args=args, env=self._environment)


def _begin(
    register: Callable[[], None],
    depth: int,
    initializer: Callable[..., object] | None,
    initargs: Sequence[Any],
) -> None:
    process_executor._CURRENT_DEPTH = depth  # loky counts the depth of nested loops
    register()
    if initializer is not None:
        initializer(*initargs)


class _Spare:
    """The workers of the last call, for the next call if it has the same setup. One caller has them
    at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: Executor | None = None

    def exchange(self, executor: Executor | None) -> Executor | None:
        """Stores these workers, and returns those that were stored."""
        with self._lock:
            executor, self._executor = self._executor, executor
        return executor

    def take(self, setup: Setup) -> Executor | None:
        executor = self.exchange(None)
        if executor is None or executor.fits(setup):
            return executor
        executor.shutdown(wait=False)
        return None

    def put_back(self, executor: Executor) -> None:
        executor.end_snapshots()
        before = self.exchange(executor)
        if before is not None:
            before.shutdown(wait=False)


spare = _Spare()
