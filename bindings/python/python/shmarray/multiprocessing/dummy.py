"""The standard module."""

import sys
from multiprocessing import dummy
from multiprocessing.dummy import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.dummy import __all__ as __all__

sys.modules[__name__] = dummy
