"""What loaders of files share: options of NumPy's, read-only arrays, errors that name the file."""

import operator
import os
from typing import Any, TypeGuard

from numpy.lib import format as numpy_format
from numpy.typing import NDArray

from .. import _core

NO_OBJECTS = "Object arrays cannot be loaded when allow_pickle=False"
_ENCODINGS = ("ASCII", "latin1", "bytes")
_NO_LIMIT = 1 << 32
"""The length of a header's text has 32 bits at most."""
_PLAIN_ERRORS = (EOFError, MemoryError, TypeError, UnicodeError, ValueError)
"""Exceptions that have nothing but a text."""


def pickle_options(fix_imports: bool, encoding: str) -> dict[str, Any]:
    """Returns how Python objects are unpickled. Any other encoding would change bytes of arrays."""
    if encoding not in _ENCODINGS:
        raise ValueError("encoding must be 'ASCII', 'latin1', or 'bytes'")
    return {"encoding": encoding, "fix_imports": fix_imports}


def header_limit(allow_pickle: bool, max_header_size: int | None) -> int | None:
    """Returns the most bytes of a header's text. A file with a pickle is trusted, as by NumPy."""
    if allow_pickle or max_header_size is None or max_header_size > _NO_LIMIT:
        return None
    return max(operator.index(max_header_size), 0)


def unpickle(file: Any, options: dict[str, Any]) -> NDArray[Any]:
    """Returns an array of Python objects from a file, which NumPy reads."""
    array: NDArray[Any] = numpy_format.read_array(file, allow_pickle=True, pickle_kwargs=options)
    return array


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Returns an array that cannot be written to: in shared memory its pages cannot."""
    if _core.is_shared(array):
        return _core.attach(_core.handle(array), True)
    array.flags.writeable = False
    return array


def is_path(source: Any) -> TypeGuard["str | os.PathLike[str]"]:
    """Returns whether it is a path, and not the contents of a file."""
    return isinstance(source, (str, os.PathLike))


def name_of(source: Any) -> str | None:
    """Returns the path of a file, or the ``name`` of an object that is one, if it is a text."""
    name = os.fsdecode(source) if is_path(source) else getattr(source, "name", None)
    return name if isinstance(name, str) and name else None


def name_file(error: Exception, source: Any) -> None:
    """Puts the name of the file into an error that has none."""
    name = name_of(source)
    if name is None or name in str(error):
        return
    if type(error) in _PLAIN_ERRORS:
        error.args = (f"{name}: {error}",)
    else:
        error.add_note(f"while {name} was loaded")
