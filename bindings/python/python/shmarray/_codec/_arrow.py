"""Reducers that send Arrow memory of Polars and pandas objects without a copy.

Polars copies a whole frame into bytes when it is pickled, and the receiver copies it again. pandas
copies each column. PyArrow pickles the same memory out of band, so these objects are pickled as
PyArrow tables and arrays, and memory that is shared already is not copied. Small objects, small
slices of large memory, and types that Arrow does not have are pickled by their own library.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .._thresholds import ARROW_LEAST_BYTES

_POLARS_TYPES = {
    *(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)),
    *("Float32", "Float64", "Boolean", "String", "Binary", "Date", "Time", "Datetime", "Duration"),
}
"""The Polars types that have the same memory layout in Arrow."""

_TEXT_BYTES = 16
"""The bytes that Arrow needs for one text, however short it is."""


reducers: dict[type, Callable[[Any], Any]] = {}
"""The reducers by class. A reducer may return NotImplemented."""


def add_imported_classes() -> None:
    """Adds the classes of libraries that were imported since the last call."""
    global _modules
    if len(sys.modules) == _modules:
        return
    _modules = len(sys.modules)
    polars = _names_in(sys.modules.get("polars"))
    pandas = _names_in(sys.modules.get("pandas"))
    arrays = _names_in(pandas.get("arrays"))
    for names, name, reduce in (
        (polars, "DataFrame", _reduce_frame),
        (polars, "Series", _reduce_series),
        (arrays, "ArrowExtensionArray", _reduce_column),
        (arrays, "ArrowStringArray", _reduce_column),
    ):
        if isinstance(kind := names.get(name), type):
            reducers[kind] = reduce


def owns(memory: memoryview) -> bool:
    """Returns whether a buffer is Arrow's, and so immutable, whatever its flag says. Slices of one
    array pickle the same whole buffers.
    """
    return type(memory.obj).__module__ == "pyarrow.lib"


def _names_in(module: Any) -> dict[str, Any]:
    """Returns the names that a module has now. Asking a lazily loaded module for a name would load
    it.
    """
    try:
        names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return names


def _reduce_frame(frame: Any) -> Any:
    return _reduce_polars(frame, _frame, frame.estimated_size())


def _reduce_series(series: Any) -> Any:
    return _reduce_polars(series.to_frame(), _series, series.estimated_size())


def _reduce_polars(frame: Any, make: Callable[[Any], Any], needed: int) -> Any:
    if needed < ARROW_LEAST_BYTES or not all(
        dtype.base_type().__name__ in _POLARS_TYPES for dtype in frame.dtypes
    ):
        return NotImplemented
    if not find_spec("pyarrow"):
        return NotImplemented
    table = frame.to_arrow(compat_level=sys.modules["polars"].CompatLevel.newest())
    return (
        (make, (table,))
        if _is_whole(table, needed + _TEXT_BYTES * frame.height * frame.width)
        else NotImplemented
    )


def _reduce_column(column: Any) -> Any:
    memory = column.__arrow_array__()
    if memory.get_total_buffer_size() < ARROW_LEAST_BYTES:
        return NotImplemented  # `nbytes` takes as long as the rest of a small column
    is_sent = memory.nbytes >= ARROW_LEAST_BYTES and _is_whole(memory, memory.nbytes)
    return (_column, (column.dtype, memory)) if is_sent else NotImplemented


def _is_whole(memory: Any, needed: int) -> bool:
    """Returns whether the memory is no small slice of its buffers, which PyArrow sends whole."""
    return bool(memory.get_total_buffer_size() <= 2 * needed)


def _frame(table: Any) -> Any:
    return import_module("polars").from_arrow(table, rechunk=False)


def _series(table: Any) -> Any:
    return _frame(table).to_series()


def _column(dtype: Any, memory: Any) -> Any:
    return dtype.__from_arrow__(memory)


_modules = 0
"""The number of imported modules at the last call of `add_imported_classes`."""
