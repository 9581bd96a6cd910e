"""The standard module."""

import sys
from multiprocessing import heap
from multiprocessing.heap import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.heap import __all__ as __all__

sys.modules[__name__] = heap
