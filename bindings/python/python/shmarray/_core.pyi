import sys
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Error",
    "Handle",
    "Hold",
    "StaleHandleError",
    "__version__",
    "_error_classes",
    "attach",
    "copied_bytes",
    "create",
    "create_permuted",
    "handle",
    "is_shared",
    "segments",
    "share",
    "sweep",
    "unlink",
]

__version__: str
"""The version of the core that this is built on."""

_Scalar = TypeVar("_Scalar", bound=np.generic)

class Error(Exception):
    """What goes wrong in shared memory and is no built-in exception."""

class StaleHandleError(Error):
    """The handle is of an earlier life of its segment."""

@final
class Handle:
    """Where an array is, for any process of this machine: ``str(handle)`` is one line of text."""

    def __new__(cls, text: str) -> Handle: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def offset(self) -> int: ...
    @property
    def segment(self) -> str: ...
    @property
    def generation(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[type[Handle], tuple[str]]: ...

@final
class Hold:
    """Keeps a segment mapped: the ``base`` of the arrays in it."""

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

def create(
    shape: Sequence[SupportsIndex], dtype: np.dtype[Any], order: str, name: str | None, persist: bool, mode: int
) -> NDArray[Any]: ...
def create_permuted(
    shape: Sequence[SupportsIndex], dtype: np.dtype[Any], axes: Sequence[int], mode: int
) -> NDArray[Any]: ...
def share(source: NDArray[_Scalar], order: str, name: str | None, persist: bool, mode: int) -> NDArray[_Scalar]: ...
def attach(handle_or_name: Handle | str, readonly: bool) -> NDArray[Any]: ...
def handle(array: NDArray[Any]) -> Handle: ...
def is_shared(array: object) -> bool: ...
def unlink(name: str) -> None: ...
def sweep() -> tuple[int, int]: ...
def segments() -> list[tuple[str, str | None, int, str, tuple[int, ...], int, int]]: ...
def copied_bytes() -> int: ...
def _error_classes() -> list[tuple[str, type[BaseException] | None]]: ...
