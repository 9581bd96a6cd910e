"""NumPy arrays in shared memory, the same in every process and language.

An array made here, or put here by ``share``, is a plain ``numpy.ndarray``. Its handle, one
line of text, lets any other process of the machine have the same memory as its own array:

>>> import shmarray
>>> a = shmarray.zeros((2, 3))
>>> text = str(shmarray.handle(a))  # through a pipe, an argument, an environment variable …
>>> b = shmarray.attach(text)  # … in another process
>>> b[1, 2] = 0.5
>>> float(a[1, 2])
0.5

Nothing is copied. The memory is given back when the last array over it is gone, in every
process, however they ended; views keep it as well as the array they were taken of.

Any object that can be pickled goes the same way, and only the arrays in it by handle:

>>> data = shmarray.dumps({"frame": a, "number": 7})  # bytes, for a socket, a queue, a file …
>>> got = shmarray.loads(data)
>>> got["frame"][0, 0] = 2.5
>>> float(a[0, 0]), got["number"]
(2.5, 7)

What you already run on ``multiprocessing``, ``concurrent.futures`` or ``joblib`` goes by handle,
too: import ``shmarray.multiprocessing``, ``shmarray.concurrent`` or ``shmarray.joblib`` in their
place. Plain pickles copy, those of other libraries, too, unless ``pickle_by_handle`` says
otherwise.

Shapes count elements; strides and offsets count bytes, as in NumPy. What goes wrong raises a
built-in exception where one fits, else ``Error`` or its children ``StaleHandleError`` and
``WorkerLost``.
"""

from . import _by_handle
from ._by_handle import pickle_by_handle
from ._core import Error, Handle, StaleHandleError, __version__
from ._create import array, empty, empty_like, full, full_like, ones, ones_like, zeros, zeros_like
from ._dumps import discard, dumps, loads
from ._error import WorkerLost
from ._share import (
    SegmentInfo,
    Swept,
    attach,
    copied_bytes,
    handle,
    in_band_bytes,
    is_shared,
    segments,
    share,
    sweep,
    unlink,
)

__all__ = [
    "Error",
    "Handle",
    "SegmentInfo",
    "StaleHandleError",
    "Swept",
    "WorkerLost",
    "__version__",
    "array",
    "attach",
    "copied_bytes",
    "discard",
    "dumps",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "handle",
    "in_band_bytes",
    "is_shared",
    "loads",
    "ones",
    "ones_like",
    "pickle_by_handle",
    "segments",
    "share",
    "sweep",
    "unlink",
    "zeros",
    "zeros_like",
]

_by_handle.follow_parent()
