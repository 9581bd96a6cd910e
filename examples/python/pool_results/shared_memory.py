"""A pool of workers whose results are objects with large arrays, by pickle 5 and SharedMemory."""

import sys
import time
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np
import pickle5


@dataclass
class Simulation:
    seed: int
    pressure: np.ndarray
    history: list


def simulate(task):
    seed, cells = task
    pressure = np.arange(cells, dtype=np.float64) + seed
    return pickle5.dumps(Simulation(seed, pressure, [pressure[:10].copy(), pressure[-10:].copy()]))


def main(count, cells):
    pickle5.prepare()
    with Pool(2) as pool:
        for message in pool.map(simulate, [(0, 1)] * 4):  # the workers have started
            pickle5.Received(*message).close()
        began = time.perf_counter()
        total = 0.0
        for message in pool.imap(simulate, [(seed, cells) for seed in range(count)]):
            received = pickle5.Received(*message)
            total += float(received.obj.pressure[-1]) + len(received.obj.history)
            received.close()
        seconds = time.perf_counter() - began
    print(f"result {total:.0f} of {count} simulations of {cells * 8 / 1e6:.1f} MB")
    print(f"seconds {seconds:.4f}")


if __name__ == "__main__":
    main(*((4, 10_000) if "--small" in sys.argv else (8, 6_250_000)))
