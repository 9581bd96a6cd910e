"""The bytes of the messages of pipes, queues and workers: every magic and format.

WIRE.md describes them byte for byte. All numbers are little-endian. A queue slot is core's.
"""

import struct

# Payload of bytes.

BYTES = b"\xff" * 8
"""The first bytes of a payload of bytes. No pickle begins with them."""

# Fds of a message.

DIRECT_FDS = 48
"""The number of fds that travel beside a message. The others travel in a pipe, whose end is the fd
of this index. Core sends at most 64: it needs one for each directory of the arrays.
"""

# The worker protocol.

WORKER_HEAD = struct.Struct("<BQ")
"""In front of the payload: the kind of the message, and the number of its task."""
READY, REFUSED, TASK, ANSWER = range(4)
"""The kinds. From the worker: it is ready; its initializer failed. To it: a task. From it: an
outcome.
"""
