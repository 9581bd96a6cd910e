"""What shared_memory.py of the examples sends: pickle protocol 5, and the memory of the arrays in a
SharedMemory.

It is what a proposal for joblib wrote, with what it needs to be right: segments are unlinked when
they arrive and closed when the object is no longer used, and one resource tracker knows of all of
them.
"""

import pickle
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory


def prepare():
    """To be called before processes start: trackers of their own would say that segments leak."""
    resource_tracker.ensure_running()


def dumps(obj):
    """Its pickle, the name of a segment with the memory of its arrays one behind the other, and
    their sizes.
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
    """`obj` over its segment, until `close`, when nobody else may have its arrays."""

    def __init__(self, data, name, sizes):
        self._segment = SharedMemory(name)
        self._segment.unlink()
        self._views, start = [], 0
        for size in sizes:
            self._views.append(self._segment.buf[start : start + size])
            start += size
        self.obj = pickle.loads(data, buffers=self._views)

    def close(self):
        del self.obj
        for view in self._views:
            view.release()
        self._segment.close()
