"""Plain pickles with handles in place of shared arrays, for pickles that stay in the family.

The standard picklers ask `copyreg.dispatch_table` how an object of exactly this class is reduced.
Those of dill, cloudpickle, multiprocessing and loky do, too. An entry for `numpy.ndarray` there
reaches all libraries that pickle. Only arrays in shared memory are reduced in a new way.

A pickle has a ticket of the family for each such array. Its first loading gives the tickets back.
Handles without tickets would not do: a worker's result would be gone before its receiver could
attach it, and the standard pool's thread that receives results ends silently if one cannot be
loaded. The price is that a pickle which nobody loads holds its arrays until the family has ended.

A reducer in that table does not learn the pickler's protocol. With protocol 5 NumPy reduces a
contiguous array to a `PickleBuffer`, which earlier protocols refuse. So a private array is reduced
in two steps: to a call that returns its argument, and to an argument that is asked with the
protocol. Loading such bytes needs nothing of this package.

dill has a table of its own with an entry for arrays, which comes first. It gets an entry as well.
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

VARIABLE = "SHMARRAY_PICKLE_BY_HANDLE"


class ByHandle:
    """The switch that ``pickle_by_handle`` returns. It is on until ``off`` or the end of its
    ``with``.
    """

    def __init__(self) -> None:
        _State.on.add(self)
        if not _State.entries:
            _State.entries = [_Entry(copyreg.dispatch_table, _reducer), *_entries_of_dill()]
        os.environ[VARIABLE] = "1"
        _family.announce_family()  # so that what children send outlives them

    def off(self) -> None:
        """Pickles arrays as before, unless another switch is on. A second call does nothing."""
        _State.on.discard(self)
        if not _State.on:
            os.environ.pop(VARIABLE, None)
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
    """An entry for arrays in a table of reducers, until it is removed."""

    def __init__(self, table: dict[Any, Any], make: Callable[[Any], Any]) -> None:
        self._table = table
        self._before = table.get(np.ndarray)
        self._ours = table[np.ndarray] = make(self._before)

    def remove(self) -> None:
        if self._table.get(np.ndarray) is not self._ours:
            return  # somebody else has replaced it
        if self._before is None:
            del self._table[np.ndarray]
        else:
            self._table[np.ndarray] = self._before


class _State:
    on: typing.ClassVar[set[ByHandle]] = set()
    entries: typing.ClassVar[list[_Entry]] = []


def pickle_by_handle() -> ByHandle:
    """Makes plain pickles of this process contain handles of the arrays in shared memory.

    Arrays then stay shared wherever objects are pickled: with the standard ``multiprocessing``,
    with the processes of dask, mpire and pathos, with cloudpickle and loky. The switch applies to
    the whole process, all threads, and the children that it starts from now on. The end of a ``with
    pickle_by_handle():`` turns it off, and so does ``off()`` of the result. Private arrays, and
    those of a subclass of ``numpy.ndarray``, are pickled as before.

    Use it only for pickles that stay on this machine and in this family of processes, and that are
    loaded once:

    * A pickle in a file, a database, a cache, or on another machine is useless later. Loading it
      raises FileNotFoundError or StaleHandleError.
    * The receiver has the same memory, and every process sees its stores. A pickle is not a
      snapshot.
    * A pickle holds its arrays until it is loaded. One that is never loaded, because it was made to
      be hashed or measured or because pickling another object failed, holds them until all
      processes of the family have ended. ``segments()`` shows such tickets.
    * The first loading gives the tickets back. Further loadings succeed while somebody has the
      arrays.

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
    """Turns the switch on or off as the environment says, which the parent has set."""
    if os.environ.get(VARIABLE) != "1":
        # These switches are the fork server's, which has the environment of an earlier parent.
        for switch in list(_State.on):
            switch.off()
    elif not _State.on:
        pickle_by_handle()


def leave_family() -> None:
    """Makes this process the first of a family, unless it uses pickles of its parent's family. What
    it has sent when it is killed is then given back with it, and not with the whole family.
    """
    if os.environ.get(VARIABLE) != "1":
        os.environ.pop(_family.VARIABLE, None)


def _reducer(before: Callable[[Array], Any] | None) -> Callable[[Array], Any]:
    """Returns the reducer that the standard picklers call. Private arrays are reduced as before."""
    return functools.partial(_reduce, before or _reduce_private)


def _reduce(private: Callable[[Array], Any], array: Array) -> Any:
    return _reduce_shared(array) or private(array)


def _reduce_shared(array: Array) -> Any:
    """Reduces an array in shared memory. Returns None for one in private memory."""
    # An array without a base owns its memory, so it is not shared.
    location = None if array.base is None else _core.locate(array)
    if location is None:
        return None
    memory, _, is_writeable, offset = location
    is_fixed = is_writeable and not array.flags.writeable
    handle = str(_core.handle_to_send(memory))
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
    """Adds an entry to dill's own table, if dill is installed. The program may import dill
    later.
    """
    if importlib.util.find_spec("dill") is None:
        return []
    dill = importlib.import_module("dill")
    dill.dumps(np.zeros(0))  # makes dill add its own entry for arrays
    return [_Entry(dill.Pickler.dispatch, _saver)]


def _saver(before: Callable[[Any, Array], None]) -> Callable[[Any, Array], None]:
    """Returns the function that dill's pickler calls."""

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
    """Returns the array of a pickle, and gives its ticket back."""
    try:
        memory = _core.attach(handle, is_readonly).base
    except (FileNotFoundError, StaleHandleError) as error:
        raise type(error)(_loss_reason(handle)) from error
    assert memory is not None
    array: Array = np.ndarray(shape, dtype, memory, offset, strides)
    if is_fixed:
        array.flags.writeable = False
    return array


def _loss_reason(handle: str) -> str:
    how = (
        "all processes of the sender's family had ended, or it is of another machine or another "
        "SHMARRAY_DIR"
    )
    with contextlib.suppress(OSError):
        if _core.is_family_alive(handle):
            how = "the pickle was loaded before, and nobody has the array any more"
    return (
        "an array of this pickle was sent by its handle (shmarray.pickle_by_handle) and is gone: "
        f"{how}\n{handle}"
    )


def _reduce_private(array: Array) -> Any:
    """Reduces a private array as NumPy does."""
    # No protocol gives it a buffer. It may contain itself, and two steps would not end.
    if array.dtype.hasobject:
        return array.__reduce__()
    return typing.cast, (None, _Deferred(array))


class _Deferred:
    """Stands for an array until the pickler gives the protocol."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __reduce_ex__(self, protocol: typing.SupportsIndex) -> Any:
        return self._array.__reduce_ex__(protocol)
