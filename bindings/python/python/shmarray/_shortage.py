"""The warning, once in a process, that data found no room in shared memory and is copied."""

import os
import sys
import warnings

_has_warned = False
FULL = (MemoryError, OSError)
"""The errors of creating an array if shared memory is full, too small, or unavailable."""

_PACKAGE = os.path.dirname(__file__) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep


def warn_of_shortage(error: BaseException, instead: str = "is copied through pipes") -> None:
    """Warns the first time. ``error`` has the figures and the remedy. Raises if warnings are
    errors.
    """
    global _has_warned
    if not _has_warned:
        _has_warned = True
        text = f"{error}. Data without room {instead}."
        warnings.warn(text, RuntimeWarning, stacklevel=_level_of_the_program())


def _level_of_the_program() -> int:
    """Returns the ``stacklevel`` of the innermost line that is neither this package's nor the
    standard library's. A thread of this package has none: its warnings name no file of either.
    """
    level = 1
    frame = sys._getframe().f_back
    while frame is not None and _is_between(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    return level


def _is_between(file: str) -> bool:
    """Returns whether a file is code between the program and this warning."""
    is_standard = file.startswith((_STANDARD, "<frozen ")) and "-packages" not in file
    return is_standard or file.startswith(_PACKAGE)
