"""The standard module."""

import sys
from multiprocessing import synchronize
from multiprocessing.synchronize import *  # noqa: F403 (for type checkers)
from multiprocessing.synchronize import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = synchronize
