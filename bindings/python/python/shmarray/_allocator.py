"""NumPy's arrays born shared, in this process."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _core, _thresholds
from ._codec._moved import Moved

__all__ = ["allocator", "allocator_stats", "move", "use_allocator"]


@contextlib.contextmanager
def allocator(min_bytes: int = _thresholds.ALLOCATOR_LEAST_BYTES) -> Iterator[None]:
    """Within the block NumPy allocates arrays of at least ``min_bytes`` in shared memory, in all
    threads of this process: they are *born shared*.

    They are arrays like any other, and nobody else has their memory. But a worker's result is
    handed over instead of being copied, and so is what ``move`` gets. The workers of
    ``Pool(allocator=True)`` and of executors need no block.

    >>> import numpy, shmarray
    >>> with shmarray.allocator():
    ...     a = numpy.ones(1_000_000)
    >>> shmarray.allocator_stats()["live_bytes"] >= a.nbytes
    True

    If the pool has no room for an array, NumPy allocates it as ever. Arrays of zeros of 8 MiB and
    more are born shared only if one of their size was sent lately: the kernel makes the pages of
    others when they are touched.

    Raises RuntimeError if NumPy's allocator cannot be replaced, and ValueError if ``min_bytes`` is
    negative.
    """
    use_allocator(min_bytes)
    try:
        yield
    finally:
        _limits.remove(min_bytes)
        _apply(_limits)


def use_allocator(min_bytes: int = _thresholds.ALLOCATOR_LEAST_BYTES) -> None:
    """Does the same as ``allocator`` from now on: for the function by which a library begins its
    workers.

    >>> import shmarray.concurrent
    >>> executor = shmarray.concurrent.ProcessPoolExecutor(2, initializer=shmarray.use_allocator)
    """
    if min_bytes < 0:
        raise ValueError(f"min_bytes is {min_bytes}: it must not be negative")
    _limits.append(min_bytes)
    _apply(_limits)


def is_in_use() -> bool:
    """Returns whether some array may be born shared."""
    return bool(_limits)


def _apply(limits: Sequence[int]) -> None:
    """Applies the lowest of the limits, also if another thread changes them meanwhile."""
    while True:
        least = min(tuple(limits), default=None)
        _core.set_allocator(least)
        if least == min(tuple(limits), default=None):
            return


def move(array: np.ndarray[Any, Any]) -> Any:
    """Returns an object that arrives as the array, with its memory: for a message of this package,
    alone or inside anything. Nothing is copied, and the receiver owns it. The array itself becomes
    read-only, and shows from then on what its receiver stores there.

    That is so if the array was born shared. If it is in shared memory already, the receiver shares
    it, as without. Any other private array is copied, as without: what was below the limit of the
    allocator, or found no room, need not be told apart.

    >>> import numpy, shmarray, shmarray.multiprocessing as mp
    >>> one, other = mp.Pipe()
    >>> with shmarray.allocator():
    ...     a = numpy.ones(1_000_000)
    >>> one.send({"a": shmarray.move(a)})
    >>> got = other.recv()["a"]
    >>> got += 1
    >>> a.flags.writeable, float(a[0])
    (False, 2.0)

    Raises TypeError for anything but a plain ndarray, and ValueError for one that is read-only: it
    was moved already, or it is not this process's to hand over. Sending the object once more raises
    ValueError. Other views of the memory stay writeable here; do not use them.
    """
    if type(array) is not np.ndarray:
        raise TypeError(f"move takes a numpy.ndarray, not {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError("the array is read-only: it was moved already, or cannot be handed over")
    array.flags.writeable = False
    return Moved(array)


def allocator_stats() -> dict[str, Any]:
    """Returns what NumPy has allocated in shared memory in this process, and what became of it.

    ======================================== =====================================================
    ``live``, ``live_bytes``, ``peak_bytes`` the allocations in use, their bytes, and the most so
                                             far
    ``idle_bytes``                           what was freed and is kept for the next arrays
    ``allocations``, ``reused``              how many there were, and how many of them in idle
                                             memory
    ``fell_back``                            how many were left to NumPy's own allocator, because
                                             the pool had no room
    ``moved``, ``moved_bytes``               what was handed over without a copy
    ``copied``                               how many were copied instead, by the reason
    ======================================== =====================================================

    The reasons: ``held`` (something in this process still referred to the memory), ``finalizer``
    (the object has a finalizer or a weak reference with a callback), ``gaps`` and ``alignment``
    (the array has gaps, or is not aligned), ``shared`` (another array of the message has some of
    the same elements), ``part`` (the message needs less than half of the memory).

    >>> import shmarray
    >>> sorted(shmarray.allocator_stats()["copied"])
    ['alignment', 'finalizer', 'gaps', 'held', 'part', 'shared']
    """
    return _core.allocator_stats()


_limits: list[int] = []
