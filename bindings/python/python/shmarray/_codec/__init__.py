"""Encodes an object as a pickle stream and the memory of its arrays, and decodes it again.

This package does not know pipes or processes. `_dumps` and `_tasks` decide how the encoded parts
travel.
"""

from ._collector import Collector
from ._parts import ReadOnly
from ._pickler import (
    ArrayPickler,
    decode,
    encode,
    encode_array,
    encode_plain,
    encode_text,
    is_array_alone,
    reused,
    share_all,
)

__all__ = [
    "ArrayPickler",
    "Collector",
    "ReadOnly",
    "decode",
    "encode",
    "encode_array",
    "encode_plain",
    "encode_text",
    "is_array_alone",
    "reused",
    "share_all",
]
