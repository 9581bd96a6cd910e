"""The standard module."""

import sys
from multiprocessing import shared_memory
from multiprocessing.shared_memory import *  # noqa: F403 (for type checkers)
from multiprocessing.shared_memory import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = shared_memory
