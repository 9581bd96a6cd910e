"""A backend for joblib whose workers receive arrays and return results by handle.

>>> import joblib, numpy, shmarray.joblib
>>> shmarray.joblib.register()
>>> with joblib.parallel_config(backend="shmarray"):
...     joblib.Parallel(n_jobs=2)(joblib.delayed(numpy.full)(3, number) for number in range(2))
[array([0, 0, 0]), array([1, 1, 1])]

It works as joblib's own backend "loky": workers are new interpreters that do not run the main
program again; what they cannot import is pickled by value; each has its share of the processors for
its own threads; they stay for the next call, and leave after five idle minutes. Arrays and a
worker's death are handled differently:

* Results come back by handle.
* Large private arguments are shared once for all tasks of a call, and the tasks get them read-only.
  Loky writes them into a file. As with loky, ``max_nbytes`` is the limit, and tasks do not see a
  change of such an array during the call. With ``max_nbytes=None`` each task gets a copy that it
  may write into. An array that finds no room in shared memory is in a file in ``temp_folder``.
* Arrays that are shared already stay shared: tasks write into them in place.
* When a worker dies, the call raises ``shmarray.concurrent.WorkerLost``.
"""

import abc
import os
import warnings
from collections.abc import Callable
from multiprocessing import current_process
from typing import Any

import joblib
from joblib._multiprocessing_helpers import mp
from joblib.parallel import (
    AutoBatchingMixin,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
)

from .. import _replaced as _replaced
from ._batches import Snapshots
from ._executor import Executor, Setup, spare

__all__ = ["ShmarrayBackend", "register"]

_IDLE_SECONDS = 300.0


def register() -> None:
    """Registers ``backend="shmarray"`` with joblib in this process. A second call does nothing.

    >>> import joblib, shmarray.joblib
    >>> shmarray.joblib.register()
    >>> with joblib.parallel_config(backend="shmarray", n_jobs=2):
    ...     joblib.Parallel()(joblib.delayed(abs)(number) for number in [-1, -2])
    [1, 2]
    """
    joblib.register_parallel_backend("shmarray", ShmarrayBackend)


class ShmarrayBackend(
    AutoBatchingMixin,  # type: ignore[misc]
    ParallelBackendBase,  # type: ignore[misc]
    metaclass=abc.ABCMeta,
):
    """The backend that joblib asks for workers.

    Programs give its name to ``joblib.parallel_config`` or ``joblib.Parallel``.
    """

    supports_retrieve_callback = True
    supports_inner_max_num_threads = True

    _workers: Executor | None = None

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Returns how many workers there would be. Raises ValueError for 0."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None or n_jobs == 1 or mp is None:
            # joblib found no room for a semaphore, and has said that it will operate in serial
            # mode.
            return 1
        if current_process().daemon:
            return _one("cannot be nested below a daemonic process")
        if not (self.in_main_thread() or self.nesting_level == 0):
            return _one("cannot be nested below threads")
        return n_jobs if n_jobs > 0 else max(joblib.cpu_count() + 1 + n_jobs, 1)

    def configure(
        self,
        n_jobs: int = 1,
        parallel: Any = None,
        prefer: str | None = None,  # noqa: ARG002 (what joblib gives every backend)
        require: str | None = None,  # noqa: ARG002
        **options: Any,
    ) -> int:
        """Gets the workers for the next calls. Returns how many there are."""
        n_jobs = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel, options = parallel, {**self.backend_kwargs, **options}
        self._large_bytes = options.get("max_nbytes")
        self._mode = options.get("mmap_mode")
        self._folder = options.get("temp_folder")
        self._setup = Setup(
            n_jobs,
            {**self._prepare_worker_env(n_jobs), **_own_environment()},
            options.get("idle_worker_timeout") or _IDLE_SECONDS,
            bool(options.get("allocator")),
            options.get("initializer"),
            options.get("initargs", ()),
        )
        self._workers = spare.take(self._setup) or Executor(self._setup, register)
        return n_jobs

    def start_call(self) -> None:
        """Called before the tasks of a call are submitted."""
        if (
            self._workers is not None
            and self._large_bytes is not None
            and self._mode in ("r", "r+", "w+")
        ):
            self._workers.snapshots = Snapshots(self._large_bytes, self._mode, self._folder)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], None] | None = None) -> Any:
        """Submits a batch of calls to a worker."""
        assert self._workers is not None
        future = self._workers.submit(func)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # its name in joblib before 1.5

    def retrieve_result_callback(self, future: Any) -> Any:
        """Returns the result of a batch."""
        return future.result()

    def stop_call(self) -> None:
        """Drops the snapshots that the tasks of the call had in common."""
        if self._workers is not None:
            self._workers.end_snapshots()

    def terminate(self) -> None:
        """Keeps the workers for the next call."""
        if self._workers is not None:
            spare.put_back(self._workers)
            self._workers = None
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Ends the workers together with their tasks."""
        if self._workers is not None:
            self._workers.terminate()
            self._workers = None
        if ensure_ready:
            self._workers = Executor(self._setup, register)


def _one(why: str) -> int:
    warnings.warn(f"shmarray-backed parallel loops {why}, setting n_jobs=1", stacklevel=4)
    return 1


def _own_environment() -> dict[str, str]:
    """Returns the variables of this library. Workers that were started with others do not fit."""
    return {name: value for name, value in os.environ.items() if name.startswith("SHMARRAY_")}
