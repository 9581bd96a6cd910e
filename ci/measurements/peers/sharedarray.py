"""SharedArray: arrays with names, which the user makes up, sends and deletes."""

import itertools
import os

import numpy as np
import SharedArray

from peers import piped

serial = itertools.count()


class Peer(piped.Peer):
    def __init__(self):
        self._name = None

    def shared(self, size):
        self._name = f"shm://bench-{os.getpid()}-{next(serial)}"
        return SharedArray.create(self._name, size, "u8")

    def forget(self):
        if self._name is not None:
            SharedArray.delete(self._name)
            self._name = None

    def pack(self, array):
        if self._name is not None:
            return self._name, False
        name = f"shm://bench-{os.getpid()}-{next(serial)}"
        np.copyto(SharedArray.create(name, array.shape, array.dtype), array)
        return name, True

    def take(self, message):
        name, delete = message
        array = SharedArray.attach(name)
        if delete:
            SharedArray.delete(name)
        return array, None
