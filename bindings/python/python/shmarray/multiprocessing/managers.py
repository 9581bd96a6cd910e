"""Managers whose proxies move arrays by handle.

This module runs the source of the standard module. Its relative imports find the connections,
contexts, pools and pickling of this package.
"""

import importlib.util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.managers import BaseListProxy as BaseListProxy
    from multiprocessing.managers import BaseManager as BaseManager
    from multiprocessing.managers import BaseProxy as BaseProxy
    from multiprocessing.managers import DictProxy as DictProxy
    from multiprocessing.managers import ListProxy as ListProxy
    from multiprocessing.managers import Namespace as Namespace
    from multiprocessing.managers import RemoteError as RemoteError
    from multiprocessing.managers import Server as Server
    from multiprocessing.managers import SharedMemoryManager as SharedMemoryManager
    from multiprocessing.managers import SharedMemoryServer as SharedMemoryServer
    from multiprocessing.managers import SyncManager as SyncManager
    from multiprocessing.managers import Token as Token
    from multiprocessing.managers import ValueProxy as ValueProxy

    __all__ = ["BaseManager", "BaseProxy", "SharedMemoryManager", "SyncManager", "Token"]
else:
    _spec = importlib.util.find_spec("multiprocessing.managers")
    exec(_spec.loader.get_code(_spec.name), globals())
