"""Loading and saving one array: NPY files."""

import io
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeGuard, Union

import numpy as np
from numpy.lib import format as numpy_format
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ._streams import Chained, Reader, read_array

if TYPE_CHECKING:
    from typing_extensions import Buffer

Source: TypeAlias = Union[str, "os.PathLike[str]", "Buffer", Reader]
"""What a file is read from."""
NO_OBJECTS = "Object arrays cannot be loaded when allow_pickle=False"


def load_npy(
    source: Source,
    *,
    shared: bool = True,
    mmap_mode: Literal["r", "r+", "c"] | None = None,
    align: bool = False,
    allow_pickle: bool = False,
) -> NDArray[Any]:
    """Returns the array of an NPY file, as ``numpy.load`` does, but in shared memory.

    Parameters
    ----------
    source : path, bytes-like, or file
        A path; the bytes of a file, in any object with a buffer (``bytes``, ``bytearray``,
        ``memoryview``, ``mmap``); or an object with ``read``, which is left behind the array, so
        that the next call returns the next array.
    shared : bool, default True
        True: the array is in shared memory; the elements are read or copied once, straight to
        where they belong. False: it is private; of bytes it is a read-only view, which keeps them
        alive.
    mmap_mode : {"r", "r+", "c"}, optional
        Only for a path: the file is mapped by ``numpy.memmap``, read-only, so that stores go to the
        file, or copy on write.
    align : bool, default False
        Whether a view that is not aligned (``flags.aligned``) is copied.
    allow_pickle : bool, default False
        Whether an array of Python objects is unpickled, by NumPy and into private memory.
        Unpickling a file that others wrote can run their code.

    In shared memory a forked worker's stores in place are seen by its parent, unlike those into an
    array of ``numpy.load``.

    A mapped file must not be saved over in place, as ``numpy.save`` does: the array changes, and if
    the file becomes shorter, an access to the lost pages ends this process (SIGBUS). ``save_npy``
    replaces the file where it can, which harms nobody.

    Raises ValueError for a file that is broken or has Python objects, and says which field is at
    fault; FileNotFoundError; MemoryError if shared memory is full; EOFError if an object with
    ``read`` has no bytes left.

    >>> save_npy("image.npy", np.arange(6, dtype="u1").reshape(2, 3))
    >>> int(load_npy("image.npy")[1, 2])
    5
    >>> with open("image.npy", "rb") as file:
    ...     data = file.read()
    >>> load_npy(data, shared=False).base is data
    True
    """
    if mmap_mode is not None:
        return _map(source, mmap_mode)
    found = _core.load_npy(source, shared, 0)
    if found is None:
        return _load_stream(source, shared, allow_pickle)
    array, _ = found
    if array is None:
        return _load_objects(source, allow_pickle)
    if align and not array.flags.aligned:
        array = array.copy(order="K")
        array.flags.writeable = False
    return array


def _map(source: Any, mmap_mode: Literal["r", "r+", "c"]) -> NDArray[Any]:
    if not is_path(source):
        raise ValueError("mmap_mode is for a path")
    if mmap_mode not in ("r", "r+", "c"):
        raise ValueError(f"mmap_mode must be 'r', 'r+' or 'c', not {mmap_mode!r}")
    return numpy_format.open_memmap(source, mode=mmap_mode)


def is_path(source: Any) -> TypeGuard["str | os.PathLike[str]"]:
    """Returns whether it is a path, and not the contents of a file."""
    return isinstance(source, (str, os.PathLike))


def _load_stream(file: Any, shared: bool, allow_pickle: bool) -> NDArray[Any]:
    if not hasattr(file, "read"):
        raise TypeError(
            f"expected a path, the bytes of a file, or an object with read(), "
            f"not {type(file).__name__}"
        )
    found = read_array(file, shared=shared)
    if isinstance(found, np.ndarray):
        return found
    if not allow_pickle:
        raise ValueError(NO_OBJECTS)
    return unpickle(Chained(found, file))


def _load_objects(source: Any, allow_pickle: bool) -> NDArray[Any]:
    if not allow_pickle:
        raise ValueError(f"{os.fspath(source)}: {NO_OBJECTS}" if is_path(source) else NO_OBJECTS)
    if is_path(source):
        with open(source, "rb") as file:
            return unpickle(file)
    return unpickle(io.BytesIO(source))


def unpickle(file: Any) -> NDArray[Any]:
    """Returns an array of Python objects from a file, which NumPy reads."""
    array: NDArray[Any] = numpy_format.read_array(file, allow_pickle=True)
    return array


def save_npy(
    file: str | os.PathLike[str] | Any, array: ArrayLike, *, allow_pickle: bool = True
) -> None:
    """Saves an array to an NPY file, with the bytes that ``numpy.save`` writes.

    Other threads of Python run meanwhile. A file appears under its path when it is complete: a
    process that is killed leaves the older file, or none. An older file is replaced and keeps its
    owner, mode, extended attributes and access control list; readers that have it open keep its
    contents.

    An older file is written in place, as by ``numpy.save``, if it has several names (hard links),
    if its owner could not stay, or if it cannot be replaced: if it is a mount, or its folder may
    not be written. Then readers see it change, and a kill may leave a part of it, which begins with
    zeros. The whole file is in a temporary one before. A pipe is written as it is.

    Parameters
    ----------
    file : path, or object with ``write``
        ``.npy`` is added to a path that does not end so.
    array : anything that ``numpy.asanyarray`` takes
        Of any strides, in private or in shared memory.
    allow_pickle : bool, default True
        Whether an array of Python objects is pickled. Otherwise it is a ValueError.

    Raises FileNotFoundError for a folder that does not exist, PermissionError, OSError when the
    disk is full, ValueError for Python objects without ``allow_pickle``, NotImplementedError for a
    masked array, whose mask a file cannot hold.

    >>> save_npy("grid", np.eye(3))
    >>> float(load_npy("grid.npy")[2, 2])
    1.0
    """
    plain = plain_array(array)
    target = with_suffix(file, ".npy")
    if not is_core_s(plain, allow_pickle):
        data = numpy_bytes(plain, allow_pickle)
        if isinstance(target, str):
            _core.save_bytes(target, data)
        else:
            target.write(data)
        return
    warn_of_version(_core.save_npy(target, plain))


def plain_array(array: ArrayLike) -> NDArray[Any]:
    """Returns an array as a plain ndarray, unless it would lose something."""
    found = np.asanyarray(array)
    # NumPy imports this module at its first use. Without it there is no masked array.
    masked: Any = getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())
    if isinstance(found, masked):
        raise NotImplementedError(
            "a file cannot hold the mask of a masked array: save .filled(), or .data and .mask"
        )
    return found.view(np.ndarray)


def with_suffix(file: Any, suffix: str) -> Any:
    """Returns a path as ``str`` with this ending, and any other object itself."""
    if hasattr(file, "write"):
        return file
    path = os.fspath(file)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return path if path.endswith(suffix) else path + suffix


def is_core_s(array: NDArray[Any], allow_pickle: bool) -> bool:
    """Returns whether core can save an array. Warns of what a file cannot hold."""
    if array.dtype.hasobject:
        if not allow_pickle:
            raise ValueError("Object arrays cannot be saved when allow_pickle=False")
        return False
    if _has_metadata(array.dtype):
        return False  # NumPy warns of it
    try:
        _core.check_dtype(array.dtype)
    except TypeError:
        return False
    return True


def numpy_bytes(array: NDArray[Any], allow_pickle: bool) -> bytes:
    """Returns the file of an array that core cannot save, as NumPy writes it."""
    file = io.BytesIO()
    numpy_format.write_array(file, array, allow_pickle=allow_pickle)
    return file.getvalue()


def _has_metadata(dtype: np.dtype[Any]) -> bool:
    if dtype.metadata is not None:
        return True
    if dtype.subdtype is not None:
        return _has_metadata(dtype.subdtype[0])
    return any(_has_metadata(field[0]) for field in (dtype.fields or {}).values())


def warn_of_version(version: int) -> None:
    """Warns as NumPy does of a file that old versions of NumPy cannot read."""
    if version == 2:
        text = "Stored array in format 2.0. It can only be read by NumPy >= 1.9"
    elif version == 3:
        text = (
            "Stored array in format 3.0. It can only be read by NumPy >= 1.17, and field names "
            "have non-latin1 characters"
        )
    else:
        return
    warnings.warn(text, UserWarning, stacklevel=3)
