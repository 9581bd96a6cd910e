"""The private names of the package that tasks use, each with its reason.

The modules that run tasks use the public names of ``shmarray`` and these, and import nothing else
from outside. A contract of import-linter (pyproject.toml) checks the imports, and
tests/tasks/test_internals.py that each name here is used.
"""

from .._allocator import is_in_use
from .._by_handle import follow_parent, leave_family
from .._codec._collector import Collector
from .._codec._copies import SENT_COPIES, SEPARATE_COPIES, CallCopies
from .._codec._offers import Offers
from .._codec._parts import Copies, ReadOnly
from .._codec._pickler import (
    ArrayPickler,
    decode,
    encode,
    encode_array,
    encode_text,
    is_array_alone,
    reused,
)
from .._core import (
    QUEUE_SLOT_BYTES,
    Message,
    Pipe,
    QueueSlots,
    QueueTasks,
    begin_message,
    encode_plain,
    end_message,
    free_idle,
    handle_to_send,
    has_borrowed,
    is_in_message,
    limit_pool,
    locate,
    memory_identity,
    move_in_use,
    outgoing_fds,
    prepare_pool,
    sent_memory,
    sweep_dead,
    trim_pool,
)
from .._family import announce_family, hold_family
from .._handed_over import reduce_channel
from .._shortage import FULL, warn_of_shortage
from .._thresholds import (
    DASK_LEAST_BYTES,
    DASK_THREAD_BYTES,
    PIPE_LARGE_BYTES,
    PIPE_SMALL_BYTES,
    PIPE_STREAM_BYTES,
)

__all__ = [  # noqa: RUF022 (by reason)
    # The tasks' own part of the Rust module, src/tasks.
    "QUEUE_SLOT_BYTES",
    "Message",
    "Pipe",
    "QueueSlots",
    "QueueTasks",
    "begin_message",
    "end_message",
    "is_in_message",
    "outgoing_fds",
    # `dumps` and `loads` make and take bytes that hold their arrays. In a pipe the message holds
    # them, other limits apply, and reducers that the program registered are asked.
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
    # An array that stands in several tasks, or is sent to several receivers, is copied once.
    "SENT_COPIES",
    "SEPARATE_COPIES",
    "CallCopies",
    "Copies",
    # NumPy's arrays in a worker are born shared, and those of its answers are moved. What NumPy has
    # freed is kept while the worker works, and given back while it waits.
    "Offers",
    "free_idle",
    "is_in_use",
    "move_in_use",
    # What a call has may be valid only until its caller goes on: an array in a channel's slot.
    "has_borrowed",
    # A channel that is sent counts as an end of its receiver's from then on.
    "reduce_channel",
    # How memory travels is decided in one table, with the limits of `dumps`.
    "DASK_LEAST_BYTES",
    "DASK_THREAD_BYTES",
    "PIPE_LARGE_BYTES",
    "PIPE_SMALL_BYTES",
    "PIPE_STREAM_BYTES",
    # A process that is started joins its parent's family and takes over its switches.
    "announce_family",
    "follow_parent",
    "hold_family",
    "leave_family",
    # `sweep` also empties the pool, and raises. This looks only for processes that have died.
    "sweep_dead",
    # Where shared memory is full, data are copied through pipes, with one warning for all ways.
    "FULL",
    "warn_of_shortage",
    # Dask sends bytes inside arrays: the memory of a segment, an offset and a size.
    "handle_to_send",
    "locate",
    "sent_memory",
    # Peers of Dask compare the memory that they have.
    "memory_identity",
    # A worker of Dask keeps its pool within Dask's limit.
    "limit_pool",
    "prepare_pool",
    "trim_pool",
]
