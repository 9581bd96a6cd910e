"""The standard module."""

import sys
from multiprocessing import dummy
from multiprocessing.dummy import *  # noqa: F403 (for type checkers)
from multiprocessing.dummy import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = dummy
