"""NumPy arrays in shared memory, the same in every process and language.

An array created here, or copied here by ``share``, is a plain ``numpy.ndarray``. Its handle is one
line of text. With it any other process of the machine gets the same memory as an array:

>>> import shmarray
>>> a = shmarray.zeros((2, 3))
>>> text = str(shmarray.handle(a))  # through a pipe, an argument, an environment variable …
>>> b = shmarray.attach(text)  # … in another process
>>> b[1, 2] = 0.5
>>> float(a[1, 2])
0.5

Nothing is copied. The memory is released when the last array over it is gone in every process,
however the processes ended. A view keeps the memory alive, too.

Any object that can be pickled is sent in the same way. The arrays in it go by handle:

>>> data = shmarray.dumps({"frame": a, "number": 7})  # bytes, for a socket, a queue, a file …
>>> got = shmarray.loads(data)
>>> got["frame"][0, 0] = 2.5
>>> float(a[0, 0]), got["number"]
(2.5, 7)

Programs that use ``multiprocessing``, ``concurrent.futures`` or ``joblib`` move arrays by handle if
they import ``shmarray.multiprocessing``, ``shmarray.concurrent`` or ``shmarray.joblib`` instead.
Plain pickles, also those of other libraries, copy arrays unless ``pickle_by_handle`` is on.

A ``Channel`` is a bounded queue of arrays, which programs in other languages open by its name.

Shapes count elements. Strides and offsets count bytes, as in NumPy. Errors are built-in exceptions
where one fits, else ``Error`` or its children ``StaleHandleError``, ``Full`` and ``WorkerLost``.
"""

from . import _by_handle
from ._allocator import allocator, allocator_stats, move, use_allocator
from ._by_handle import pickle_by_handle
from ._channel import Channel
from ._core import Delivery, Error, Full, Handle, StaleHandleError, __version__
from ._create import array, empty, empty_like, full, full_like, ones, ones_like, zeros, zeros_like
from ._dlpack import from_dlpack
from ._dumps import discard, dumps, loads
from ._error import WorkerLost
from ._files import Batches, NpzFile, load_batch, load_npy, load_npz, save_npy, save_npz
from ._list import Dict, List
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
    "Batches",
    "Channel",
    "Delivery",
    "Dict",
    "Error",
    "Full",
    "Handle",
    "List",
    "NpzFile",
    "SegmentInfo",
    "StaleHandleError",
    "Swept",
    "WorkerLost",
    "__version__",
    "allocator",
    "allocator_stats",
    "array",
    "attach",
    "copied_bytes",
    "discard",
    "dumps",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "handle",
    "in_band_bytes",
    "is_shared",
    "load_batch",
    "load_npy",
    "load_npz",
    "loads",
    "move",
    "ones",
    "ones_like",
    "pickle_by_handle",
    "save_npy",
    "save_npz",
    "segments",
    "share",
    "sweep",
    "unlink",
    "use_allocator",
    "zeros",
    "zeros_like",
]

_by_handle.follow_parent()
