"""Loads NPY and NPZ files by one library: in threads, in processes, beside a main thread that
ticks, or alone.

    python npy.py threads|processes|ticks|corpus LIBRARY FOLDER

FOLDER is what `make` wrote: sets of samples, each an RGB image and its labels. Each line of JSON is
an order, and the answer is the seconds of one load: of an image and its labels. Workers are forked.
The last load of each task is compared with the sample when the time has ended. In `corpus` an order
names a file of `npy_corpus.py` instead.
"""

import concurrent.futures
import functools
import io
import json
import multiprocessing
import pathlib
import sys
import threading
import time

import numpy as np

IMAGE = (3, 640, 480)
LABELS = (640, 480)
SAMPLES = 4
"""In a set. Worker number n loads sample n modulo SAMPLES."""
TICK_SECONDS = 0.001


def make_random(seed):
    random = np.random.default_rng(seed)
    return random.integers(256, size=IMAGE, dtype="u1"), random.integers(
        256, size=LABELS, dtype="u1"
    )


def make_smooth(seed):
    """A slope of colours with a little noise, and labels in stripes."""
    slope = np.add.outer(np.arange(LABELS[0]), np.arange(LABELS[1])) // 5
    image = np.stack([slope + 40 * channel + seed for channel in range(IMAGE[0])]).astype("u1")
    image += np.random.default_rng(seed).integers(0, 3, size=IMAGE, dtype="u1")
    return image, (slope // 32 + seed).astype("u1")


def make_two(seed):
    """Two smooth images, so that two threads within one load have as much to inflate."""
    return make_smooth(seed)[0], make_smooth(seed + 1)[0]


def save_npy(path, arrays):
    for name, array in zip(("image", "labels"), arrays, strict=True):
        np.save(f"{path}.{name}.npy", array)


def save_npz(path, arrays):
    np.savez(f"{path}.npz", image=arrays[0], labels=arrays[1])


def save_deflated(path, arrays):
    np.savez_compressed(f"{path}.npz", image=arrays[0], labels=arrays[1])


def save_safetensors(path, arrays):
    import safetensors.numpy

    safetensors.numpy.save_file(dict(zip(("image", "labels"), arrays, strict=True)), f"{path}.st")


def save_torch(path, arrays):
    import torch

    tensors = map(torch.from_numpy, arrays)
    torch.save(dict(zip(("image", "labels"), tensors, strict=True)), f"{path}.pt")


NPY = "NPY"
NPZ = "NPZ"
SMOOTH = "NPZ deflated, smooth"
TWO = "NPZ deflated, two images"
# How the arrays of each kind are made and saved.
KINDS = {
    NPY: (make_random, save_npy),
    NPZ: (make_random, save_npz),
    SMOOTH: (make_smooth, save_deflated),
    TWO: (make_two, save_deflated),
}
# These libraries have a format of their own, which is measured beside NPZ.
OWN_FORMATS = {"safetensors": (save_safetensors, "st"), "torch.load": (save_torch, "pt")}


def make(folder, sets, libraries):
    """Writes so many sets of samples of every kind, for these libraries."""
    for number, kind in enumerate(KINDS):
        for at in range(sets * SAMPLES):
            path = pathlib.Path(folder, f"{number}.{at}")
            arrays = made(kind, at)
            save = KINDS[kind][1]
            save(path, arrays)
            if kind == NPZ:
                for library in OWN_FORMATS.keys() & set(libraries):
                    OWN_FORMATS[library][0](path, arrays)


@functools.lru_cache(maxsize=2 * SAMPLES)
def made(kind, at):
    return KINDS[kind][0](at)


class Numpy:
    """Like the other libraries it loads a sample: `npy` from two sources, `npz` and `named` from
    one, as a list and by the names."""

    def npy(self, sources):
        return [np.load(opened(source)) for source in sources]

    def npz(self, source):
        return list(self.named(source).values())

    def named(self, source):
        with np.load(opened(source)) as archive:
            return dict(archive)


def opened(source):
    return io.BytesIO(source) if isinstance(source, bytes) else source


class Mapped(Numpy):
    """Maps NPY files, as NumPy does when it is told to."""

    def npy(self, sources):
        return [np.load(source, mmap_mode="c") for source in sources]


class Spdl:
    """Its functions are looked up once: each look at `spdl.io.load_npy` is a search of 1 µs."""

    takes_bytes_alone = True

    def __init__(self):
        from spdl.io import load_npy, load_npz

        self._load_npy = load_npy
        self._load_npz = load_npz

    def npy(self, sources):
        return [self._load_npy(source) for source in sources]

    def npz(self, source):
        return list(self._load_npz(source).values())

    def named(self, source):
        return dict(self._load_npz(source))


class Safetensors:
    def __init__(self):
        import safetensors.numpy

        self._load = safetensors.numpy.load
        self._load_file = safetensors.numpy.load_file

    def npz(self, source):
        found = self.named(source)
        return [found["image"], found["labels"]]

    def named(self, source):
        load = self._load if isinstance(source, bytes) else self._load_file
        return load(source)


class Torch:
    def __init__(self):
        import torch

        torch.set_num_threads(1)
        self._load = torch.load

    def npz(self, source):
        found = self._load(opened(source))
        return [found["image"].numpy(), found["labels"].numpy()]


class Ours:
    def __init__(self, threads=1, **options):
        from shmarray import load_npy, load_npz

        self._load_npy = load_npy
        self._load_npz = load_npz
        self._threads = threads
        self._options = options

    def npy(self, sources):
        return [self._load_npy(source, **self._options) for source in sources]

    def npz(self, source):
        with self._load_npz(source, **self._options) as archive:
            return list(archive.load(threads=self._threads).values())

    def named(self, source):
        with self._load_npz(source, **self._options) as archive:
            return dict(archive)


class Computing:
    """Loads nothing: computes in C without the GIL, or in Python."""

    def __init__(self, in_python=False):
        import hashlib

        self.npy = self.npz = len if in_python else hashlib.sha256


# The libraries by their names in tables: how they load.
OURS = "ours"
PRIVATE = "shmarray, shared=False"
OUR_POOL = "numpy.load, shmarray's pool"
COPIED = "shmarray, align=True"
OUR_MAPPED = "shmarray, mmap_mode"
MAPPED = "numpy.load, mmap_mode"
IDLE = "an idle neighbour"
IN_C = "a neighbour in C"
IN_PYTHON = "a neighbour in Python"
LIBRARIES = {
    OURS: Ours,
    PRIVATE: lambda: Ours(shared=False),
    COPIED: lambda: Ours(shared=False, align=True),
    OUR_MAPPED: lambda: Ours(mmap_mode="c"),
    "numpy.load": Numpy,
    OUR_POOL: Numpy,
    MAPPED: Mapped,
    "spdl.io": Spdl,
    "safetensors": Safetensors,
    "torch.load": Torch,
    IDLE: Computing,
    IN_C: Computing,
    IN_PYTHON: lambda: Computing(in_python=True),
}


def loader(library, order):
    """The function that loads a sample's sources."""
    return from_sources(library, library.npy if order["kind"] == NPY else library.npz, order)


def from_sources(library, load, order):
    if order["on_disk"] and getattr(library, "takes_bytes_alone", False):
        return lambda sources: load(read(sources))
    return load


def read(sources):
    if isinstance(sources, list):
        return [read(source) for source in sources]
    return pathlib.Path(sources).read_bytes()


def samples(name, folder, order):
    """A set's sources, as bytes or as paths."""
    number = list(KINDS).index(order["kind"])
    first = order["set"] * SAMPLES
    ending = OWN_FORMATS[name][1] if name in OWN_FORMATS else "npz"
    for at in range(first, first + SAMPLES):
        path = f"{folder}/{number}.{at}"
        if order["kind"] == NPY:
            yield [source(f"{path}.{array}.npy", order) for array in ("image", "labels")]
        else:
            yield source(f"{path}.{ending}", order)


def source(path, order):
    return path if order["on_disk"] else read(path)


def sample(order, worker):
    return made(order["kind"], order["set"] * SAMPLES + worker % SAMPLES)


def verify(loads, order):
    """Compares (number of a worker, arrays) with the samples."""
    for worker, arrays in loads:
        expected = sample(order, worker)
        if len(arrays) != len(expected) or not all(map(np.array_equal, arrays, expected)):
            raise ValueError("what was loaded differs from its sample")


def repeat(load, source, loads):
    for _ in range(loads):
        arrays = load(source)
    return arrays


class Threads:
    """Answers by the time of one load in so many threads."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.library = LIBRARIES[name]()
        self.pool = None
        self.workers = 0

    def run(self, order):
        self._start(order["workers"])
        inside = order.get("inside", 1)
        library = Ours(threads=inside) if inside > 1 else self.library
        load = loader(library, order)
        sources = list(samples(self.name, self.folder, order))
        began = time.perf_counter()
        tasks = [
            self.pool.submit(repeat, load, sources[worker % SAMPLES], order["loads"])
            for worker in range(self.workers)
        ]
        concurrent.futures.wait(tasks)
        seconds = time.perf_counter() - began
        verify(enumerate(task.result() for task in tasks), order)
        return seconds / (self.workers * order["loads"])

    def _start(self, workers):
        if workers != self.workers:
            self.close()
            self.pool = concurrent.futures.ThreadPoolExecutor(workers)
            self.workers = workers
            list(self.pool.map(time.sleep, [0.01] * workers))

    def close(self):
        if self.pool:
            self.pool.shutdown()


class Processes:
    """Answers by the time of one load in so many processes, whose parent has every result."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.pools = {}
        Processes.library = LIBRARIES[name]()

    def run(self, order):
        pool = self._pool(order)
        sources = list(samples(self.name, self.folder, order))
        expected = [ends(sample(order, worker)) for worker in range(SAMPLES)]
        tasks = [(worker, order, sources[worker % SAMPLES]) for worker in range(order["workers"])]
        began = time.perf_counter()
        last = []
        for worker, loads in pool(in_a_process, tasks):
            if any(ends(arrays) != expected[worker % SAMPLES] for arrays in loads):
                raise ValueError("a load of a process differs from its sample")
            last = [(worker, loads[-1])]
            del loads
        seconds = time.perf_counter() - began
        verify(last, order)
        return seconds / (len(tasks) * order["loads"])

    def _pool(self, order):
        """The function that maps. A new pool runs one round that does not count."""
        key = order["workers"], order.get("executor", False)
        if key not in self.pools:
            self.pools[key] = (Executor if key[1] else Pool)(self.name, key[0])
            self.run(order)
        return self.pools[key].map

    def close(self):
        for pool in self.pools.values():
            pool.close()


def modules(name):
    """The modules of pools and of executors for a library."""
    if name not in (OURS, OUR_POOL):
        return multiprocessing, concurrent.futures
    import shmarray.concurrent
    import shmarray.multiprocessing

    return shmarray.multiprocessing, shmarray.concurrent


class Pool:
    def __init__(self, name, workers):
        self._pool = modules(name)[0].get_context("fork").Pool(workers)
        self.map = self._pool.imap_unordered

    def close(self):
        self._pool.close()
        self._pool.join()


class Executor:
    def __init__(self, name, workers):
        library, executors = modules(name)
        context = library.get_context("fork")
        self._executor = executors.ProcessPoolExecutor(workers, mp_context=context)
        self.map = self._executor.map
        self.close = self._executor.shutdown


def in_a_process(task):
    worker, order, source = task
    load = loader(Processes.library, order)
    return worker, [load(source) for _ in range(order["loads"])]


def ends(arrays):
    """The last element of each: every load is compared by these, one a task whole."""
    return [array.item(-1) for array in arrays]


class Ticks:
    """Answers by the 99th percentile of ticks in the main thread, while threads load."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.library = LIBRARIES[name]()

    def run(self, order):
        load = loader(self.library, order)
        sources = list(samples(self.name, self.folder, order))
        end = threading.Event()
        last = {}
        workers = 0 if self.name == IDLE else order["workers"]
        threads = [
            threading.Thread(target=until, args=(end, load, sources, worker, last))
            for worker in range(workers)
        ]
        for thread in threads:
            thread.start()
        found = ticks(order["seconds"])
        end.set()
        for thread in threads:
            thread.join()
        if not isinstance(self.library, Computing):
            verify([(worker, loaded(last.get(worker))) for worker in range(workers)], order)
        return float(np.percentile(found, 99))

    def close(self):
        pass


def until(end, load, sources, worker, last):
    """Loads again and again. A load that fails ends the thread, and is what remains."""
    try:
        while not end.is_set():
            last[worker] = load(sources[worker % SAMPLES])
    except Exception as error:
        last[worker] = error


def loaded(last):
    if last is None or isinstance(last, Exception):
        raise last or ValueError("a thread has loaded nothing")
    return last


def ticks(seconds):
    """The time between ticks, each of which sleeps for a millisecond."""
    time.sleep(0.02)
    found = []
    last = time.perf_counter()
    end = last + seconds
    while last < end:
        time.sleep(TICK_SECONDS)
        now = time.perf_counter()
        found.append(now - last)
        last = now
    return found


class Alone:
    """Answers by the processor time of one load in this process: of all arrays of a file."""

    def __init__(self, name, _folder):
        self.library = LIBRARIES[name]()

    def run(self, order):
        """Loads more often until it takes the least time. The runs before warm up."""
        load = from_sources(self.library, self.library.named, order)
        file = source(order["path"], order)
        loads = 1
        while True:
            began = time.process_time()
            arrays = repeat(load, file, loads)
            seconds = time.process_time() - began
            if seconds >= order["least_seconds"]:
                break
            loads = max(2 * loads, round(loads * order["least_seconds"] / max(seconds, 1e-6)))
        verify_named(arrays, order["sample"])
        return seconds / loads

    def close(self):
        pass


def verify_named(arrays, path):
    """Compares arrays with those that NumPy loads from the sample's stored file."""
    expected = stored(path)
    if arrays.keys() != expected.keys() or not all(
        arrays[name].dtype == array.dtype and np.array_equal(arrays[name], array)
        for name, array in expected.items()
    ):
        raise ValueError("what was loaded differs from its sample")


@functools.lru_cache(maxsize=1)
def stored(path):
    return Numpy().named(path)


WAYS = {"threads": Threads, "processes": Processes, "ticks": Ticks, "corpus": Alone}


def main(way, name, folder):
    side = WAYS[way](name, folder)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"seconds": 0 if "ready" in order else side.run(order)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    side.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
