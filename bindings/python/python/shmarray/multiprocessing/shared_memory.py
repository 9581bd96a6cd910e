"""The standard module."""

import sys
from multiprocessing import shared_memory
from multiprocessing.shared_memory import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.shared_memory import __all__ as __all__

sys.modules[__name__] = shared_memory
