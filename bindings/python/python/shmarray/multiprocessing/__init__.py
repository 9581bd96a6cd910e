"""The standard module ``multiprocessing``, with arrays that move by handle.

Import this package instead of ``multiprocessing``: it has the same names. Its processes, pipes,
queues, pools and managers pickle objects as usual, but the memory of arrays inside them goes
through shared memory. An array that is shared already is not copied at all.

>>> import numpy
>>> import shmarray.multiprocessing as mp
>>> def work(task, results):
...     frame = task.recv()
...     results.put(frame.sum())
>>> results = mp.Queue()
>>> task, their_end = mp.Pipe()
>>> worker = mp.get_context("fork").Process(target=work, args=(their_end, results))
>>> worker.start()
>>> task.send(numpy.ones((480, 640)))
>>> float(results.get())
307200.0
>>> worker.join()

The start method (``set_start_method``) is independent of the standard module's. Locks, events,
values and arrays of C types are the standard module's.
"""

from typing import TYPE_CHECKING

from .. import _replaced as _replaced
from .context import AuthenticationError as AuthenticationError
from .context import BufferTooShort as BufferTooShort
from .context import Process as Process
from .context import ProcessError as ProcessError
from .context import TimeoutError as TimeoutError
from .context import _default_context

if TYPE_CHECKING:  # classes as in the standard module's stubs, for annotations
    from . import reduction as reducer
    from .process import active_children as active_children
    from .process import current_process as current_process
    from .process import parent_process as parent_process
    from .queues import JoinableQueue as JoinableQueue
    from .queues import Queue as Queue
    from .queues import SimpleQueue as SimpleQueue
    from .spawn import freeze_support as freeze_support
else:
    JoinableQueue = _default_context.JoinableQueue
    Queue = _default_context.Queue
    SimpleQueue = _default_context.SimpleQueue
    active_children = _default_context.active_children
    current_process = _default_context.current_process
    freeze_support = _default_context.freeze_support
    parent_process = _default_context.parent_process
    reducer = _default_context.reducer
    del TYPE_CHECKING  # the standard module has no such name

__all__ = [
    "Array",
    "AuthenticationError",
    "Barrier",
    "BoundedSemaphore",
    "BufferTooShort",
    "Condition",
    "Event",
    "JoinableQueue",
    "Lock",
    "Manager",
    "Pipe",
    "Pool",
    "Process",
    "ProcessError",
    "Queue",
    "RLock",
    "RawArray",
    "RawValue",
    "Semaphore",
    "SimpleQueue",
    "TimeoutError",
    "Value",
    "active_children",
    "allow_connection_pickling",
    "cpu_count",
    "current_process",
    "freeze_support",
    "get_all_start_methods",
    "get_context",
    "get_logger",
    "get_start_method",
    "log_to_stderr",
    "parent_process",
    "reducer",
    "set_executable",
    "set_forkserver_preload",
    "set_start_method",
]

SUBDEBUG = 5
SUBWARNING = 25

Array = _default_context.Array
Barrier = _default_context.Barrier
BoundedSemaphore = _default_context.BoundedSemaphore
Condition = _default_context.Condition
Event = _default_context.Event
Lock = _default_context.Lock
Manager = _default_context.Manager
Pipe = _default_context.Pipe
Pool = _default_context.Pool
RLock = _default_context.RLock
RawArray = _default_context.RawArray
RawValue = _default_context.RawValue
Semaphore = _default_context.Semaphore
Value = _default_context.Value
allow_connection_pickling = _default_context.allow_connection_pickling
cpu_count = _default_context.cpu_count
get_all_start_methods = _default_context.get_all_start_methods
get_context = _default_context.get_context
get_logger = _default_context.get_logger
get_start_method = _default_context.get_start_method
log_to_stderr = _default_context.log_to_stderr
set_executable = _default_context.set_executable
set_forkserver_preload = _default_context.set_forkserver_preload
set_start_method = _default_context.set_start_method

# The functions above import these modules, as the standard package's do. A child that is forked
# while another thread imports one would wait for that thread for ever, so all are imported now.
from . import connection as connection  # noqa: E402
from . import forkserver as forkserver  # noqa: E402
from . import heap as heap  # noqa: E402
from . import managers as managers  # noqa: E402
from . import pool as pool  # noqa: E402
from . import popen_fork as popen_fork  # noqa: E402
from . import popen_forkserver as popen_forkserver  # noqa: E402
from . import popen_spawn_posix as popen_spawn_posix  # noqa: E402
from . import process as process  # noqa: E402
from . import queues as queues  # noqa: E402
from . import resource_sharer as resource_sharer  # noqa: E402
from . import resource_tracker as resource_tracker  # noqa: E402
from . import sharedctypes as sharedctypes  # noqa: E402
from . import synchronize as synchronize  # noqa: E402
