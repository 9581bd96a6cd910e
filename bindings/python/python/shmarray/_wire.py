"""The bytes of the messages between Python processes: every magic, format and version.

WIRE.md describes the messages byte for byte. All numbers are little-endian. The Rust module knows
two formats by itself: the length at the end of a payload (`src/message.rs`,
`src/pickling/stream.rs`), and a queue slot, which is core's.
"""

import struct
import zlib

VERSION = 1
"""The version of WIRE.md and of the golden files. It changes when a byte of any message does."""

# Payload: an object, or bytes.

STREAM_LENGTH = struct.Struct("<Q")
"""The last 8 bytes of an object's payload: the length of the stream in the payload."""
ARRAY, ARRAY_READONLY, ARRAY_PRIVATE = (b"\xff" * 7 + last for last in (b"\xfe", b"\xfd", b"\xfc"))
"""The whole payload of an array that its handle describes completely. No stream has this length."""
ARRAY_MODES = {ARRAY: "r+", ARRAY_READONLY: "r", ARRAY_PRIVATE: "c"}
"""How the receiver maps each, in the words of `numpy.memmap`."""
BYTES = b"\xff" * 8
"""The first bytes of a payload of bytes. No pickle begins with them."""

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

# Fds of a message.

DIRECT_FDS = 48
"""The number of fds that travel beside a message. The others travel in a pipe, whose end is the fd
of this index. Core sends at most 64: it needs one for each directory of the arrays, and a queue
needs one.
"""

# Queues.

TASK_BYTE = struct.Struct("<q")
"""In a message of a ``JoinableQueue``, behind the queue slot: the byte that stands for its task."""
FIRST_TASK, TASKS_END = 1 << 32, 1 << 62
"""The range of bytes of the lock token file that stand for tasks."""

# The worker protocol.

WORKER_HEAD = struct.Struct("<BQ")
"""In front of the payload: the kind of the message, and the number of its task."""
READY, REFUSED, TASK, ANSWER = range(4)
"""The kinds. From the worker: it is ready; its initializer failed. To it: a task. From it: an
outcome.
"""
