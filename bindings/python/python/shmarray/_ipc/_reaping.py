"""Whoever is told that a process has ended gives back what it held."""

import os
from typing import TYPE_CHECKING

from .. import _core

__all__ = ["Reaping"]

if TYPE_CHECKING:
    from multiprocessing.popen_fork import Popen as _Base
else:
    _Base = object


class Reaping(_Base):
    """Comes before a standard ``Popen``:

    all that waits for a process, or looks at it, asks its ``poll``.
    """

    def poll(self, flag: int = os.WNOHANG) -> int | None:
        was_known = self.returncode is not None
        code = super().poll(flag)
        if code is not None and not was_known:
            _core.sweep_dead()
        return code
