"""Workers that are started as loky's are, and stay for the next call that wants the same."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from joblib.externals.loky import process_executor
from joblib.externals.loky.backend.process import LokyProcess

from .._workers import Task
from ..concurrent.process import ProcessPoolExecutor
from ._batches import BatchProtocol, BatchTask, Snapshots


class Setup(NamedTuple):
    """What workers are started with."""

    n_jobs: int
    environment: dict[str, str]
    idle_seconds: float
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
        """Workers call ``register`` first: their calls may use the backend by its name."""
        self._kind, self._idle_seconds, self._protocol = setup, setup.idle_seconds, BatchProtocol
        beginning = register, process_executor._CURRENT_DEPTH + 1, setup.initializer, setup.initargs
        super().__init__(setup.n_jobs, _Loky(setup.environment), _begin, beginning)
        self.snapshots: Snapshots | None = None

    def fits(self, setup: Setup) -> bool:
        """Whether it can be used for a call that wants these."""
        return self._kind.is_same(setup) and not self._broken

    def end_snapshots(self) -> None:
        """They go now; those who still read them have them."""
        if self.snapshots is not None:
            self.snapshots.clear()
            self.snapshots = None

    def terminate(self) -> None:
        """Workers end with what they do."""
        self.shutdown(wait=False)
        if self._dispatcher is not None:
            self._dispatcher.terminate()
            self._dispatcher.join()

    def _make_task(self, future: Any, call: tuple[Any, Any, Any]) -> Task:
        return BatchTask(future, call, self.snapshots)


class _Loky:
    """A context whose processes are loky's:

    new interpreters that do not run the main program again.
    """

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    def get_start_method(self, allow_none: bool = False) -> str:  # noqa: ARG002 (as any context)
        return "loky"

    def Process(self, target: Callable[..., object], args: Any) -> Any:  # noqa: N802 (as any context)
        return LokyProcess(target=target, args=args, env=self._environment)


def _begin(
    register: Callable[[], None],
    depth: int,
    initializer: Callable[..., object] | None,
    initargs: Sequence[Any],
) -> None:
    process_executor._CURRENT_DEPTH = depth  # loky counts how deep loops are nested
    register()
    if initializer is not None:
        initializer(*initargs)


class _Spare:
    """Workers that the last call left for the next, if that wants the same: it has them alone."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: Executor | None = None

    def exchange(self, executor: Executor | None) -> Executor | None:
        """Leaves these, and takes those that are there."""
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
