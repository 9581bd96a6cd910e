"""What finds no room in shared memory goes another way, which copies it.

That is told once in a process.
"""

import warnings

_WAS_TOLD = False
FULL = (MemoryError, OSError)
"""What making an array raises where shared memory is full, too small, or not to be had."""


def tell(error: BaseException, instead: str = "is copied through pipes") -> None:
    """Warns, the first time; ``error`` has the figures and the remedy.

    Raises where warnings are errors.
    """
    global _WAS_TOLD
    if not _WAS_TOLD:
        _WAS_TOLD = True
        warnings.warn(f"{error}. What does not fit {instead}.", RuntimeWarning, stacklevel=2)
