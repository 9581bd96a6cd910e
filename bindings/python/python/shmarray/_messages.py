"""Objects as bytes whose arrays stay in shared memory: for any way that the user has."""

import pickle
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from . import _core, _pickling
from ._core import Handle, StaleHandleError

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it since Python 3.12


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

    Raises what ``pickle.dumps`` does. What finds no room in shared memory is in the bytes.

    >>> import numpy, shmarray
    >>> data = shmarray.dumps({"frame": numpy.zeros((480, 640))})
    >>> len(data) < 1000
    True
    >>> shmarray.loads(data)["frame"].shape
    (480, 640)
    """
    payload, arrays = _pickling.pack_array(obj) or _pickling.pack(obj)
    handles: list[str] = []
    try:
        for array in arrays:
            handles.append(str(_core.handle_to_send(array)))
    except BaseException:
        _give_back(handles)
        raise
    lines = "\n".join(handles).encode()
    body = b"".join((_SIZES.pack(len(lines), len(payload)), lines, payload))
    return _HEADER.pack(_MAGIC, zlib.crc32(body)) + body


def loads(data: "Buffer") -> Any:
    """The object of bytes that ``dumps`` made. Nothing large is copied; nothing needs to be released.

    What was shared is the sender's memory; what was private is this object's alone, also when
    the bytes are loaded twice. Each array is writeable where the sender's was. Like
    ``pickle.loads`` this runs what the bytes say: load what you trust.

    Raises ValueError for other bytes and for those that have changed on their way, before it
    unpickles any; what ``pickle.loads`` does, and then the bytes can be loaded again; FileNotFoundError,
    which names them, when arrays are gone, StaleHandleError when there are others in their
    place. They stay while anybody has them, but only the first loading is sure to find them.

    >>> import numpy, shmarray
    >>> a = shmarray.zeros(3)
    >>> b, c = shmarray.loads(shmarray.dumps([a, numpy.zeros(3)]))
    >>> a[0] = 7
    >>> b.tolist(), c.tolist()
    ([7.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    handles, payload = _split(data)
    try:
        obj = _pickling.unpack(payload, _Sent(handles))
    except (FileNotFoundError, StaleHandleError) as error:
        if gone := [handle for handle in handles if _is_gone(handle)]:
            raise _loss(type(error), gone, len(handles)) from error
        raise  # the object's own way to be unpickled
    _give_back(handles)
    return obj


def discard(data: "Buffer | Handle | str") -> None:
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


class _Sent:
    """The arrays of handles, as those of ``_core.Message``."""

    def __init__(self, handles: Sequence[str]) -> None:
        self._handles = handles

    def array(self, index: int, mode: str) -> Any:
        return _core.sent_array(self._handles[index], mode)

    def memory(self, index: int, mode: str) -> Any:
        return _core.sent_memory(self._handles[index], mode)


def _is_gone(handle: str) -> bool:
    try:
        _core.sent_memory(handle, "r")
    except (FileNotFoundError, StaleHandleError):
        return True
    return False


def _loss(kind: type[Exception], gone: Sequence[str], count: int) -> Exception:
    """An error that names the arrays of a message that are gone."""
    lines = "\n".join(gone)
    return kind(
        f"{len(gone)} of the {count} arrays of the message are gone: they were given back when the message was loaded "
        f"or discarded or when all processes of its family had ended, or it comes from another machine or another "
        f"SHMARRAY_DIR\n{lines}"
    )


def _split(data: "Buffer") -> tuple[list[str], memoryview]:
    """The handles, one in each line, and what is for the unpickler."""
    memory = memoryview(data).cast("B")
    start = _HEADER.size + _SIZES.size
    magic, checksum = _HEADER.unpack_from(memory) if len(memory) >= start else (b"", 0)
    if magic != _MAGIC:
        raise ValueError("invalid data: shmarray.dumps did not make these bytes")
    if zlib.crc32(memory[_HEADER.size :]) != checksum:
        raise ValueError("invalid data: the bytes are not whole, or have changed since shmarray.dumps made them")
    lines_bytes, payload_bytes = _SIZES.unpack_from(memory, _HEADER.size)
    if len(memory) != start + lines_bytes + payload_bytes:
        raise ValueError("invalid data: its sizes are not those that shmarray.dumps writes")
    return str(memory[start : start + lines_bytes], "utf-8").splitlines(), memory[start + lines_bytes :]


def _tell_pickle() -> None:
    """What ``pickle.loads`` calls, as the bytes begin with that call as a pickle of its own."""
    raise pickle.UnpicklingError("these bytes are of shmarray.dumps, and no pickle: load them with shmarray.loads")


_AS_PICKLE = f"c{__name__}\n{_tell_pickle.__name__}\n)R".encode()
_MAGIC = _AS_PICKLE + b"\x01"
_HEADER = struct.Struct(f"<{len(_MAGIC)}sI")
"""What says that these are such bytes, and the CRC-32 of all that follows."""
_SIZES = struct.Struct("<QQ")
"""How many bytes the handles are, and the pickle, which follow."""
