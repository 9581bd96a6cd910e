"""Batches of pictures from NPY files, by two threads. With PyTorch they become tensors."""

import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import shmarray


def write_files(folder, count, side):
    for number in range(count):
        np.save(folder / f"{number}.npy", np.full((3, side, side), number % 256, dtype=np.uint8))
    return [folder / f"{number}.npy" for number in range(count)]


def batches(paths, batch_size):
    return shmarray.load_batch(paths, batch_size, threads=2)


def mean(batch):
    """By PyTorch where it is installed: the tensor is the memory of the batch, not a copy."""
    if find_spec("torch") is None:
        return float(batch[:, 0, 0, 0].mean())
    import torch

    return float(torch.from_numpy(batch)[:, 0, 0, 0].double().mean())


def main(count, side, batch_size):
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), count, side)
        began = time.perf_counter()
        brightness = sum(mean(batch) for batch in batches(paths, batch_size))
        took = time.perf_counter() - began
    print(
        f"result {brightness:.1f} of {count} files of 3 × {side} × {side}, {batch_size} in a batch"
    )
    print(f"seconds {took:.4f}")


if __name__ == "__main__":
    main(*((64, 16, 8) if "--small" in sys.argv else (2048, 480, 32)))
