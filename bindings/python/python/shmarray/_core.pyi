import sys
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, TypeVar, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

__all__ = [
    "Error",
    "Handle",
    "Hold",
    "Message",
    "Pipe",
    "StaleHandleError",
    "__version__",
    "_error_classes",
    "attach",
    "copied_bytes",
    "count_down",
    "create",
    "create_permuted",
    "discard",
    "family",
    "handle",
    "handle_to_send",
    "hold_of",
    "in_band_bytes",
    "is_family_alive",
    "is_plain",
    "is_shared",
    "place",
    "segments",
    "share",
    "sweep",
    "sweep_dead",
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

    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Pipe:
    """One end of a pipe that carries arrays and bytes, both ways."""

    @staticmethod
    def pair() -> tuple[Pipe, Pipe]: ...
    @staticmethod
    def from_fd(fd: int) -> Pipe: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def send(
        self,
        payload: Buffer,
        arrays: Sequence[NDArray[Any] | Hold],
        timeout: float | None = None,
        descriptors: Sequence[int] = ...,
    ) -> None: ...
    def receive(self, timeout: float | None = None) -> tuple[bytes, Message]: ...

@final
class Message:
    """Holds the arrays that were received. Those that were asked for live on by themselves."""

    def __len__(self) -> int: ...
    def take_descriptors(self) -> list[int]: ...
    def array(self, index: int, mode: str = "r+") -> NDArray[Any]: ...
    def memory(self, index: int, mode: str) -> Any: ...
    def read(self, index: int) -> bytes: ...

def create(
    shape: Sequence[SupportsIndex],
    dtype: np.dtype[Any],
    order: str,
    is_zero: bool,
    name: str | None,
    persist: bool,
    mode: int,
) -> NDArray[Any]: ...
def create_permuted(
    shape: Sequence[SupportsIndex], dtype: np.dtype[Any], axes: Sequence[int], is_zero: bool, mode: int
) -> NDArray[Any]: ...
def share(source: NDArray[_Scalar], order: str, name: str | None, persist: bool, mode: int) -> NDArray[_Scalar]: ...
def attach(handle_or_name: Handle | str, readonly: bool) -> NDArray[Any]: ...
def hold_of(array: NDArray[Any]) -> Hold | None: ...
def in_band_bytes() -> int: ...
def count_down(text: str) -> int: ...
def is_family_alive(text: str) -> bool: ...
def sent_array(text: str, mode: str) -> NDArray[Any]: ...
def sent_memory(text: str, mode: str) -> Any: ...
def place(array: NDArray[Any]) -> tuple[Hold, int, bool, int] | None: ...
def handle(array: NDArray[Any] | Hold) -> Handle: ...
def handle_to_send(array: NDArray[Any] | Hold) -> Handle: ...
def discard(data: Handle | str) -> None: ...
def is_plain(object: object) -> bool: ...
def is_shared(array: object) -> bool: ...
def unlink(name: str) -> None: ...
def sweep() -> tuple[int, int]: ...
def sweep_dead() -> None: ...
def family() -> tuple[int, int]: ...
def segments() -> list[
    tuple[
        str,
        str | None,
        int,
        str,
        tuple[int, ...],
        tuple[int, ...],
        int,
        bool,
        int,
        int,
        Literal["array", "pool", "remains"],
    ]
]: ...
def copied_bytes() -> int: ...
def _error_classes() -> list[tuple[str, type[BaseException] | None]]: ...
