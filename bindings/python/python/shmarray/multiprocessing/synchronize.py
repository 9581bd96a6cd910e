"""The standard module."""

import sys
from multiprocessing import synchronize
from multiprocessing.synchronize import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.synchronize import __all__ as __all__

sys.modules[__name__] = synchronize
