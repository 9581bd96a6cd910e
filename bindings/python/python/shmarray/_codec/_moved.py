"""An array that is handed over with its memory."""

from typing import Any

import numpy as np

from ._parts import Array


class Moved:
    """What `shmarray.move` returns: it arrives as the array."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array

    @property
    def array(self) -> Array:
        """The array, for one message. Raises ValueError if a message has it."""
        array, self._array = self._array, None
        if array is None:
            raise ValueError("it was sent already: a moved array is in one message")
        return array

    def __reduce__(self) -> Any:
        """Any other pickle has a copy."""
        return np.array, (self.array,)
