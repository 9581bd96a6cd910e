"""The warning, once in a process, that data found no room in shared memory and is copied."""

import warnings

_WAS_TOLD = False
FULL = (MemoryError, OSError)
"""The errors of creating an array if shared memory is full, too small, or unavailable."""


def tell(error: BaseException, instead: str = "is copied through pipes") -> None:
    """Warns the first time. ``error`` has the figures and the remedy. Raises if warnings are
    errors.
    """
    global _WAS_TOLD
    if not _WAS_TOLD:
        _WAS_TOLD = True
        warnings.warn(f"{error}. Data without room {instead}.", RuntimeWarning, stacklevel=2)
