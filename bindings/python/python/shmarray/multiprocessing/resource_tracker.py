"""The standard module."""

import sys
from multiprocessing import resource_tracker
from multiprocessing.resource_tracker import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.resource_tracker import __all__ as __all__

sys.modules[__name__] = resource_tracker
