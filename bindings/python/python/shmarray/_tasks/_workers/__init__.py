"""Workers: processes that perform tasks, and the dispatcher that gives tasks to them.

Pools and executors use this package. TASKS.md has the protocol, and says what a crash leaves at
each of its steps.
"""

from ._backlog import Backlog
from ._child import WorkerProtocol
from ._dispatcher import Dispatcher
from ._task import CALLBACKS, Call, Task

__all__ = ["CALLBACKS", "Backlog", "Call", "Dispatcher", "Task", "WorkerProtocol"]
