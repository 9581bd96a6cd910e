"""The standard module."""

import sys
from multiprocessing import process
from multiprocessing.process import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.process import __all__ as __all__

sys.modules[__name__] = process
