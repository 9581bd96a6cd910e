"""Hands arrays over: handles, attaching, names, and the list of segments."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _core
from ._codec import _pickler
from ._core import Handle

_Object = TypeVar("_Object")


class Swept(NamedTuple):
    """The result of a sweep."""

    segments: int
    bytes: int


class SegmentInfo(NamedTuple):
    """Facts about an array, or about memory that is no array now."""

    segment: str
    """The id of its segment; for an array in a cell with the number of the cell, as ``id.17``."""
    name: str | None
    """The name that it was given."""
    kind: Literal["array", "channel", "pool", "remains"]
    """Its kind. ``array``: a process or a message holds it, or it persists. ``channel``: a process
    has it open, or it persists. ``pool``: processes keep the memory for their next arrays.
    ``remains``: dead processes left it, and the next use of the library releases it.
    """
    persists: bool
    """Whether it stays without holders until its name is unlinked."""
    segment_bytes: int
    """Bytes of shared memory that it takes, with the segment's header unless arrays share that."""
    dtype: str
    """Element type of its array, as in a handle; ``|u1`` for memory that is no array."""
    shape: tuple[int, ...]
    """Shape of its array, in elements."""
    holders: tuple[int, ...]
    """The living processes that hold it, or keep it in their pool, by the pids that they see
    themselves.
    """
    tickets: int
    """The number of messages that can still be received and that hold it."""
    creator_pid: int
    """The process that created it, by the pid that it saw itself."""
    created_ns: int
    """The time of creation in nanoseconds since 1970. For a cell, that of its segment."""


def share(obj: _Object) -> _Object:
    """Returns the same object with every array in it in shared memory.

    For an ndarray this is a copy, or the array itself if it is shared already. Any strides are
    copied; an array in Fortran order stays in it, and any other gets C order. Other threads run
    meanwhile. Any other object that can be pickled becomes the object that unpickling would make,
    of the same type. Its arrays are shared copies with the same class, order and strides; as with
    ``pickle``, two views of one private memory become two arrays. Arrays that were shared are used
    as they are, and arrays of Python objects stay in private memory; the arrays inside their
    elements are shared.

    For one data set that many processes read, a ``List`` is the better one: of the object that this
    returns each process has its own lists, dicts and strings, and copies of them as it uses them.
    Use ``share`` for an array, and for objects with a few large ones; ``List`` for many items; and
    ``Dict`` to find items by a key.

    Raises TypeError for an ndarray of objects, what ``pickle.dumps`` raises for an object that
    cannot be pickled, and MemoryError if shared memory is full.

    >>> import numpy, shmarray
    >>> a = shmarray.share(numpy.arange(3))
    >>> a.tolist(), shmarray.share(a) is a
    ([0, 1, 2], True)
    >>> parts = shmarray.share({"x": numpy.zeros(3), "name": "run 1"})
    >>> shmarray.is_shared(parts["x"]), parts["name"]
    (True, 'run 1')
    """
    shared: _Object = _core.share(obj) if type(obj) is np.ndarray else _pickler.share_all(obj)
    return shared


def is_shared(a: object) -> bool:
    """Returns whether this is an ndarray, or a view of one, in shared memory. False for anything
    else.

    >>> import numpy, shmarray
    >>> shmarray.is_shared(shmarray.zeros(3)[::2]), shmarray.is_shared(numpy.zeros(3))
    (True, False)
    """
    return _core.is_shared(a)


def handle(a: NDArray[Any]) -> Handle:
    """Returns the handle of an array in shared memory, or of any view of one.

    The handle of a view names the same segment with the view's own offset, shape and strides.
    ``str(handle)`` is one line of text. A handle keeps nothing alive: the array does.

    Raises TypeError for anything but a plain ndarray, ValueError for an array in private memory.

    >>> import shmarray
    >>> a = shmarray.zeros((4, 3), "i4")
    >>> h = shmarray.handle(a[2:, ::2])
    >>> h.shape, h.strides, h.offset, h.segment == shmarray.handle(a).segment
    ((2, 2), (12, 8), 24, True)
    """
    return _core.handle(a)


def attach(
    handle_or_text_or_name: Handle | str,
    *,
    readonly: bool = False,
    dtype: DTypeLike | None = None,
) -> Any:
    """Returns the array of a handle, of a handle's text, or of a name: the same memory, no copy.

    That of a ``List`` or a ``Dict`` gives it back, with items that are read-only; whoever may read
    its memory may attach it.

    With ``readonly`` the memory is mapped without the right to write, which no flag can restore.
    With ``dtype`` the elements are seen as of that dtype, which has their size. A process needs
    this where it lacks their own, such as a ``bfloat16`` without the package ``ml_dtypes``.

    Raises FileNotFoundError if there is no such segment or name, StaleHandleError if the segment
    has another array by now, ValueError naming the field for a text that is no handle or for a
    dtype of another size, ImportError if the package that has the array's dtype is missing,
    PermissionError if the segment belongs to somebody else, Error for an invalid segment.

    >>> import shmarray
    >>> a = shmarray.zeros(3, name="series")
    >>> b = shmarray.attach("series", readonly=True)
    >>> a[0] = 1.5
    >>> b.tolist(), b.flags.writeable
    ([1.5, 0.0, 0.0], False)
    """
    seen = None if dtype is None else np.dtype(dtype)
    return _core.attach(handle_or_text_or_name, readonly, seen)


def unlink(name: str) -> None:
    """Removes a name. The array itself is released with its last holder.

    ``name`` is what the array was given as ``name=``. An array without a name needs no such call:
    its memory is released when the last array over it is gone.

    Raises FileNotFoundError if nothing has that name, ValueError if the name is impossible,
    TypeError for anything but a text, such as an array or a handle.

    >>> import shmarray
    >>> a = shmarray.zeros(3, name="series")
    >>> shmarray.unlink("series")
    >>> shmarray.attach("series")
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    if not isinstance(name, str):
        raise TypeError(
            f"unlink takes the name that an array was given (name=…), not {type(name).__name__}: "
            "an array without a name needs no unlink, its memory is given back when the last array "
            "over it is gone (del)"
        )
    _core.unlink(name)


def sweep() -> Swept:
    """Reclaims what dead processes held, and memory that living ones only keep for reuse.

    Returns how much that was. Nobody needs to call this: creating and receiving arrays reclaims
    what dead processes held, and memory that is kept for reuse is released when shared memory is
    full. It empties this process's pool (``SHMARRAY_POOL_BYTES``) and the free memory of other
    pools.

    >>> import shmarray
    >>> shmarray.sweep()
    Swept(segments=0, bytes=0)
    """
    return Swept(*_core.sweep())


def segments() -> list[SegmentInfo]:
    """Returns all of this library's shared memory that this process may look into.

    These are arrays, memory that processes keep for their next arrays, and memory that dead
    processes left. Every byte is in one of the entries.

    >>> import shmarray
    >>> a = shmarray.zeros((2, 3), "i4", name="frames")
    >>> [(info.name, info.shape) for info in shmarray.segments() if info.kind == "array"]
    [('frames', (2, 3))]
    """
    return [SegmentInfo(*facts) for facts in _core.segments()]


def in_band_bytes() -> int:
    """Returns how many bytes of messages this process has sent without shared memory, which was
    full.

    They arrive all the same. The first time there is a ``RuntimeWarning`` with the figures.

    >>> import shmarray
    >>> shmarray.in_band_bytes()
    0
    """
    return _core.in_band_bytes()


def copied_bytes() -> int:
    """Returns how many bytes of array data this process has copied with this library.

    >>> import numpy, shmarray
    >>> before = shmarray.copied_bytes()
    >>> a = shmarray.share(numpy.zeros(100, "u1"))
    >>> b = shmarray.attach(shmarray.handle(a))
    >>> shmarray.copied_bytes() - before
    100
    """
    return _core.copied_bytes()
