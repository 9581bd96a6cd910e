"""``concurrent.futures`` with executors of processes that move arrays by handle, and whose workers
may die.
"""

from concurrent.futures import (
    ALL_COMPLETED,
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    TimeoutError,
    as_completed,
    wait,
)

from .process import BrokenProcessPool, ProcessPoolExecutor, WorkerLost

__all__ = [
    "ALL_COMPLETED",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "BrokenExecutor",
    "BrokenProcessPool",
    "CancelledError",
    "Executor",
    "Future",
    "InvalidStateError",
    "ProcessPoolExecutor",
    "ThreadPoolExecutor",
    "TimeoutError",
    "WorkerLost",
    "as_completed",
    "wait",
]
