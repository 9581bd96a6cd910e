"""Arrow's memory in objects of Polars and pandas, which copy it when they are pickled.

Polars makes one copy of a whole frame, in bytes, which the receiver copies again. pandas copies
each column. As what PyArrow pickles the same memory travels out of band, and what lies in
shared memory is sent without a copy. What is small, a slice of something larger, or of types that
Arrow has no equal of, they pickle themselves.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ._parts import LARGE_BYTES

_POLARS_TYPES = {
    *(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)),
    *("Float32", "Float64", "Boolean", "String", "Binary", "Date", "Time", "Datetime", "Duration"),
}
"""Those that are the same in Arrow."""

_TEXT_BYTES = 16
"""What Arrow needs for a text, however short it is."""


def reduce(obj: object) -> Any:
    """How it is made again, or NotImplemented."""
    kind = type(obj)
    library = str(kind.__module__).partition(".")[0]
    module: Any = sys.modules.get(library) if library in ("polars", "pandas") else None
    if module is None:
        return NotImplemented
    if library == "polars":
        return _reduce_polars(module, kind, obj)
    arrays = [getattr(module.arrays, name, None) for name in ("ArrowExtensionArray", "ArrowStringArray")]
    return _reduce_pandas(obj) if kind in arrays else NotImplemented


def _reduce_polars(polars: Any, kind: type, obj: Any) -> Any:
    if kind not in (polars.DataFrame, polars.Series):
        return NotImplemented
    frame, make = (obj, _frame) if kind is polars.DataFrame else (obj.to_frame(), _series)
    needed = frame.estimated_size()
    if needed < LARGE_BYTES or not all(dtype.base_type().__name__ in _POLARS_TYPES for dtype in frame.dtypes):
        return NotImplemented
    if not find_spec("pyarrow"):
        return NotImplemented
    table = frame.to_arrow(compat_level=polars.CompatLevel.newest())
    return (make, (table,)) if _is_whole(table, needed + _TEXT_BYTES * frame.height * frame.width) else NotImplemented


def _reduce_pandas(column: Any) -> Any:
    memory = column.__arrow_array__()
    is_sent = memory.nbytes >= LARGE_BYTES and _is_whole(memory, memory.nbytes)
    return (_column, (column.dtype, memory)) if is_sent else NotImplemented


def _is_whole(memory: Any, needed: int) -> bool:
    """PyArrow sends all of what something is a slice of."""
    return bool(memory.get_total_buffer_size() <= 2 * needed)


def _frame(table: Any) -> Any:
    return import_module("polars").from_arrow(table, rechunk=False)


def _series(table: Any) -> Any:
    return _frame(table).to_series()


def _column(dtype: Any, memory: Any) -> Any:
    return dtype.__from_arrow__(memory)
