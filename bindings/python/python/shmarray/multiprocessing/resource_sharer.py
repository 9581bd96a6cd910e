"""The standard module."""

import sys
from multiprocessing import resource_sharer
from multiprocessing.resource_sharer import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.resource_sharer import __all__ as __all__

sys.modules[__name__] = resource_sharer
