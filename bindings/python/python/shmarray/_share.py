"""Handing arrays over: handles, attaching, names, and what there is in shared memory."""

from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._codec import _pickler
from ._core import Handle

_Object = TypeVar("_Object")


class Swept(NamedTuple):
    """What a sweep gave back."""

    segments: int
    bytes: int


class SegmentInfo(NamedTuple):
    """What there is to know of an array without attaching it, or of memory that is no array now."""

    segment: str
    """Its segment's id; of an array that has a cell there, with the cell's number, as ``id.17``."""
    name: str | None
    """The name that somebody gave it."""
    segment_bytes: int
    """Bytes of shared memory that it takes, with the header where no other array has it, too."""
    dtype: str
    """Element type of its array, as in a handle; ``|u1`` of what is no array."""
    shape: tuple[int, ...]
    """Shape of its array, in elements."""
    holders: tuple[int, ...]
    """The living processes that hold it, or keep it in their pool, as each saw itself."""
    tickets: int
    """How many messages that can still be received hold it."""
    persists: bool
    """Whether it stays without holders until its name is unlinked."""
    creator_pid: int
    """The process that made it, as that process saw itself."""
    created_ns: int
    """When it was made: nanoseconds since 1970. Of a cell, when its segment was."""
    kind: Literal["array", "pool", "remains"]
    """What it is: an array that a process or a message holds, or that persists; memory that processes
    keep for their next arrays; what dead processes left, which the next use of the library gives back."""


def share(obj: _Object) -> _Object:
    """The same object with every array in it in shared memory.

    Of an ndarray this is a copy, or the array itself if it is shared already. Any strides are
    copied; what is in Fortran's order stays so, and all else is put in C's. Other threads run
    meanwhile. Anything else that can be pickled becomes the object that unpickling would make,
    of the same type, whose arrays are shared copies, of whatever class, order and strides they
    were; those that were shared stay what they are, views of one array stay views of one array,
    and arrays of Python objects stay in private memory, since only what lies in them can be shared.

    Raises TypeError for an ndarray of objects, what ``pickle.dumps`` does for what cannot be
    pickled, and MemoryError when shared memory is full.

    >>> import numpy, shmarray
    >>> a = shmarray.share(numpy.arange(3))
    >>> a.tolist(), shmarray.share(a) is a
    ([0, 1, 2], True)
    >>> parts = shmarray.share({"x": numpy.zeros(3), "name": "run 1"})
    >>> shmarray.is_shared(parts["x"]), parts["name"]
    (True, 'run 1')
    """
    shared: _Object = _share_array(obj) if type(obj) is np.ndarray else _pickler.share_all(obj)
    return shared


def _share_array(array: Any) -> Any:
    return (
        array
        if is_shared(array)
        else _core.share(array, "F" if array.flags.fnc else "C", None, False, 0o600)
    )


def is_shared(a: object) -> bool:
    """Whether this is an ndarray, or a view of one, in shared memory. False for all else.

    >>> import numpy, shmarray
    >>> shmarray.is_shared(shmarray.zeros(3)[::2]), shmarray.is_shared(numpy.zeros(3))
    (True, False)
    """
    return _core.is_shared(a)


def handle(a: NDArray[Any]) -> Handle:
    """The handle of an array in shared memory, or of any view of one.

    A view's handle names the same segment with the view's own offset, shape and strides.
    ``str(handle)`` is one line of text. A handle keeps nothing alive: the array does.

    Raises TypeError for what is no plain ndarray, ValueError for one in private memory.

    >>> import shmarray
    >>> a = shmarray.zeros((4, 3), "i4")
    >>> h = shmarray.handle(a[2:, ::2])
    >>> h.shape, h.strides, h.offset, h.segment == shmarray.handle(a).segment
    ((2, 2), (12, 8), 24, True)
    """
    return _core.handle(a)


def attach(handle_or_text_or_name: Handle | str, *, readonly: bool = False) -> NDArray[Any]:
    """The array of a handle, of a handle's text, or of a name: the same memory, no copy.

    ``readonly`` maps it without the right to write, and no flag brings that back.

    Raises FileNotFoundError when there is no such segment or name, StaleHandleError when
    the segment has another array by now, ValueError naming the field for a text that is no
    handle, PermissionError when it is somebody else's, Error for what is no valid segment.

    >>> import shmarray
    >>> a = shmarray.zeros(3, name="series")
    >>> b = shmarray.attach("series", readonly=True)
    >>> a[0] = 1.5
    >>> b.tolist(), b.flags.writeable
    ([1.5, 0.0, 0.0], False)
    """
    return _core.attach(handle_or_text_or_name, readonly)


def unlink(name: str) -> None:
    """Takes a name away. The array itself goes with its last holder.

    ``name`` is what the array was given as ``name=``. An array without one needs no such call: its
    memory is given back when the last array over it is gone.

    Raises FileNotFoundError when nothing has that name, ValueError when nothing can, TypeError for
    what is no text, such as an array or a handle.

    >>> import shmarray
    >>> a = shmarray.zeros(3, name="series")
    >>> shmarray.unlink("series")
    >>> shmarray.attach("series")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    if not isinstance(name, str):
        raise TypeError(
            f"unlink takes the name that an array was given (name=…), not {type(name).__name__}: an array without a "
            f"name needs no unlink, its memory is given back when the last array over it is gone (del)"
        )
    _core.unlink(name)


def sweep() -> Swept:
    """Gives back what dead processes held and what living ones only keep for reuse, and says how
    much.

    Nobody needs to call this: creating and receiving arrays gives back what the dead held, and
    what is kept goes when shared memory is full. It empties this process's pool
    (``SHMARRAY_POOL_BYTES``) and the free memory of others'.

    >>> import shmarray
    >>> shmarray.sweep()
    Swept(segments=0, bytes=0)
    """
    return Swept(*_core.sweep())


def segments() -> list[SegmentInfo]:
    """All of shared memory that this library has and that this process may look into: arrays, what
    processes keep for their next arrays, and what dead processes left. Every byte is in one of
    them.

    >>> import shmarray
    >>> a = shmarray.zeros((2, 3), "i4", name="frames")
    >>> [(info.name, info.dtype, info.shape) for info in shmarray.segments() if info.kind == "array"]
    [('frames', '<i4', (2, 3))]
    """
    return [SegmentInfo(*facts) for facts in _core.segments()]


def in_band_bytes() -> int:
    """Bytes of messages that this process sent beside shared memory so far, because that had no
    room for them.

    They arrive all the same; the first time there is a ``RuntimeWarning`` with the figures.

    >>> import shmarray
    >>> shmarray.in_band_bytes()
    0
    """
    return _core.in_band_bytes()


def copied_bytes() -> int:
    """Bytes of array data that this process has copied with this library so far.

    >>> import numpy, shmarray
    >>> before = shmarray.copied_bytes()
    >>> a = shmarray.share(numpy.zeros(100, "u1"))
    >>> b = shmarray.attach(shmarray.handle(a))
    >>> shmarray.copied_bytes() - before
    100
    """
    return _core.copied_bytes()
