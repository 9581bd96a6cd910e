"""A worker reads fields and sends each to its parent, by pickle 5 and SharedMemory."""

import multiprocessing as mp
import sys
import time

import numpy as np
import pickle5


def read(number, shape):
    """Returns a field with its metadata, in place of reading a file."""
    return {"number": number, "field": np.full(shape, number, dtype=np.float32), "units": "K"}


def worker(queue, count, shape):
    for number in range(count):
        queue.put(pickle5.dumps(read(number, shape)))
    queue.put(None)


def main(count, shape):
    pickle5.prepare()
    queue = mp.Queue(maxsize=4)
    process = mp.Process(target=worker, args=(queue, count, shape))
    began = time.perf_counter()
    process.start()
    total = 0.0
    while (message := queue.get()) is not None:
        received = pickle5.Received(*message)
        total += float(received.obj["field"].mean(dtype=np.float64))
        received.close()
    process.join()
    print(f"result {total:.0f} of {count} fields of {shape[0]} × {shape[1]} float32")
    print(f"seconds {time.perf_counter() - began:.4f}")


if __name__ == "__main__":
    main(*((4, (70, 140)) if "--small" in sys.argv else (100, (700, 1400))))
