"""The limits that decide how the memory of a message travels, each with its measurement.

Times are of a machine that does nothing else. ``ci/bench`` compares messages of several sizes with
the standard module's (``ci/measurements/rows/standard.py``).
"""

# Bytes that a program keeps: `dumps`.

KEPT_SMALL_BYTES = 16 << 10
"""The limit of private arrays in the stream, all together. Arrays of up to 16 KiB are always in it
(`src/pickling/reducer.rs`). Not measured.
"""
KEPT_STREAM_BYTES = 24 << 10
"""The limit of a stream in this process's memory. A longer one is written to shared memory. Not
measured.
"""
KEPT_LARGE_BYTES = 32 << 10
"""Other private memory below this limit, all together, travels in the message. Not measured."""
KEPT_OWNED_BYTES = 256 << 10
"""Private memory below this limit is copied on write when it is loaded, and not owned.

From here on the first write to all of it gains seven times what owning takes: 192 µs for 27, by
medians of 120 rounds. For 64 KiB it gains 49 µs for 31.
"""

# A message of a pipe: of queues, connections, pools, executors and joblib.

PIPE_STREAM_BYTES = 156 << 10
"""The limit of a stream in a message. With the rest of it such a stream fits into one packet of the
socket.

While the limit was 24 KiB, bytes of 31 to 150 KiB took up to 5 times as long as by the standard
module. They now take 0.7 to 0.9 of its time.
"""
PIPE_LARGE_BYTES = 144 << 10
"""Other private memory below this limit, all together, travels in the message. With its stream it
fits into one packet of the socket.

While the limit was 32 KiB, messages of 31 to 140 KiB took 1.4 to 5 times as long as by the standard
module.
"""
PIPE_SMALL_BYTES = 1 << 20
"""The limit of private arrays in the stream, all together. Up to this size the receiver copies
faster than it maps; the figures were not kept.
"""

REUSED_LEAST_BYTES = 1 << 20
"""Private arrays from here on may have a copy in common with other messages. Smaller ones go in the
stream.
"""

# NumPy's allocations in a worker.

ALLOCATOR_LEAST_BYTES = 64 << 10
"""The limit from which NumPy's arrays are born shared. Not measured."""

# Segments of a message.

OWN_SEGMENT_BYTES = 128 << 10
"""An array of this size has a segment of its own. Smaller ones share segments. Not measured."""
SHARED_SEGMENT_BYTES = 1 << 20
"""The size limit of such a shared segment. It is no matter of time: one array that is kept alive
shall keep little else.
"""

# Other libraries.

ARROW_LEAST_BYTES = 32 << 10
"""Smaller frames and columns of Polars and pandas are pickled by their own libraries. Not measured.
"""
DASK_LEAST_BYTES = 1 << 20
"""Smaller private buffers go by Dask's wire, unless ``distributed.shmarray.min-size`` is set.

A handle takes some tens of microseconds on each side, and the rest of a message of Dask several
hundred.
"""
DASK_THREAD_BYTES = 4 << 20
"""A worker of Dask copies larger arrays in a thread, while it serves others. Not measured."""
