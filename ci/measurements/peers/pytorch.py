"""torch.multiprocessing: tensors over the arrays' memory; a private one moves to shared memory."""

import numpy as np
import torch
import torch.multiprocessing

from peers import piped


class Peer(piped.Peer):
    mp = torch.multiprocessing

    def __init__(self):
        torch.set_num_threads(1)
        self._kept = None

    def shared(self, size):
        self._kept = torch.empty(size, dtype=torch.int64).share_memory_()
        return self._kept.numpy().view("u8")

    def forget(self):
        self._kept = None

    def pack(self, array):
        """Makes a new tensor for each message, since sending moves it to shared memory."""
        return torch.from_numpy(array.view(np.int64)) if self._kept is None else self._kept

    def take(self, message):
        return message.numpy().view("u8"), None
