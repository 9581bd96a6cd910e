"""Measures operations at one size with so many live arrays: prints their seconds as JSON.

    python growth.py ours|pickle5 BYTES LIVE

Data change before each message, and the receiver's answer is compared.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from multiprocessing.shared_memory import SharedMemory

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import peers  # noqa: E402
import timed  # noqa: E402

LARGE = 1 << 24
HUGE = 1 << 30


class Ours:
    def __init__(self):
        import shmarray

        self._shmarray = shmarray

    def end(self):
        """Nothing to do: arrays are given back when they are dropped."""

    def live(self, size, count):
        return [self._shmarray.empty(size, "u1") for _ in range(count)]

    def create(self, size):
        self._shmarray.empty(size, "u1")

    def attach(self, size, count):
        """Attaches in a new program, since a forked child has the arrays already."""
        arrays = self.live(size, count + 1)
        with tempfile.NamedTemporaryFile("w") as file, timed.driver("Python") as driver:
            file.writelines(f"{self._shmarray.handle(array)}\n" for array in arrays)
            file.flush()
            cold, *_ = timed.ask(driver, f"time_attach 1 {file.name}")
        return cold

    def share(self, array):
        return self._shmarray.share(array)


class Standard:
    def __init__(self):
        self._live = []

    def live(self, size, count):
        """Each keeps an fd: the curve ends where a process may have no more."""
        for _ in range(count):
            self._live.append(SharedMemory(create=True, size=size))

    def create(self, size):
        segment = SharedMemory(create=True, size=size)
        segment.close()
        segment.unlink()

    def attach(self, size, count):
        """Attaches in a forked child.

        Before Python 3.13 any other program unlinks at its exit what it attached.
        """
        start = len(self._live)
        self.live(size, count)
        names = [segment.name for segment in self._live[start:]]
        ready, output = os.pipe()
        if os.fork() == 0:
            began = time.perf_counter()
            kept = [SharedMemory(name) for name in names]
            os.write(output, json.dumps((time.perf_counter() - began) / len(kept)).encode())
            os._exit(0)
        os.wait()
        return json.loads(os.read(ready, 100))

    def share(self, array):
        segment = SharedMemory(create=True, size=array.nbytes)
        np.copyto(np.ndarray(array.shape, array.dtype, segment.buf), array)
        segment.unlink()
        return segment

    def end(self):
        for segment in self._live:
            segment.close()
            segment.unlink()


def median_of(count, work, before=lambda number: None):
    seconds = []
    for number in range(count + 1):
        before(number)
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
        del result  # dropping it is not counted, nor is the first
    return statistics.median(seconds[1:])


def send(peer, size, count):
    array = peer.shared(size // 8)
    array[:] = 0
    peer.check("ends")
    seconds = []
    for number in range(1, count + 2):
        array += np.uint64(1)
        took, answer = peer.exchange(array)
        if answer != 3 * number:
            sys.exit(f"the receiver saw {answer}")
        seconds.append(took)
    return statistics.median(seconds[1:])


def share(side, size, count):
    array = np.zeros(size // 8, "u8")

    def change(number):
        array[:] = number

    return median_of(count, lambda: side.share(array), change)


def rows(peer, side, size):
    count = 200 if size < 1 << 20 else 20 if size < LARGE else 3 if size < HUGE else 1
    return {
        "create and drop": median_of(count, lambda: side.create(size)),
        "attach": side.attach(size, min(count, 20)),
        "send shared": send(peer, size, count),
        "share private": share(side, size, count),
    }


def main(who, size, live):
    peer = peers.make(who)
    cores = sorted(os.sched_getaffinity(0))
    peer.start(1, cores[-1])
    if size < LARGE:
        os.sched_setaffinity(0, {cores[0]})
    side = (Ours if who == "ours" else Standard)()
    try:
        kept = side.live(size, live)
        print(json.dumps(rows(peer, side, size)))
        del kept
    except OSError as error:
        sys.exit(f"with {live} live: {error}")
    finally:
        peer.forget()
        peer.end()
        side.end()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
