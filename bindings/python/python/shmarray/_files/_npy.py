"""Loading and saving one array: NPY files."""

from __future__ import annotations

import io
import math
import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union

import numpy as np
from numpy.lib import format as numpy_format
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ._loading import (
    NO_OBJECTS,
    header_limit,
    is_path,
    name_file,
    pickle_options,
    read_only,
    unpickle,
)
from ._streams import Chained, Reader, read_array, read_header

if TYPE_CHECKING:
    from typing_extensions import Buffer

Source: TypeAlias = Union[str, "os.PathLike[str]", "Buffer", Reader]
"""What a file is read from."""


def load_npy(
    source: Source,
    mmap_mode: Literal["r", "r+", "c"] | None = None,
    allow_pickle: bool = False,
    fix_imports: bool = True,
    encoding: Literal["ASCII", "latin1", "bytes"] = "ASCII",
    *,
    max_header_size: int | None = None,
    shared: bool = True,
    readonly: bool = False,
    align: bool = False,
) -> NDArray[Any]:
    """Returns the array of an NPY file, as ``numpy.load`` does, but in shared memory.

    There, unlike with ``numpy.load``, a forked worker's work in place changes its parent's array:
    ``readonly=True`` forbids it, and ``shared=False`` gives each process its own.

    Parameters
    ----------
    source : path, bytes-like, or file
        A path; the bytes of a file, in any object with a buffer; or an object with ``read``, such
        as an ``mmap``, from where it stands: it is left behind the array.
    mmap_mode : {"r", "r+", "c"}, optional
        Only for a path: the file is mapped by ``numpy.memmap``, read-only, so that stores go to the
        file, or copy on write. Such a file must not be saved over in place, as ``numpy.save`` does:
        the array changes, and if the file becomes shorter, an access to the lost pages is SIGBUS.
        ``save_npy`` replaces the file, which harms nobody.
    allow_pickle : bool, default False
        Whether an array of Python objects is unpickled, by NumPy and into private memory.
        Unpickling a file that others wrote can run their code.
    fix_imports, encoding
        How objects that Python 2 pickled are unpickled, as ``numpy.load`` takes them.
    max_header_size : int, optional
        The most bytes of a header's text, if ``allow_pickle`` is False. If left out, as many as
        core reads: NumPy's 10,000 protect a parser that is not used here.
    shared : bool, default True
        True: the array is in shared memory; the elements are read or copied once, straight to
        where they belong. False: it is private; of bytes, or of an ``mmap``, it is a read-only
        view, which keeps them.
    readonly : bool, default False
        Whether the array cannot be written to. In shared memory its pages cannot.
    align : bool, default False
        Whether a view that is not aligned (``flags.aligned``) is copied.

    Raises ValueError for a file that is broken or has Python objects, and says which file and field
    are at fault; FileNotFoundError; MemoryError if shared memory is full; EOFError at its end.

    >>> save_npy("image.npy", np.arange(6, dtype="u1").reshape(2, 3))
    >>> int(load_npy("image.npy")[1, 2])
    5
    """
    options = pickle_options(fix_imports, encoding) if allow_pickle or encoding != "ASCII" else None
    most = None if max_header_size is None else header_limit(allow_pickle, max_header_size)
    try:
        array = _loaded(source, shared, mmap_mode, most, options if allow_pickle else None)
        array = _aligned(array, mmap_mode) if align else array
    except Exception as error:
        name_file(error, source)
        raise
    return read_only(array) if readonly else array


def _loaded(
    source: Any,
    shared: bool,
    mmap_mode: Literal["r", "r+", "c"] | None,
    max_header_size: int | None,
    pickled: dict[str, Any] | None,
) -> NDArray[Any]:
    """Returns the array. Python objects are refused unless ``pickled`` says how they are read."""
    if mmap_mode is not None:
        return _map(source, mmap_mode, max_header_size)
    if hasattr(source, "read"):
        found = read_array(source, shared=shared, max_header_size=max_header_size)
        if isinstance(found, np.ndarray):
            return found
        if pickled is None:
            raise ValueError(NO_OBJECTS)
        return unpickle(Chained(found, source), pickled)
    of_memory = _core.load_npy(source, shared, 0, max_header_size)
    if of_memory is None:
        raise TypeError(
            f"expected a path, the bytes of a file, or an object with read(), "
            f"not {type(source).__name__}"
        )
    array = of_memory[0]
    return _load_objects(source, pickled) if array is None else array


def _map(
    source: Any, mmap_mode: Literal["r", "r+", "c"], max_header_size: int | None
) -> NDArray[Any]:
    if not is_path(source):
        raise ValueError("mmap_mode is for a path")
    if mmap_mode not in ("r", "r+", "c"):
        raise ValueError(f"mmap_mode must be 'r', 'r+' or 'c' for a file, not {mmap_mode!r}")
    with open(source, "rb") as file:
        header, dtype, shape, order = read_header(file, max_header_size)
        if dtype is None:
            raise ValueError("Array can't be memory-mapped: Python objects in dtype.")
        needed = dtype.itemsize * math.prod(shape)
        found = os.fstat(file.fileno()).st_size - len(header)
        if found < needed:  # numpy.memmap would make it longer for "r+"
            raise ValueError(f"data: the elements take {needed} bytes, and the file has {found}")
    return np.memmap(source, dtype, mmap_mode, len(header), shape, order)


def _load_objects(source: Any, pickled: dict[str, Any] | None) -> NDArray[Any]:
    if pickled is None:
        raise ValueError(NO_OBJECTS)
    if is_path(source):
        with open(source, "rb") as file:
            return unpickle(file, pickled)
    return unpickle(io.BytesIO(source), pickled)


def _aligned(array: NDArray[Any], mmap_mode: str | None) -> NDArray[Any]:
    """Returns the array, or a copy that is aligned and can be written to as it could."""
    if array.flags.aligned:
        return array
    if mmap_mode == "r+":
        raise ValueError("align would copy the array, and stores would not reach the file")
    copy = np.array(array, order="K")
    copy.flags.writeable = array.flags.writeable
    return copy


def save_npy(file: str | os.PathLike[str] | Any, arr: ArrayLike, allow_pickle: bool = True) -> None:
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
    arr : anything that ``numpy.asanyarray`` takes
        Of any strides, in private or in shared memory.
    allow_pickle : bool, default True
        Whether an array of Python objects is pickled. Otherwise it is a ValueError.

    Raises FileNotFoundError for a folder that does not exist, PermissionError, OSError when the
    disk is full, ValueError for Python objects without ``allow_pickle``, NotImplementedError for a
    masked array with something masked, since a file cannot hold the mask.

    >>> save_npy("grid", np.eye(3))
    >>> float(load_npy("grid.npy")[2, 2])
    1.0
    """
    plain = plain_array(arr)
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
    if isinstance(found, masked) and np.ma.flatten_mask(np.ma.getmaskarray(found)).any():
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
