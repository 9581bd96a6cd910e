"""The standard module: how a new program begins is the same here and there."""

import sys
from multiprocessing import spawn
from multiprocessing.spawn import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.spawn import __all__ as __all__

sys.modules[__name__] = spawn
