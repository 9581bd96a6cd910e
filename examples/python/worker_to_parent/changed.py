"""A worker reads fields and sends each to its parent, as a data loader's worker does."""

import sys
import time

import numpy as np
import shmarray.multiprocessing as mp


def read(number, shape):
    """Returns a field with its metadata, in place of reading a file."""
    return {"number": number, "field": np.full(shape, number, dtype=np.float32), "units": "K"}


def worker(queue, count, shape):
    for number in range(count):
        queue.put(read(number, shape))
    queue.put(None)


def main(count, shape):
    queue = mp.Queue(maxsize=4)
    process = mp.Process(target=worker, args=(queue, count, shape))
    began = time.perf_counter()
    process.start()
    total = 0.0
    while (message := queue.get()) is not None:
        total += float(message["field"].mean(dtype=np.float64))
    process.join()
    print(f"result {total:.0f} of {count} fields of {shape[0]} × {shape[1]} float32")
    print(f"seconds {time.perf_counter() - began:.4f}")


if __name__ == "__main__":
    main(*((4, (70, 140)) if "--small" in sys.argv else (100, (700, 1400))))
