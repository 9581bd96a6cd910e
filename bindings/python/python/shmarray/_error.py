"""The errors that only Python's part of the library raises."""

from ._core import Error


class WorkerLost(Error):  # noqa: N818 (the name is the same in every language)
    """The worker of a pool or an executor died, and its task is lost.

    The task's result raises it. Other tasks go on.
    """

    pid: int | None = None
    """The worker's pid."""
    exitcode: int | None = None
    """The exit code, as ``multiprocessing.Process.exitcode``. If negative, it is the number of the
    signal that killed the worker.
    """
