"""Batches of many files: one array with the arrays of all."""

from __future__ import annotations

import math
import operator
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias, overload
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ._loading import NO_OBJECTS, name_file, name_of, read_only
from ._npy import Source
from ._npz import _thread_count

Progress = Callable[[int, int], object]
OnError: TypeAlias = Literal["raise", "skip"] | Callable[[Any, Exception], object]
"""What becomes of a file that cannot be loaded; a callable gets the source and the exception."""
_Failures = list[tuple[Any, Exception]]
_Kind = tuple[np.dtype[Any], tuple[int, ...]]
_PREFETCH = 2


class _Loader:
    """Loads the files of one batch."""

    def __init__(self, shared: bool, readonly: bool, threads: int, on_error: OnError) -> None:
        if on_error not in ("raise", "skip") and not callable(on_error):
            raise ValueError(f"on_error must be 'raise', 'skip' or a callable, not {on_error!r}")
        self._shared = shared
        self._readonly = readonly
        self._threads = threads
        self._on_error = on_error
        self.skips = on_error != "raise"

    def load(
        self, files: list[Any], progress: Progress | None = None
    ) -> tuple[NDArray[Any] | None, _Failures]:
        """Returns the array of all files that can be loaded, None if none can, and the failures."""
        failures: _Failures = []
        total = len(files)
        most = 0

        def report(done: int, _count: int) -> None:
            nonlocal most
            most = max(most, done + len(failures))
            assert progress is not None
            progress(most, total)

        while files or not failures:
            try:
                callback = None if progress is None else report
                array = _core.load_batch(files, self._shared, self._threads, callback)
                return (read_only(array) if self._readonly else array), failures
            except Exception as error:
                files, failed = self._without_failures(files, error)
                failures += failed
        return None, failures

    def _without_failures(self, files: list[Any], error: Exception) -> tuple[list[Any], _Failures]:
        """Returns the files that are like most others, and the failures. Raises the error unless it
        is due to a file that may be skipped.
        """
        if not self.skips or isinstance(error, MemoryError):
            raise error
        kinds = [kind_of(file) for file in files]
        common = Counter(kind for kind in kinds if isinstance(kind, tuple)).most_common(1)
        good = []
        failures = []
        for file, kind in zip(files, kinds, strict=True):
            if isinstance(kind, Exception):
                failures.append((file, kind))
            elif kind == common[0][0]:
                good.append(file)
            else:
                failures.append((file, _differs(file, kind, common[0][0])))
        if not failures:
            raise error
        return good, failures

    def report(self, failures: _Failures) -> None:
        """Tells the program of the files that are left out."""
        if callable(self._on_error):
            for source, error in failures:
                self._on_error(source, error)


def kind_of(file: Any) -> _Kind | Exception:
    """Loads one file of a batch. Returns its dtype and shape, or the exception."""
    try:
        found = _core.load_npy(file, False, 0, None)
        if found is not None:
            if found[0] is None:
                raise ValueError(NO_OBJECTS)
            return found[0].dtype, found[0].shape
    except MemoryError:
        raise
    except Exception as error:
        name_file(error, file)
        return error
    raise TypeError(f"expected paths, or the bytes of files, not {type(file).__name__}")


def _differs(file: Any, found: _Kind, expected: _Kind) -> ValueError:
    name = name_of(file) or "a file in memory"
    return ValueError(
        f"{name}: it has {found[0]} of shape {found[1]}, and most files of its batch have "
        f"{expected[0]} of shape {expected[1]}"
    )


class _Epoch(Iterator[NDArray[Any]]):
    """One pass over the batches, which are loaded before they are asked for."""

    def __init__(
        self, parts: list[list[Any]], loader: _Loader, prefetch: int, progress: Progress | None
    ) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: deque[Future[tuple[NDArray[Any] | None, _Failures]]] = deque()
        self._pid = os.getpid()
        self._next = 0
        self._parts = parts
        self._loader = loader
        self._prefetch = prefetch
        self._progress = progress
        self._total = sum(map(len, parts))
        self._done = 0
        self._advance()

    def __next__(self) -> NDArray[Any]:
        while True:
            batch, failures = self._take()
            self._loader.report(failures)
            if self._progress is not None:
                self._progress(self._done, self._total)
            if batch is not None:
                return batch

    def _take(self) -> tuple[NDArray[Any] | None, _Failures]:
        """Returns the next batch, or raises its exception. The one behind it comes next."""
        if self._pid != os.getpid():
            self._restart()
        if not self._ahead:
            raise StopIteration
        part = self._parts[self._next - len(self._ahead)]
        self._ahead[0].exception()  # waits; an interrupt leaves the batch ahead
        batch = self._ahead.popleft()
        self._advance()
        self._done += len(part)
        try:
            return batch.result()
        finally:
            del batch  # an exception refers to this frame

    def close(self) -> None:
        """Loads no more."""
        self._next = len(self._parts)
        if self._pool is not None and self._pid == os.getpid():
            # A forked child leaves the parent's futures alone: one may have been locked.
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._ahead.clear()
        self._pool = None

    def __del__(self) -> None:
        self.close()

    def _advance(self) -> None:
        """Has batches loaded, one after the other, until enough are ahead."""
        while self._next < len(self._parts) and len(self._ahead) < self._prefetch:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "shmarray batches")
            self._ahead.append(self._pool.submit(self._loader.load, self._parts[self._next]))
            self._next += 1

    def _restart(self) -> None:
        """In a forked child, which has no thread of the parent: loads again what was ahead."""
        self._next -= len(self._ahead)
        self._ahead.clear()
        self._pool = None
        self._pid = os.getpid()
        self._advance()


class Batches(Iterable[NDArray[Any]]):
    """The batches of many files, which are loaded before they are asked for.

    ``load_batch`` returns it. Each iteration is an epoch: it begins with the first batch. Several
    may go on at once. ``next`` goes on in the epoch that began last, and begins the first one,
    whose first batches are being loaded already. It is a context manager: leaving it loads no more,
    and ends all epochs.

    An error of a batch leaves the epoch where it is: ``next`` goes on with the next batch. A
    ``for`` ends with the error, as ever; ``on_error`` leaves out the files that cannot be loaded.
    A batch of which all files are left out is left out, too.

    >>> for number in range(5):
    ...     save_npy(f"{number}.npy", np.full((2, 3), number))
    >>> with load_batch((f"{number}.npy" for number in range(5)), batch_size=2) as batches:
    ...     for epoch in range(2):
    ...         print([batch.shape[0] for batch in batches])
    [2, 2, 1]
    [2, 2, 1]
    """

    def __init__(self, parts: list[list[Any]], begin: Callable[[], _Epoch]) -> None:
        self._parts = parts
        self._begin_one = begin
        self._epochs: WeakSet[_Epoch] = WeakSet()
        self._is_closed = False
        self._present = self._begin()
        self._is_begun = False

    def __len__(self) -> int:
        """The number of batches of an epoch, with those of which all files are skipped."""
        return len(self._parts)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        if self._is_closed:
            raise ValueError("the batches are closed")
        if self._is_begun:
            self._present = self._begin()
        self._is_begun = True
        return self._present

    def __next__(self) -> NDArray[Any]:
        self._is_begun = True
        return next(self._present)

    def close(self) -> None:
        """Loads no more. Batches that were returned stay."""
        self._is_closed = True
        for epoch in list(self._epochs):
            epoch.close()

    def __enter__(self) -> Batches:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> _Epoch:
        epoch = self._begin_one()
        self._epochs.add(epoch)
        return epoch


@overload
def load_batch(
    sources: Iterable[Source],
    batch_size: None = None,
    *,
    threads: int | None = None,
    prefetch: None = None,
    max_bytes: int | None = None,
    drop_last: Literal[False] = False,
    progress: Progress | None = None,
    shared: bool = True,
    readonly: bool = False,
    on_error: OnError = "raise",
) -> NDArray[Any]: ...


@overload
def load_batch(
    sources: Iterable[Source],
    batch_size: int,
    *,
    threads: int | None = None,
    prefetch: int | None = None,
    max_bytes: int | None = None,
    drop_last: bool = False,
    progress: Progress | None = None,
    shared: bool = True,
    readonly: bool = False,
    on_error: OnError = "raise",
) -> Batches: ...


def load_batch(
    sources: Iterable[Source],
    batch_size: int | None = None,
    *,
    threads: int | None = None,
    prefetch: int | None = None,
    max_bytes: int | None = None,
    drop_last: bool = False,
    progress: Progress | None = None,
    shared: bool = True,
    readonly: bool = False,
    on_error: OnError = "raise",
) -> NDArray[Any] | Batches:
    """Loads many NPY files of one shape and dtype into one array ``[N, …]``, or into batches.

    Several threads read the files straight into the array, without the GIL. In shared memory a
    forked worker's work in place changes its parent's array; ``readonly=True`` forbids it.

    Parameters
    ----------
    sources : iterable of paths or of bytes-like objects
        The files, in the order of the batch.
    batch_size : int, optional
        The number of files of each of the ``Batches``; the last may be smaller. Left out, all files
        become one array, which is returned.
    threads : int, optional
        How many threads read; one for each core if left out.
    prefetch : int, optional
        The most batches that are loaded before they are asked for; 2 if left out.
    max_bytes : int, optional
        The most bytes of the batches that are ahead, or of the one array: it lowers ``prefetch``.
    drop_last : bool, default False
        Whether a last batch that is smaller is left out.
    progress : callable, optional
        Called as ``progress(done, total)``, in files: with each batch, for one array every 50 ms.
    shared, readonly : bool
        Whether batches are in shared memory, as by default; whether they cannot be written to.
    on_error : "raise", "skip", or callable, default "raise"
        "skip" leaves out a file that cannot be loaded, or differs from most of its batch in shape
        or dtype: the batch is smaller. So does a callable, which gets the source and the exception.

    Raises ValueError when there are no files, and for a file that is broken or has another shape or
    dtype than the first, and says which; FileNotFoundError; MemoryError if shared memory is full.

    >>> save_npy("0.npy", np.zeros((2, 3)))
    >>> load_batch(["0.npy", "missing.npy", "0.npy"], on_error="skip").shape
    (2, 2, 3)
    """
    files = list(sources)
    loader = _Loader(shared, readonly, _thread_count(threads), on_error)
    if batch_size is not None:
        return _batches(files, batch_size, loader, (prefetch, max_bytes, drop_last, progress))
    if prefetch is not None or drop_last:
        raise ValueError("prefetch and drop_last are for batches: give a batch_size")
    if max_bytes is not None and files:
        _batches_within(max_bytes, files, len(files), loader)
    array, failures = loader.load(files, progress)
    loader.report(failures)
    if array is None:
        raise ValueError("none of the files can be loaded") from failures[0][1]
    return array


def _batches(
    files: list[Any],
    batch_size: int,
    loader: _Loader,
    how: tuple[int | None, int | None, bool, Progress | None],
) -> Batches:
    """Returns the batches. ``how``: prefetch, max_bytes, drop_last, progress."""
    prefetch, max_bytes, drop_last, progress = how
    ahead = _PREFETCH if prefetch is None else prefetch
    for name, value in (("batch_size", batch_size), ("prefetch", ahead)):
        if operator.index(value) < 1:
            raise ValueError(f"invalid {name}: {value} is less than 1")
    if max_bytes is not None and files:
        ahead = min(ahead, _batches_within(max_bytes, files, batch_size, loader))
    end = len(files) - (len(files) % batch_size if drop_last else 0)
    parts = [files[at : min(at + batch_size, end)] for at in range(0, end, batch_size)]
    return Batches(parts, lambda: _Epoch(parts, loader, ahead, progress))


def _batches_within(max_bytes: int, files: list[Any], batch_size: int, loader: _Loader) -> int:
    """Returns how many batches take at most so much memory: at least one."""
    batch_bytes = _file_bytes(files, loader) * min(batch_size, len(files))
    if batch_bytes > max_bytes:
        raise ValueError(f"one batch takes {batch_bytes} bytes, more than max_bytes={max_bytes}")
    return max_bytes // max(batch_bytes, 1)


def _file_bytes(files: list[Any], loader: _Loader) -> int:
    """Returns the size of the elements of the first file, of those that can be loaded."""
    for file in files:
        kind = kind_of(file)
        if isinstance(kind, tuple):
            return kind[0].itemsize * math.prod(kind[1])
        if not loader.skips:
            raise kind
    return 0
