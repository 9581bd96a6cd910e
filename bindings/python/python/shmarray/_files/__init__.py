"""NPY and NPZ files: loaded and saved by core, without the GIL."""

from ._batch import Batches, load_batch
from ._npy import load_npy, save_npy
from ._npz import NpzFile, load_npz, save_npz

__all__ = ["Batches", "NpzFile", "load_batch", "load_npy", "load_npz", "save_npy", "save_npz"]
