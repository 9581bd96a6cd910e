"""A pool interpolates in chunks: the data is shared once, and workers write results in place."""

import itertools
import sys
import time

import numpy as np
import shmarray
import shmarray.multiprocessing as mp


class BigData:
    def __init__(self, points):
        random = np.random.default_rng(7)
        self.x = np.sort(random.random(points))
        self.y = np.sin(20 * self.x)
        self.table = random.random((points, 4))

    def interpolate(self, xi):
        return np.interp(xi, self.x, self.y)

    def do_chunk(self, xi, zi):
        zi[:] = self.interpolate(xi)

    def do_parallel(self, xi, pool, chunks):
        zi = shmarray.empty_like(xi)
        bounds = np.linspace(0, len(xi), chunks + 1).astype(int)
        results = [
            pool.apply_async(self.do_chunk, (xi[i1:i2], zi[i1:i2]))
            for i1, i2 in itertools.pairwise(bounds)
        ]
        for result in results:
            result.get()
        return zi


def main(points, chunks):
    data = BigData(points)
    xi = np.linspace(0, 1, points)
    with mp.Pool(2) as pool:
        pool.map(abs, range(4))  # the workers have started
        began = time.perf_counter()
        data, xi = shmarray.share((data, xi))
        zi = data.do_parallel(xi, pool, chunks)
        seconds = time.perf_counter() - began
    print(
        f"result {zi.sum():.6f} of {points} points with {points * 48 / 1e6:.0f} MB of data"
        f" in {chunks} chunks"
    )
    print(f"seconds {seconds:.4f}")


if __name__ == "__main__":
    main(*((20_000, 4) if "--small" in sys.argv else (1_000_000, 16)))
