"""Contexts with this package's processes, connections, queues, pools and managers.

Locks and all else that does not send objects are the standard module's.
"""

import functools
import multiprocessing.context as context  # pyright does not find it in the package
import sys
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.context import AuthenticationError as AuthenticationError
from multiprocessing.context import BufferTooShort as BufferTooShort
from multiprocessing.context import ProcessError as ProcessError
from multiprocessing.context import TimeoutError as TimeoutError
from multiprocessing.context import assert_spawning as assert_spawning
from multiprocessing.context import get_spawning_popen as get_spawning_popen
from multiprocessing.context import set_spawning_popen as set_spawning_popen
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

from . import reduction as reduction

if TYPE_CHECKING:
    from .connection import Connection
    from .managers import SyncManager
    from .pool import Pool
    from .popen_fork import Popen as ForkPopen
    from .popen_forkserver import Popen as ForkServerPopen
    from .popen_spawn_posix import Popen as SpawnPopen
    from .queues import JoinableQueue, Queue, SimpleQueue

__all__ = ()


class BaseContext(context.BaseContext):
    """The functions of the package under one start method."""

    def Manager(self) -> "SyncManager":  # noqa: N802 (the standard's names)
        """Returns a manager whose server process has started."""
        from .managers import SyncManager

        manager = SyncManager(ctx=self.get_context())
        manager.start()
        return manager

    def Pipe(  # noqa: N802
        self, duplex: bool = True
    ) -> "tuple[Connection[Any, Any], Connection[Any, Any]]":
        """Returns the two ends of a new pipe. Unless ``duplex``, the first receives and the second
        sends.
        """
        from .connection import Pipe

        return Pipe(duplex)

    def Queue(self, maxsize: int = 0) -> "Queue[Any]":  # noqa: N802
        """Returns a queue."""
        from .queues import Queue

        return Queue(maxsize, ctx=self.get_context())

    def JoinableQueue(self, maxsize: int = 0) -> "JoinableQueue[Any]":  # noqa: N802
        """Returns a queue of tasks."""
        from .queues import JoinableQueue

        return JoinableQueue(maxsize, ctx=self.get_context())

    def SimpleQueue(self) -> "SimpleQueue[Any]":  # noqa: N802
        """Returns a queue that is only a pipe."""
        from .queues import SimpleQueue

        return SimpleQueue(ctx=self.get_context())

    def Pool(  # noqa: N802
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[Any] = (),
        maxtasksperchild: int | None = None,
        *,
        allocator: bool = False,
    ) -> "Pool":
        """Returns a pool of worker processes."""
        from .pool import Pool

        return Pool(
            processes,
            initializer,
            initargs,
            maxtasksperchild,
            context=self.get_context(),
            allocator=allocator,
        )

    if sys.version_info < (3, 15):

        def set_forkserver_preload(self, module_names: Sequence[str]) -> None:
            """Sets the modules that this package's fork server tries to import when it starts."""
            from .forkserver import set_forkserver_preload

            set_forkserver_preload(module_names)

    else:

        def set_forkserver_preload(
            self, module_names: Sequence[str], *, on_error: str = "ignore"
        ) -> None:
            """Sets the modules that this package's fork server tries to import when it starts. If
            that fails, it goes on ("ignore"), warns ("warn"), or ends ("fail").
            """
            from .forkserver import set_forkserver_preload

            set_forkserver_preload(module_names, on_error=on_error)

    @overload
    def get_context(self, method: None = None) -> "DefaultContext": ...
    @overload
    def get_context(self, method: Literal["spawn"]) -> "SpawnContext": ...
    @overload
    def get_context(self, method: Literal["fork"]) -> "ForkContext": ...
    @overload
    def get_context(self, method: Literal["forkserver"]) -> "ForkServerContext": ...
    @overload
    def get_context(self, method: str) -> "BaseContext": ...
    def get_context(self, method: str | None = None) -> Any:
        """Returns the context of a start method, "fork", "spawn" or "forkserver", or else this
        context's.
        """
        if method is None:
            return self._concrete()
        try:
            return _concrete_contexts[method]
        except KeyError:
            raise ValueError(f"cannot find context for {method!r}") from None

    def _concrete(self) -> "BaseContext":
        return self

    @property
    def reducer(self) -> Any:
        """The module that pickles objects, for modules that are imported from now on."""
        return globals()["reduction"]

    @reducer.setter
    def reducer(self, reduction: Any) -> None:
        globals()["reduction"] = reduction


def check_context(candidate: Any, parameter: str) -> None:
    """Raises TypeError if an argument is no context, for example the name of a start method. The
    message says how to get one.
    """
    if not hasattr(candidate, "Process"):
        method = candidate if candidate in _concrete_contexts else "spawn"
        call = f'{parameter}=shmarray.multiprocessing.get_context("{method}")'
        raise TypeError(f"{parameter} must be a context, not {candidate!r}: {call}")


def _set_start_method(method: str | None) -> None:
    _default_context.set_start_method(method, force=True)


class _PassesStartMethod:
    """A process that may be a new program, which does not know this one's start method."""

    @staticmethod
    def _start_method_setter() -> Callable[[], None]:
        """Returns the call that gives a child that is started now this process's start method."""
        method = _default_context.get_start_method(allow_none=True)
        return functools.partial(_set_start_method, method)


class Process(_PassesStartMethod, context.Process):
    """A process of the default context."""

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802
        return _default_context.get_context().Process._Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        concrete: Any = _default_context.get_context().Process
        concrete._after_fork()


class DefaultContext(BaseContext, context.DefaultContext):
    """The context of the package's functions. Its start method is independent of the standard
    module's.
    """

    if TYPE_CHECKING:
        _actual_context: BaseContext

    Process: ClassVar[type[context.Process]] = Process

    def _concrete(self) -> BaseContext:
        """Returns the context of the start method. If none was set, the default is fixed now."""
        self.get_start_method()
        return self._actual_context


# The standard start method of a child is that of its parent. These processes have no standard start
# method; they tell this package how they were started.


class ForkProcess(context.ForkProcess):
    """A process that is forked."""

    _start_method: Any = None

    @staticmethod
    def _Popen(process_obj: Any) -> "ForkPopen":  # noqa: N802
        from .popen_fork import Popen

        return Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        _force_start_method("fork")
        _standard_after_fork()


class SpawnProcess(_PassesStartMethod, context.SpawnProcess):
    """A process that is a new program."""

    _start_method: Any = None

    @staticmethod
    def _Popen(process_obj: Any) -> "SpawnPopen":  # noqa: N802
        from .popen_spawn_posix import Popen

        return Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        _force_start_method("spawn")


class ForkServerProcess(_PassesStartMethod, context.ForkServerProcess):
    """A process that a server forks."""

    _start_method: Any = None

    @staticmethod
    def _Popen(process_obj: Any) -> "ForkServerPopen":  # noqa: N802
        from .popen_forkserver import Popen

        return Popen(process_obj)

    @staticmethod
    def _after_fork() -> None:
        _force_start_method("forkserver")
        _standard_after_fork()


_standard_after_fork: Callable[[], None] = getattr(context.ForkProcess, "_after_fork")  # noqa: B009


class ForkContext(BaseContext, context.ForkContext):
    """Forks processes. Each has all that its parent had."""

    _name = "fork"
    Process: ClassVar[type[ForkProcess]] = ForkProcess


class SpawnContext(BaseContext, context.SpawnContext):
    """Starts processes as new programs."""

    _name = "spawn"
    Process: ClassVar[type[SpawnProcess]] = SpawnProcess


class ForkServerContext(BaseContext, context.ForkServerContext):
    """Starts processes that a server forks. They have nothing of their parent's."""

    _name = "forkserver"
    Process: ClassVar[type[ForkServerProcess]] = ForkServerProcess


_concrete_contexts: dict[str, BaseContext] = {
    "fork": ForkContext(),
    "spawn": SpawnContext(),
    "forkserver": ForkServerContext(),
}
_default_context = DefaultContext(
    _concrete_contexts[context._default_context.get_all_start_methods()[0]]
)


def _force_start_method(method: str) -> None:
    _default_context._actual_context = _concrete_contexts[method]
