"""The standard module. A new program begins in the same way."""

import sys
from multiprocessing import spawn
from multiprocessing.spawn import *  # noqa: F403 (for type checkers)
from multiprocessing.spawn import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = spawn
