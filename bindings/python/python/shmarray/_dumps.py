"""Objects as bytes whose arrays stay in shared memory, for any transport."""

import operator
import pickle
import zlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _thresholds, _wire
from ._codec import _pickler
from ._core import Handle, SegmentMemory, StaleHandleError

if TYPE_CHECKING:
    from typing_extensions import Buffer  # collections.abc has it since Python 3.12


def dumps(obj: object, *, loads: int = 1, persist: bool = False) -> bytes:
    """Returns an object as bytes, as ``pickle.dumps``, with the memory of its arrays in shared
    memory.

    Arrays that are shared already go by handle. Private arrays of at least 32 KiB all together are
    copied once into shared memory; those of up to 16 KiB each are pickled. This applies to arrays
    of any shape, strides and dtype, inside other objects, of subclasses, masked, and to the buffers
    that objects of other libraries give to pickle protocol 5. As with ``pickle``, private arrays
    that are views of one memory become arrays that have nothing in common. A read-only array stays
    read-only. A pickle of over 24 KiB is in shared memory, too.

    The bytes hold the arrays until they have been loaded ``loads`` times, until they are discarded,
    or until all processes of this process's family have ended: its forks, the processes that it was
    forked together with, and those that ``shmarray.multiprocessing`` started. With ``persist`` they
    can be loaded any number of times. They can be loaded on this machine only. A broker that
    delivers a message again until it is acknowledged needs ``loads`` or ``persist``: a loading that
    fails does not count, but one whose process dies between loading and acknowledging does.

    Raises what ``pickle.dumps`` raises. Arrays that find no room in shared memory are in the bytes.
    The count of ``loads`` above 1 has to be in shared memory; MemoryError is raised if it finds no
    room.

    >>> import numpy, shmarray
    >>> data = shmarray.dumps({"frame": numpy.zeros((480, 640))})
    >>> len(data) < 1000
    True
    >>> shmarray.loads(data)["frame"].shape
    (480, 640)
    >>> data = shmarray.dumps(numpy.arange(100_000), loads=3)
    >>> [int(shmarray.loads(data)[-1]) for _ in range(3)]
    [99999, 99999, 99999]
    """
    count = loads if type(loads) is int and loads == 1 and not persist else _checked(loads, persist)
    pickler = _pickler.ArrayPickler if count == 1 else _ForSeveral
    payload, arrays = _pickler.encode_array(obj, pickler) or _pickler.encode(obj, pickler)
    handles: list[str] = []
    try:
        for array in arrays:
            handles.append(str(_core.handle_to_send(array)))
        if handles and count > 1:  # a message that holds nothing can be loaded forever
            tally = _core.share(np.array([count], "<u8"))
            handles.append(str(_core.handle_to_send(tally)))
    except BaseException:
        _give_back(handles)
        raise
    magic = _wire.DUMPS
    if handles and count != 1:
        magic, handles = _wire.DUMPS_COUNTED, [str(count), *handles]
    lines = "\n".join(handles).encode()
    body = b"".join((_wire.DUMPS_SIZES.pack(len(lines), sum(map(len, payload))), lines, *payload))
    return _wire.DUMPS_HEADER.pack(magic, zlib.crc32(body, _wire.DUMPS_SEEDS[magic])) + body


class _ForSeveral(_pickler.ArrayPickler):
    """Writes bytes that are loaded more than once."""

    PRIVATE_MODE = "c"


def _checked(loads: int, persist: bool) -> int:
    """Returns how often a message may be loaded, or `_wire.FOREVER`."""
    count = operator.index(loads)
    if persist and count != 1:
        raise ValueError("invalid loads: with persist there is no number of loads")
    if not 1 <= count < 1 << 64:
        raise ValueError(f"invalid loads: {count} is below 1")
    return _wire.FOREVER if persist else count


def loads(data: "Buffer") -> Any:
    """Returns the object of bytes that ``dumps`` made. Nothing large is copied.

    An array that was shared is the sender's memory. An array that was private is this object's
    alone at each loading. Each array is writeable where the sender's was. Like ``pickle.loads``
    this runs code that the bytes name: load only bytes that you trust.

    The bytes of ``dumps(obj)`` are loaded once, those of ``dumps(obj, loads=3)`` three times, those
    of ``dumps(obj, persist=True)`` any number of times. Then the arrays are released. One loading
    more succeeds only if no array was private and all still exist because somebody has them.

    Raises ValueError, before unpickling anything, for other bytes and for bytes that have changed.
    Raises what ``pickle.loads`` raises; then the loading does not count. Raises FileNotFoundError,
    which names the arrays and says why, if arrays are gone, and StaleHandleError if other arrays
    have their memory.

    >>> import numpy, shmarray
    >>> a = shmarray.zeros(3)
    >>> b, c = shmarray.loads(shmarray.dumps([a, numpy.zeros(3)]))
    >>> a[0] = 7
    >>> b.tolist(), c.tolist()
    ([7.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    """
    count, handles, tally, payload = _split(data)
    sent = _Sent(handles)
    try:
        obj = _pickler.decode(payload, sent)
    except (FileNotFoundError, StaleHandleError) as error:
        if gone := [handle for handle in handles if _is_gone(handle)]:
            # Nobody can load the rest. It would stay if a last loading had been interrupted.
            _give_back(handles + tally)
            raise _loss(type(error), gone, len(handles), count) from error
        raise  # raised by the object's own unpickling
    if handles and _is_last(count, tally):
        is_first = _give_back(handles + tally)
        if sent.is_for_one and not is_first:  # whoever loaded it before may have written to it
            raise _loss(FileNotFoundError, handles, len(handles), count)
        for memory in sent.own:
            memory.own()
    return obj


def discard(data: "Buffer | Handle | str") -> None:
    """Releases the arrays of an unwanted message without loading it.

    ``data`` is the result of ``dumps``, or a handle (or its text) that was made to be sent and that
    nobody will attach. A second call does nothing. There is nothing to release for an array that is
    gone, or for an ordinary handle, which holds nothing.

    Raises ValueError for other bytes, and for a text that is no handle, naming the field. Raises
    TypeError for any other object.

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
        _, handles, tally, _ = _split(data)
        _give_back(handles + tally)


def _is_last(count: int, tally: list[str]) -> bool:
    """Counts a loading. Returns whether it was the last one."""
    for handle in tally:
        try:
            return _core.count_down(handle) == 0
        except (FileNotFoundError, StaleHandleError):
            return True  # the last loading releases it
    return count == 1


def _give_back(handles: Iterable[str]) -> bool:
    """Returns whether nobody has given the first one back before."""
    were_held = [_core.discard(handle) for handle in handles]
    return were_held[:1] == [True]


class _Sent:
    """The arrays of handles, with the methods of ``_core.Message``."""

    def __init__(self, handles: Sequence[str]) -> None:
        self._handles = handles
        self.is_for_one = False
        """Whether one process may have any of the memory."""
        self.own = list[SegmentMemory]()
        """Memory that this process will have alone, mapped copy-on-write until all is loaded."""

    def array(self, index: int, mode: str) -> Any:
        array = _core.sent_array(self._handles[index], _until_loaded(mode))
        self._note(array.base, mode)
        return array

    def memory(self, index: int, mode: str) -> Any:
        memory = _core.sent_memory(self._handles[index], _until_loaded(mode))
        self._note(memory, mode)
        return memory

    def _note(self, memory: Any, mode: str) -> None:
        if mode != _wire.OWN:
            return
        self.is_for_one = True
        # Else it is a copy, or small.
        if type(memory) is SegmentMemory and memory.nbytes >= _thresholds.KEPT_OWNED_BYTES:
            self.own.append(memory)


def _until_loaded(mode: str) -> str:
    """Returns how memory is mapped while it is loaded: a loading that fails may be repeated."""
    return "c" if mode == _wire.OWN else mode


def _is_gone(handle: str) -> bool:
    try:
        _core.sent_memory(handle, "r")
    except (FileNotFoundError, StaleHandleError):
        return True
    return False


def _loss(kind: type[Exception], gone: Sequence[str], arrays: int, count: int) -> Exception:
    """Returns an error that names the arrays of a message that are gone, and says why."""
    if not _core.is_family_alive(gone[0]):
        how = (
            "all processes of the sender's family had ended, or it is of another machine or "
            "another SHMARRAY_DIR"
        )
    elif count == _wire.FOREVER:
        how = "the message was discarded"
    else:
        often = "once" if count == 1 else f"{count} times"
        more = "dumps(obj, loads=N) and dumps(obj, persist=True) make one that can be loaded again"
        how = f"the message was loaded {often}, as it was made for, or it was discarded; {more}"
    lines = "\n".join(gone)
    return kind(
        f"{len(gone)} of the {arrays} arrays of the message are gone, and were given back: "
        f"{how}\n{lines}"
    )


def _split(data: "Buffer") -> tuple[int, list[str], list[str], memoryview]:
    """Checks the bytes and returns their parts.

    These are how often they may be loaded, or `_wire.FOREVER`; the handles of the arrays; the
    handle of the tally if more than one loading is counted; and the payload.
    """
    memory = memoryview(data).cast("B")
    start = _wire.DUMPS_HEADER.size + _wire.DUMPS_SIZES.size
    magic, checksum = _wire.DUMPS_HEADER.unpack_from(memory) if len(memory) >= start else (b"", 0)
    if magic not in _wire.DUMPS_SEEDS:
        raise ValueError("invalid data: shmarray.dumps did not make these bytes")
    if zlib.crc32(memory[_wire.DUMPS_HEADER.size :], _wire.DUMPS_SEEDS[magic]) != checksum:
        raise ValueError(
            "invalid data: the bytes are not whole, or have changed since shmarray.dumps made them"
        )
    lines_bytes, payload_bytes = _wire.DUMPS_SIZES.unpack_from(memory, _wire.DUMPS_HEADER.size)
    if len(memory) != start + lines_bytes + payload_bytes:
        raise ValueError("invalid data: its sizes are not those that shmarray.dumps writes")
    lines = str(memory[start : start + lines_bytes], "utf-8").splitlines()
    payload = memory[start + lines_bytes :]
    if magic == _wire.DUMPS:
        return 1, lines, [], payload
    count = int(lines[0])
    arrays = len(lines) if count == _wire.FOREVER else -1
    return count, lines[1:arrays], lines[arrays:], payload


def _tell_pickle() -> None:
    """Raises UnpicklingError. The bytes begin with a pickle of this call, for ``pickle.loads``."""
    raise pickle.UnpicklingError(
        "shmarray.dumps made these bytes, and they are not a pickle: load them with shmarray.loads"
    )
