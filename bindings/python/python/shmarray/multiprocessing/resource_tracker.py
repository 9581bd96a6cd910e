"""The standard module."""

import sys
from multiprocessing import resource_tracker
from multiprocessing.resource_tracker import *  # noqa: F403 (for type checkers)
from multiprocessing.resource_tracker import __all__ as __all__

# At runtime an import of this name gives the standard module itself.
sys.modules[__name__] = resource_tracker
