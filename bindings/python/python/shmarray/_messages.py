"""Objects as bytes whose arrays stay in shared memory: for any way that the user has."""

from typing import Any

from typing_extensions import Buffer

from . import _core, _pickling
from ._core import Handle

_MAGIC = b"shmarray\x01"


def dumps(obj: object) -> bytes:
    """An object as bytes, as ``pickle.dumps``, with the memory of its arrays in shared memory.

    Arrays that are shared already go by their handle; big private ones are copied once; small
    ones are in the bytes. Arrays within other objects, their subclasses, and what objects of
    other libraries say are their buffers (pickle protocol 5) go the same way. Views of one
    array stay views of one array.

    The bytes hold what they refer to until they are loaded or discarded, or until all processes
    of this one's family have gone. They can be loaded on this machine.

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
    return b"".join((_MAGIC, len(lines).to_bytes(8, "little"), lines, payload))


def loads(data: Buffer) -> Any:
    """The object of bytes that ``dumps`` made. Nothing is copied, and nothing needs to be released.

    What was shared is the sender's memory; what was private is this process's alone, writeable
    if it was. Like ``pickle.loads`` this runs what the bytes say: load what you trust.

    Raises what ``pickle.loads`` does, ValueError for other bytes, FileNotFoundError when the arrays
    are gone: they stay while anybody has them, but only the first loading is sure to find them.

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


def _give_back(handles: list[str]) -> None:
    for handle in handles:
        _core.discard(handle)


def _split(data: Buffer) -> tuple[list[str], memoryview]:
    """The handles, and what is for the unpickler."""
    memory = memoryview(data).cast("B")
    start = len(_MAGIC) + 8
    size = int.from_bytes(memory[len(_MAGIC) : start], "little")
    if memory[: len(_MAGIC)] != _MAGIC or len(memory) < start + size:
        raise ValueError("invalid data: shmarray.dumps did not make these bytes, or they are cut")
    return str(memory[start : start + size], "utf-8").split("\n") if size else [], memory[start + size :]
