"""Starting a process as a new program."""

from multiprocessing import popen_spawn_posix
from typing import Any

from . import _parcel
from ._reaping import Reaping

__all__ = ["Popen"]


class Popen(Reaping, popen_spawn_posix.Popen):
    """As the standard one, with the process object in a parcel."""

    def _launch(self, process_obj: Any) -> None:
        with _parcel.launching(process_obj, self) as parcel:
            super()._launch(parcel)  # type: ignore[misc]
