"""Objects as bytes whose arrays stay in shared memory: for any way that the user has."""

import struct
from collections.abc import Iterable
from typing import Any

from typing_extensions import Buffer

from . import _core, _pickling
from ._core import Handle


def dumps(obj: object) -> bytes:
    """An object as bytes, as ``pickle.dumps``, with the memory of its arrays in shared memory.

    Arrays that are shared already go by their handle; private ones are copied once, or are in the
    bytes when they are less than 32 KiB altogether. Arrays of any shape, strides and dtype, within
    other objects, of subclasses, masked, and what objects of other libraries say are their
    buffers (pickle protocol 5) go the same way; only what Python objects themselves are made
    of is pickled. Views of one array stay views of one array.

    The bytes hold what they refer to until they are loaded or discarded, or until all of this
    process's family have gone: what was forked of it or together with it, and what
    ``shmarray.multiprocessing`` started. They can be loaded on this machine.

    Raises what ``pickle.dumps`` does, and MemoryError when shared memory is full.

    >>> import numpy, shmarray
    >>> data = shmarray.dumps({"frame": numpy.zeros((480, 640))})
    >>> len(data) < 1000
    True
    >>> shmarray.loads(data)["frame"].shape
    (480, 640)
    """
    payload, arrays = _pickling.pack(obj)
    handles: list[str] = []
    try:
        for array in arrays:
            handles.append(str(_core.handle_to_send(array)))
    except BaseException:
        _give_back(handles)
        raise
    lines = "\n".join(handles).encode()
    return b"".join((_HEADER.pack(_MAGIC, len(lines), len(payload)), lines, payload))


def loads(data: Buffer) -> Any:
    """The object of bytes that ``dumps`` made. Nothing large is copied; nothing needs to be released.

    What was shared is the sender's memory; what was private is this object's alone, also when
    the bytes are loaded twice. Each array is writeable where the sender's was. Like
    ``pickle.loads`` this runs what the bytes say: load what you trust.

    Raises what ``pickle.loads`` does, and then the bytes can be loaded again; ValueError for other
    bytes; FileNotFoundError when the arrays are gone, StaleHandleError when there are others
    in their place. They stay while anybody has them, but only the first loading is sure to find them.

    >>> import numpy, shmarray
    >>> a = shmarray.zeros(3)
    >>> b, c = shmarray.loads(shmarray.dumps([a, numpy.zeros(3)]))
    >>> a[0] = 7
    >>> b.tolist(), c.tolist()
    ([7.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    handles, payload = _split(data)
    obj = _pickling.unpack(payload, lambda index, mode: _core.attach_sent(handles[index], mode))
    _give_back(handles)
    return obj


def discard(data: Buffer | Handle | str) -> None:
    """Gives back what an unwanted message holds, without loading it.

    ``data`` is what ``dumps`` made; or the handle, or its text, that was made to be sent and that
    nobody will attach. Twice is as good as once; of an array that is gone, and of an ordinary
    handle, which holds nothing, there is nothing to give back.

    Raises ValueError for other bytes, and naming the field for a text that is no handle;
    TypeError for what is neither.

    >>> import numpy, shmarray
    >>> data = shmarray.dumps(numpy.zeros(1_000_000))
    >>> shmarray.discard(data)
    >>> shmarray.loads(data)
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    if isinstance(data, Handle | str):
        _core.discard(data)
    else:
        _give_back(_split(data)[0])


def _give_back(handles: Iterable[str]) -> None:
    for handle in handles:
        _core.discard(handle)


def _split(data: Buffer) -> tuple[list[str], memoryview]:
    """The handles, one in each line, and what is for the unpickler."""
    memory = memoryview(data).cast("B")
    magic, lines_bytes, payload_bytes = _HEADER.unpack_from(memory) if len(memory) >= _HEADER.size else (b"", 0, 0)
    if magic != _MAGIC or len(memory) != _HEADER.size + lines_bytes + payload_bytes:
        raise ValueError("invalid data: shmarray.dumps did not make these bytes, or they are not whole")
    lines = memory[_HEADER.size : len(memory) - payload_bytes]
    return str(lines, "utf-8").splitlines(), memory[_HEADER.size + lines_bytes :]


_MAGIC = b"shmarray\x01"
_HEADER = struct.Struct("<9sQQ")
