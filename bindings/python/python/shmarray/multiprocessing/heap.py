"""The standard module."""

import sys
from multiprocessing import heap
from multiprocessing.heap import *  # noqa: F403 (for type checkers)
from multiprocessing.heap import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = heap
