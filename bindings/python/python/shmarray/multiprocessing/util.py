"""The standard module."""

import sys
from multiprocessing import util
from multiprocessing.util import *  # noqa: F403 (for type checkers: whoever imports this gets the module itself)
from multiprocessing.util import __all__ as __all__

sys.modules[__name__] = util
