"""The standard module of Windows, where it can be imported. This package starts no process
there.
"""

import sys

if sys.platform == "win32":
    from multiprocessing.popen_spawn_win32 import *  # noqa: F403
    from multiprocessing.popen_spawn_win32 import __all__ as __all__
else:
    __all__: list[str] = []
