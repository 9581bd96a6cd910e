"""Workers: processes that do tasks, and the thread that sees to them. What pools and executors
stand on.

PROCESSES.md has the protocol, and what a crash leaves at each of its steps.
"""

from ._backlog import Backlog
from ._child import WorkerProtocol
from ._dispatcher import Dispatcher
from ._task import CALLBACKS, Task

__all__ = ["CALLBACKS", "Backlog", "Dispatcher", "Task", "WorkerProtocol"]
