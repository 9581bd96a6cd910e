"""Frames of Polars: by Arrow's memory, which travels out of band.

Polars says nothing of its memory when it is pickled: it makes one copy of all, in bytes, which
the receiver copies again. Through PyArrow, where that is installed, its memory is the
message's, and a frame over shared memory is sent without a copy. What is small, a slice of
something larger, or of types that Arrow has no equal of, Polars pickles itself.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ._parts import LARGE_BYTES

_ARROWS = {
    *(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)),
    *("Float32", "Float64", "Boolean", "String", "Binary", "Date", "Time", "Datetime", "Duration"),
}
"""Those of its types that are the same in Arrow."""

_TEXT_BYTES = 16
"""What Arrow needs for a text, however short it is."""


def reduce(obj: Any) -> Any:
    """How a frame or a series is made again, when Polars has been imported."""
    polars: Any = sys.modules["polars"]
    if type(obj) is getattr(polars, "DataFrame", None):
        return _reduce(polars, obj, _frame)
    if type(obj) is getattr(polars, "Series", None):
        return _reduce(polars, obj.to_frame(), _series)
    return NotImplemented


def _reduce(polars: Any, frame: Any, make: Any) -> Any:
    if not (all(dtype.base_type().__name__ in _ARROWS for dtype in frame.dtypes) and find_spec("pyarrow")):
        return NotImplemented
    needed = frame.estimated_size()
    if needed < LARGE_BYTES:
        return NotImplemented
    table = frame.to_arrow(compat_level=polars.CompatLevel.newest())
    if table.get_total_buffer_size() > 2 * needed + _TEXT_BYTES * frame.height * frame.width:
        return NotImplemented  # PyArrow would send all that it is a slice of
    return make, (table,)


def _frame(table: Any) -> Any:
    return import_module("polars").from_arrow(table, rechunk=False)


def _series(table: Any) -> Any:
    return _frame(table).to_series()
