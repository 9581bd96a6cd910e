"""Sweeps what a process held as soon as its end is noticed."""

import os
from typing import TYPE_CHECKING

from .. import _internals

__all__ = ["Reaping"]

if TYPE_CHECKING:
    from multiprocessing.popen_fork import Popen as _Base
else:
    _Base = object


class Reaping(_Base):
    """A base class in front of a standard ``Popen``. Every wait for a process, or look at it, calls
    ``poll``.
    """

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        was_known = self.returncode is not None
        code = super().poll(flag)
        if code is not None and not was_known:
            _internals.sweep_dead()
        return code
