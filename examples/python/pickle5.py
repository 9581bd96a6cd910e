"""The messages of the examples' shared_memory.py: pickle protocol 5, and the out-of-band buffers of
the arrays in a SharedMemory.

The code follows a proposal for joblib and adds what it lacks to be correct: a segment is unlinked
when it arrives and closed when the object is no longer used, and a single resource tracker knows
all segments.
"""

import pickle
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory


def prepare():
    """Starts the resource tracker. Call it first: a tracker of a worker would report leaks."""
    resource_tracker.ensure_running()


def dumps(obj):
    """Returns the pickle, the name of a segment with the buffers one after the other, and the
    sizes of the buffers.
    """
    buffers = []
    data = pickle.dumps(obj, protocol=5, buffer_callback=buffers.append)
    memories = [buffer.raw() for buffer in buffers]
    sizes = [memory.nbytes for memory in memories]
    segment = SharedMemory(create=True, size=sum(sizes))
    start = 0
    for memory, size in zip(memories, sizes, strict=True):
        segment.buf[start : start + size] = memory
        start += size
    segment.close()
    return data, segment.name, sizes


class Received:
    """An object whose arrays are in its segment. Drop all references to them before `close`."""

    def __init__(self, data, name, sizes):
        self._segment = SharedMemory(name)
        self._segment.unlink()
        self._views = []
        start = 0
        for size in sizes:
            self._views.append(self._segment.buf[start : start + size])
            start += size
        self.obj = pickle.loads(data, buffers=self._views)

    def close(self):
        del self.obj
        for view in self._views:
            view.release()
        self._segment.close()
