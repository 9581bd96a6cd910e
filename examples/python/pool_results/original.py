"""A pool of workers whose results are objects with large arrays."""

import sys
import time
from dataclasses import dataclass
from multiprocessing import Pool

import numpy as np


@dataclass
class Simulation:
    seed: int
    pressure: np.ndarray
    history: list


def simulate(task):
    seed, cells = task
    pressure = np.arange(cells, dtype=np.float64) + seed
    return Simulation(seed, pressure, [pressure[:10].copy(), pressure[-10:].copy()])


def main(count, cells):
    with Pool(2) as pool:
        pool.map(simulate, [(0, 1)] * 4)  # the workers have started
        began = time.perf_counter()
        total = 0.0
        for simulation in pool.imap(simulate, [(seed, cells) for seed in range(count)]):
            total += float(simulation.pressure[-1]) + len(simulation.history)
        seconds = time.perf_counter() - began
    print(f"result {total:.0f} of {count} simulations of {cells * 8 / 1e6:.1f} MB")
    print(f"seconds {seconds:.4f}")


if __name__ == "__main__":
    main(*((4, 10_000) if "--small" in sys.argv else (8, 6_250_000)))
