"""The bytes of encoded objects: every magic, format and version.

WIRE.md describes them byte for byte, and those of `_tasks/_wire.py`. All numbers are little-endian.
The Rust module knows the length at the end of a payload by itself (`src/pickling/stream.rs`,
`src/tasks/pipe.rs`).
"""

import struct
import zlib

VERSION = 1
"""The version of WIRE.md and of the golden files. It changes when a byte of any message does."""

# Payload of an object.

STREAM_LENGTH = struct.Struct("<Q")
"""The last 8 bytes of an object's payload: the length of the stream in the payload."""
ARRAY, ARRAY_READONLY, ARRAY_PRIVATE, ARRAY_PRIVATE_SEVERAL = (
    b"\xff" * 7 + last for last in (b"\xfe", b"\xfd", b"\xfc", b"\xfb")
)
"""The whole payload of an array that its handle describes completely. No stream has this length."""
OWN = "own"
"""How a receiver maps memory that it has alone. Other ways have the words of `numpy.memmap`."""
ARRAY_MODES = {ARRAY: "r+", ARRAY_READONLY: "r", ARRAY_PRIVATE: OWN, ARRAY_PRIVATE_SEVERAL: "c"}
"""How the receiver maps each."""
# Pickles that are written without a pickler.

TEXT_HEAD = struct.Struct("<cccI")
"""In front of a text or bytes: ``PROTO``, the protocol, the opcode, the length of the text."""
LONG_TEXT_HEAD = struct.Struct("<cccQ")
"""The same with a longer length, for a text that may exceed 4 GiB."""
TEXT_TAIL = struct.Struct("<cQ")
"""Behind a text: ``STOP``, and `STREAM_LENGTH`."""
PROTOCOL = b"\x05"
"""The operand of ``PROTO``: protocol 5."""

# dumps.

_AS_PICKLE = b"cshmarray._dumps\n_tell_pickle\n)R"
"""A pickle that calls `_dumps._tell_pickle`, which raises, if the bytes are loaded by `pickle`."""
DUMPS = _AS_PICKLE + b"\x01"
"""The magic of bytes that may be loaded once."""
DUMPS_COUNTED = _AS_PICKLE + b"\x02"
"""The magic of bytes that may be loaded several times. The first of the handles' lines is the
count, and the last line is the handle of the tally, which counts the loadings.
"""
DUMPS_SEEDS = {DUMPS: 0, DUMPS_COUNTED: zlib.crc32(DUMPS_COUNTED)}
"""The start value of each checksum. It differs so that neither magic is taken for the other."""
DUMPS_HEADER = struct.Struct(f"<{len(DUMPS)}sI")
"""The magic, and the CRC-32 of all that follows."""
DUMPS_SIZES = struct.Struct("<QQ")
"""The lengths of the handles' lines and of the payload, which follow."""
FOREVER = 0
"""The count of bytes that may be loaded any number of times. They have no tally."""
