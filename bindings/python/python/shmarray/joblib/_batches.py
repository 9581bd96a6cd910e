"""Pickles batches of calls and their results: arrays by handle, what others cannot import by
value.
"""

import os
import pickle
import tempfile
import weakref
from typing import Any, TypeAlias

import numpy as np
from joblib._memmapping_reducer import (
    JOBLIB_MMAPS,
    ArrayMemmapForwardReducer,
    TemporaryResourcesManager,
    _get_backing_memmap,
    _reduce_memmap_backed,
)

from .. import attach, handle, is_shared, share
from .._tasks import _internals
from .._tasks._ipc import _message
from .._tasks._ipc._message import OutgoingMessage
from .._tasks._workers import WorkerProtocol
from ..concurrent.process import ExecutorProtocol, ExecutorTask

try:
    from joblib.externals import cloudpickle  # joblib before 1.6 has its own
except ImportError:
    import cloudpickle


Array: TypeAlias = np.ndarray[Any, Any]


class BatchProtocol(ExecutorProtocol):
    """Performs batches. A result may be an object that only the worker can import, or nobody."""

    @staticmethod
    def pack(obj: object, copies: _internals.Copies | None = None) -> OutgoingMessage:
        return _pack(obj, None, copies)


class BatchTask(ExecutorTask):
    """A batch of calls, with the snapshots of its call."""

    def __init__(
        self, future: Any, call: tuple[Any, Any, Any], snapshots: "Snapshots | None"
    ) -> None:
        super().__init__(future, call)
        self._snapshots: Snapshots | None = snapshots

    def pack(self, protocol: type[WorkerProtocol]) -> None:  # noqa: ARG002
        call, self.call = self.call, None
        try:
            self.packed, self._snapshots = _pack(call, self._snapshots), None
        except MemoryError:
            raise
        except Exception as error:
            raise pickle.PicklingError(
                "Could not pickle the task to send it to the workers."
            ) from error


def _pack(
    obj: object, snapshots: "Snapshots | None", copies: _internals.Copies | None = None
) -> OutgoingMessage:
    return _message.pack_by(obj, lambda: _BatchPickler(snapshots), copies)


class _BatchPickler(_internals.ArrayPickler, cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles arrays our way, and functions and classes that cannot be imported by cloudpickle."""

    STREAM_BYTES = _message.PipePickler.STREAM_BYTES
    SMALL_BYTES = _message.PipePickler.SMALL_BYTES
    LARGE_BYTES = _message.PipePickler.LARGE_BYTES
    READ_ONLY = _internals.ReadOnly.BUFFERS  # joblib's own backends use protocol 5
    REDUCERS = _message.PipePickler.REDUCERS
    COPIES = _message.PipePickler.COPIES

    def __init__(self, snapshots: "Snapshots | None") -> None:
        # A view may be one of a memmap.
        super().__init__(_BatchCollector(snapshots), takes_views=False)
        if snapshots is not None:
            self.SMALL_BYTES = min(self.SMALL_BYTES, snapshots.large_bytes)
            self.reducer.begin(self.SMALL_BYTES)

    def set_reducer(self) -> None:
        """Does nothing: this class has a method ``reducer_override``."""

    def reducer_override(self, obj: Any) -> Any:
        reduced = self.reducer.reduce(obj)
        return (
            cloudpickle.Pickler.reducer_override(self, obj)
            if reduced is NotImplemented
            else reduced
        )


class _BatchCollector(_internals.Collector):
    """Replaces large private arrays by their snapshots."""

    def __init__(self, snapshots: "Snapshots | None") -> None:
        super().__init__()
        self._snapshots = snapshots

    def reduce_array(self, array: Array) -> Any:
        file = _get_backing_memmap(array)
        if isinstance(file, np.memmap):
            if self._snapshots is not None or file.filename not in JOBLIB_MMAPS:
                return _reduce_memmap_backed(array, file)
            # This is a result. As in joblib, its file is removed with the call.
            return super().reduce_array(np.array(array))
        if self._snapshots is None or type(array) is not np.ndarray:
            return super().reduce_array(array)
        snapshot = self._snapshots.of(array)
        return (
            self._snapshots.in_file(array) if snapshot is None else super().reduce_array(snapshot)
        )


class Snapshots:
    """Large private arrays, each shared once for all tasks of a call.

    An array that finds no room in shared memory is in a file, as with joblib's own backends.
    """

    def __init__(self, large_bytes: int, mode: str, folder: str | None) -> None:
        self.large_bytes = large_bytes
        self._mode = mode
        self._folder = folder
        self._by_id: dict[int, tuple[weakref.ref[Array], Array | None]] = {}
        self._files: _Files | None = None

    def of(self, array: Array) -> Array | None:
        """Returns the array that tasks get: the array itself unless it is large and private, or
        None if it is in a file.
        """
        if array.nbytes <= self.large_bytes or array.dtype.hasobject or is_shared(array):
            return array
        key = id(array)
        ref, snapshot = self._by_id.get(key, (None, None))
        if ref is None or ref() is not array:
            snapshot = self._share(array)
            self._by_id[key] = weakref.ref(array, lambda ref: self._forget(key, ref)), snapshot
        return snapshot

    def _share(self, array: Array) -> Array | None:
        try:
            snapshot = share(array)
        except _internals.FULL as error:
            if self._files is None:
                self._files = _Files(self._mode, self._folder)
            _internals.warn_of_shortage(
                error,
                f"is copied through pipes, and large arguments to files in {self._files.folder}",
            )
            return None
        return attach(handle(snapshot), readonly=True) if self._mode == "r" else snapshot

    def in_file(self, array: Array) -> Any:
        """Reduces an array of a file. The file is written at the first call."""
        assert self._files is not None
        return self._files.reduce(array)

    def clear(self) -> None:
        self._by_id.clear()
        if self._files is not None:
            self._files.remove()
            self._files = None

    def _forget(self, key: int, ref: "weakref.ref[Array]") -> None:
        """Forgets an array that was garbage collected. Another may have its address by now."""
        if self._by_id.get(key, (None, None))[0] is ref:
            del self._by_id[key]


class _Files:
    """Arrays in files of joblib, which workers map. Joblib's resource tracker removes them if this
    process dies.
    """

    def __init__(self, mode: str, folder: str | None) -> None:
        """Without a folder joblib might choose shared memory, which is full."""
        self.folder = folder or os.environ.get("JOBLIB_TEMP_FOLDER") or tempfile.gettempdir()
        self._manager = TemporaryResourcesManager(self.folder)
        resolve = self._manager.resolve_temp_folder_name
        self.reduce = ArrayMemmapForwardReducer(
            0, resolve, mode, unlink_on_gc_collect=False, prewarm=False
        )

    def remove(self) -> None:
        """Removes the files. A process that has mapped one keeps its memory."""
        self._manager._clean_temporary_resources(force=True)
