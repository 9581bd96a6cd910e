"""Batches of many files: one array with the arrays of all."""

import operator
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, overload

from numpy.typing import NDArray

from .. import _core
from ._npy import Source, load_npy
from ._npz import _thread_count

Progress = Callable[[int, int], object]


class Batches(Iterator[NDArray[Any]]):
    """The batches of many files, which are loaded before they are asked for.

    ``load_batch`` returns it. It is an iterator, and a context manager: leaving it loads no more.
    """

    def __init__(
        self,
        sources: list[Any],
        batch_size: int,
        threads: int,
        prefetch: int,
        shared: bool,
        drop_last: bool,
        progress: Progress | None,
    ) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._ahead: deque[Future[NDArray[Any]]] = deque()
        self._pid, self._next = os.getpid(), 0
        end = len(sources) - (len(sources) % batch_size if drop_last else 0)
        self._parts = [sources[at : min(at + batch_size, end)] for at in range(0, end, batch_size)]
        self._threads, self._shared, self._prefetch = threads, shared, prefetch
        self._progress, self._total, self._done = progress, end, 0
        self._advance()

    def __len__(self) -> int:
        """The number of batches."""
        return len(self._parts)

    def __next__(self) -> NDArray[Any]:
        if self._pid != os.getpid():
            self._restart()
        if not self._ahead:
            raise StopIteration
        part = self._parts[self._next - len(self._ahead)]
        try:
            batch = self._ahead.popleft().result()
        except BaseException:
            self.close()
            raise
        self._advance()
        self._done += len(part)
        if self._progress is not None:
            self._progress(self._done, self._total)
        return batch

    def close(self) -> None:
        """Loads no more. Batches that were returned stay."""
        self._next = len(self._parts)
        if self._pool is not None and self._pid == os.getpid():
            # A forked child leaves the parent's futures alone: one may have been locked.
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._ahead.clear()
        self._pool = None

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _advance(self) -> None:
        """Has batches loaded, one after the other, until enough are ahead."""
        while self._next < len(self._parts) and len(self._ahead) < self._prefetch:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "shmarray batches")
            part = self._parts[self._next]
            self._ahead.append(
                self._pool.submit(_core.load_batch, part, self._shared, self._threads, None)
            )
            self._next += 1

    def _restart(self) -> None:
        """In a forked child, which has no thread of the parent: loads again what was ahead."""
        self._next -= len(self._ahead)
        self._ahead.clear()
        self._pool, self._pid = None, os.getpid()
        self._advance()


@overload
def load_batch(
    sources: Iterable[Source],
    batch_size: None = None,
    *,
    threads: int | None = None,
    prefetch: int = 2,
    max_bytes: int | None = None,
    drop_last: bool = False,
    progress: Progress | None = None,
    shared: bool = True,
) -> NDArray[Any]: ...


@overload
def load_batch(
    sources: Iterable[Source],
    batch_size: int,
    *,
    threads: int | None = None,
    prefetch: int = 2,
    max_bytes: int | None = None,
    drop_last: bool = False,
    progress: Progress | None = None,
    shared: bool = True,
) -> Batches: ...


def load_batch(
    sources: Iterable[Source],
    batch_size: int | None = None,
    *,
    threads: int | None = None,
    prefetch: int = 2,
    max_bytes: int | None = None,
    drop_last: bool = False,
    progress: Progress | None = None,
    shared: bool = True,
) -> NDArray[Any] | Batches:
    """Loads many NPY files of one shape and dtype into one array ``[N, …]``, or into batches.

    Several threads read the files straight into the array, without the GIL.

    Parameters
    ----------
    sources : iterable of paths or of bytes-like objects
        The files, in the order of the batch.
    batch_size : int, optional
        The number of files of a batch. Left out, all files become one array, which is returned.
        Otherwise the result is an iterator of batches; the last may be smaller.
    threads : int, optional
        How many threads read; one for each core if left out.
    prefetch : int, default 2
        The most batches that are loaded, or are being loaded, before they are asked for.
    max_bytes : int, optional
        The most memory in bytes that batches which are ahead may take together, or the one array.
        It lowers ``prefetch`` if need be; one batch must fit.
    drop_last : bool, default False
        Whether a last batch that is smaller is left out.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of files, in this thread: with each
        batch; for one array at most every 50 ms, and at its end.
    shared : bool, default True
        Whether batches are in shared memory. Otherwise they are private.

    A batch goes to PyTorch by ``torch.from_numpy``, and to another process by its handle, without a
    copy.

    Raises ValueError when there are no files, when a file is broken, or when it has another shape
    or dtype than the first, and says which; FileNotFoundError; MemoryError if shared memory is
    full.

    >>> for number in range(5):
    ...     save_npy(f"{number}.npy", np.full((2, 3), number))
    >>> load_batch([f"{number}.npy" for number in range(5)]).shape
    (5, 2, 3)
    >>> with load_batch((f"{number}.npy" for number in range(5)), batch_size=2) as batches:
    ...     print([batch.shape[0] for batch in batches])
    [2, 2, 1]
    """
    files, count = list(sources), _thread_count(threads)
    if batch_size is None:
        if max_bytes is not None and files:
            _batches_within(max_bytes, files, len(files))
        return _core.load_batch(files, shared, count, progress)
    ahead = _ahead(files, batch_size, prefetch, max_bytes)
    return Batches(files, batch_size, count, ahead, shared, drop_last, progress)


def _ahead(files: list[Any], batch_size: int, prefetch: int, max_bytes: int | None) -> int:
    """Returns how many batches may be ahead."""
    for name, value in (("batch_size", batch_size), ("prefetch", prefetch)):
        if operator.index(value) < 1:
            raise ValueError(f"invalid {name}: {value} is less than 1")
    if max_bytes is None or not files:
        return prefetch
    return min(prefetch, _batches_within(max_bytes, files, batch_size))


def _batches_within(max_bytes: int, files: list[Any], batch_size: int) -> int:
    """Returns how many batches take at most so much memory: at least one."""
    batch_bytes = load_npy(files[0], shared=False).nbytes * min(batch_size, len(files))
    if batch_bytes > max_bytes:
        raise ValueError(f"one batch takes {batch_bytes} bytes, more than max_bytes={max_bytes}")
    return max_bytes // max(batch_bytes, 1)
