"""Plain pickles whose shared arrays are handles: for processes whose pickles never leave the
machine and family.

The standard picklers ask `copyreg.dispatch_table` how an object of exactly this class is reduced;
those of dill, cloudpickle, multiprocessing and loky do, too. So an entry there for `numpy.ndarray`
reaches all libraries that pickle, and only those arrays that lie in shared memory are reduced in
another way than before.

Each pickle has a ticket of the family for each such array, which its first loading gives back. A
handle that holds nothing was the alternative: a worker's result would be gone before its receiver
could attach it, and the standard pool's thread that receives results ends without a word when one
cannot be loaded. The price is that a pickle which nobody loads holds its arrays until the family
has ended.

A reducer in that table does not learn the pickler's protocol, and NumPy reduces a contiguous array
by protocol 5 to a `PickleBuffer`, which no earlier one takes. So what is private is reduced in two
steps: to a call that gives back its argument, and an argument that is asked with the protocol. The
bytes need nothing of this package to be loaded.

dill has an entry for arrays in a table of its own that comes first, so it gets one there, too.
"""

import contextlib
import copyreg
import functools
import importlib.util
import os
import typing
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from . import _core, _family
from ._codec._parts import Array, compact_dtype
from ._core import StaleHandleError

_VARIABLE = "SHMARRAY_PICKLE_BY_HANDLE"


class ByHandle:
    """What ``pickle_by_handle`` gives: it is on until ``off``, or until the end of its ``with``."""

    def __init__(self) -> None:
        _State.on.add(self)
        if not _State.entries:
            _State.entries = [_Entry(copyreg.dispatch_table, _reducer), *_entries_of_dill()]
        os.environ[_VARIABLE] = "1"
        _family.say()  # what children send is to be held beyond their end

    def off(self) -> None:
        """Has arrays be pickled as before, unless another switch is still on.

        Twice is as good as once.
        """
        _State.on.discard(self)
        if not _State.on:
            os.environ.pop(_VARIABLE, None)
            while _State.entries:
                _State.entries.pop().remove()

    def __enter__(self) -> "ByHandle":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.off()


class _Entry:
    """What stands for arrays in a table of picklers, until it is removed."""

    def __init__(self, table: dict[Any, Any], make: Callable[[Any], Any]) -> None:
        self._table, self._before = table, table.get(np.ndarray)
        self._ours = table[np.ndarray] = make(self._before)

    def remove(self) -> None:
        if self._table.get(np.ndarray) is not self._ours:
            return  # somebody else's by now
        if self._before is None:
            del self._table[np.ndarray]
        else:
            self._table[np.ndarray] = self._before


class _State:
    on: typing.ClassVar[set[ByHandle]] = set()
    entries: typing.ClassVar[list[_Entry]] = []


def pickle_by_handle() -> ByHandle:
    """From now on every pickle of this process has a handle in the place of each array in shared
    memory.

    So arrays stay shared on all ways that pickle: the standard ``multiprocessing``, dask's, mpire's
    and pathos's processes, cloudpickle, loky. It is on in the whole process, in all threads, and in
    the children that it starts from now on; ``with pickle_by_handle():`` ends it, and so does
    ``off()`` of what this gives. Private arrays, and those of a subclass of ``numpy.ndarray``, are
    pickled as before.

    Only for pickles that stay on this machine and in this family of processes, and that are loaded
    once:

    * A pickle in a file, a database, a cache, or on another machine is of no use later: loading it raises
      FileNotFoundError, or StaleHandleError.
    * The receiver has the same memory: its stores are seen by all. A pickle is no snapshot any more.
    * Until it is loaded a pickle holds its arrays. One that is never loaded (it was made to be hashed or measured, or
      pickling failed at another object) holds them until all processes of the family have ended; ``segments()`` shows
      such tickets.
    * The first loading gives that back; others succeed as long as somebody has the arrays.

    >>> import pickle, shmarray
    >>> a = shmarray.zeros(3)
    >>> with shmarray.pickle_by_handle():
    ...     data = pickle.dumps({"a": a})
    >>> pickle.loads(data)["a"][0] = 7
    >>> a.tolist()
    [7.0, 0.0, 0.0]
    """
    return ByHandle()


def follow_parent() -> None:
    """Does as the process that started this one, as the environment says."""
    if os.environ.get(_VARIABLE) != "1":
        for one in list(_State.on):  # a server's, which had another parent's environment
            one.off()
    elif not _State.on:
        pickle_by_handle()


def _reducer(before: Callable[[Array], Any] | None) -> Callable[[Array], Any]:
    """What the standard picklers call; private arrays are reduced as before."""
    return functools.partial(_reduce, before or _reduce_private)


def _reduce(private: Callable[[Array], Any], array: Array) -> Any:
    return _reduce_shared(array) or private(array)


def _reduce_shared(array: Array) -> Any:
    """None of an array in private memory."""
    location = (
        None if array.base is None else _core.locate(array)
    )  # without a base it owns its memory
    if location is None:
        return None
    lease, _, is_writeable, offset = location
    is_fixed = is_writeable and not array.flags.writeable
    handle = str(_core.handle_to_send(lease))
    return again, (
        handle,
        not is_writeable,
        is_fixed,
        array.shape,
        compact_dtype(array),
        offset,
        array.strides,
    )


def _entries_of_dill() -> list[_Entry]:
    """That in dill's own table, where dill is installed: it may be imported later."""
    if importlib.util.find_spec("dill") is None:
        return []
    dill = importlib.import_module("dill")
    dill.dumps(np.zeros(0))  # enters there how it saves arrays
    return [_Entry(dill.Pickler.dispatch, _saver)]


def _saver(before: Callable[[Any, Array], None]) -> Callable[[Any, Array], None]:
    """What dill's pickler calls."""

    def save(pickler: Any, array: Array) -> None:
        reduced = _reduce_shared(array)
        if reduced is None:
            before(pickler, array)
        else:
            pickler.save_reduce(*reduced, obj=array)

    return save


def again(
    handle: str,
    is_readonly: bool,
    is_fixed: bool,
    shape: tuple[int, ...],
    dtype: Any,
    offset: int,
    strides: Any,
) -> Array:
    """The array of a pickle, whose ticket this gives back."""
    try:
        memory = _core.attach(handle, is_readonly).base
    except (FileNotFoundError, StaleHandleError) as error:
        raise type(error)(_how_it_went(handle)) from error
    assert memory is not None
    array: Array = np.ndarray(shape, dtype, memory, offset, strides)
    if is_fixed:
        array.flags.writeable = False
    return array


def _how_it_went(handle: str) -> str:
    how = "all processes of the sender's family had ended, or it is of another machine or another SHMARRAY_DIR"
    with contextlib.suppress(OSError):
        if _core.is_family_alive(handle):
            how = "the pickle was loaded before, and nobody has the array any more"
    return f"an array of this pickle was sent by its handle (shmarray.pickle_by_handle) and is gone: {how}\n{handle}"


def _reduce_private(array: Array) -> Any:
    """As NumPy does."""
    if (
        array.dtype.hasobject
    ):  # by no buffer at any protocol; and it may be in itself, which two steps would not end
        return array.__reduce__()
    return typing.cast, (None, _Deferred(array))


class _Deferred:
    """Stands for an array until the pickler says by which protocol."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: typing.SupportsIndex) -> Any:
        return self._array.__reduce_ex__(protocol)
