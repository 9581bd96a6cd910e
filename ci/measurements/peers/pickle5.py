"""SharedMemory and pickle 5, as in a proposal for joblib, made correct in
examples/python/pickle5.py.

An array that is shared already goes by the name of its segment, which the receiver opens each time.
"""

import importlib.util
import pathlib
from multiprocessing.shared_memory import SharedMemory

import numpy as np

from peers import piped

EXAMPLE = pathlib.Path(__file__).resolve().parents[3] / "examples/python/pickle5.py"
specification = importlib.util.spec_from_file_location("pickle5_example", EXAMPLE)
example = importlib.util.module_from_spec(specification)
specification.loader.exec_module(example)


class Peer(piped.Peer):
    def __init__(self):
        self._segment = None

    def prepare(self):
        example.prepare()

    def shared(self, size):
        self._segment = SharedMemory(create=True, size=size * 8)
        return np.ndarray(size, "u8", self._segment.buf)

    def forget(self):
        if self._segment is not None:
            self._segment.unlink()
            self._segment = None

    def pack(self, array):
        if self._segment is not None:
            return self._segment.name, array.shape
        return example.dumps(array)

    def take(self, message):
        if len(message) == 2:
            return opened(*message)
        received = example.Received(*message)
        return received.obj, received.close


def opened(name, shape):
    segment = SharedMemory(name)
    return np.ndarray(shape, "u8", segment.buf), segment.close
