"""Arrow's memory in objects of Polars and pandas, which copy it when they are pickled.

Polars makes one copy of a whole frame, in bytes, which the receiver copies again. pandas copies
each column. As what PyArrow pickles the same memory travels out of band, and what lies in
shared memory is sent without a copy. What is small, a slice of something larger, or of types that
Arrow has no equal of, they pickle themselves.
"""

import sys
from collections.abc import Callable
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


reducers: dict[type, Callable[[Any], Any]] = {}
"""How objects of these classes are made again, or NotImplemented."""


def look() -> None:
    """Adds the classes of what was imported meanwhile."""
    polars, pandas = sys.modules.get("polars"), getattr(sys.modules.get("pandas"), "arrays", None)
    _add(polars, "DataFrame", _reduce_frame)
    _add(polars, "Series", _reduce_series)
    _add(pandas, "ArrowExtensionArray", _reduce_column)
    _add(pandas, "ArrowStringArray", _reduce_column)


def _add(module: Any, name: str, reduce: Callable[[Any], Any]) -> None:
    kind = getattr(module, name, None)
    if kind is not None:
        reducers[kind] = reduce


def _reduce_frame(frame: Any) -> Any:
    return _reduce_polars(frame, _frame, frame.estimated_size())


def _reduce_series(series: Any) -> Any:
    return _reduce_polars(series.to_frame(), _series, series.estimated_size())


def _reduce_polars(frame: Any, make: Callable[[Any], Any], needed: int) -> Any:
    if needed < LARGE_BYTES or not all(dtype.base_type().__name__ in _POLARS_TYPES for dtype in frame.dtypes):
        return NotImplemented
    if not find_spec("pyarrow"):
        return NotImplemented
    table = frame.to_arrow(compat_level=sys.modules["polars"].CompatLevel.newest())
    return (make, (table,)) if _is_whole(table, needed + _TEXT_BYTES * frame.height * frame.width) else NotImplemented


def _reduce_column(column: Any) -> Any:
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
