"""``concurrent.futures`` with process executors that move arrays by handle.

If a worker of such an executor dies, only its task is lost.
"""

import sys
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

from .. import _replaced as _replaced
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

if sys.version_info >= (3, 14):
    from concurrent.futures import InterpreterPoolExecutor as InterpreterPoolExecutor

    __all__ += ["InterpreterPoolExecutor"]
