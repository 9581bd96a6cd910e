"""The report of SPDL: loads of NPY and NPZ in threads and in processes, and a main thread's ticks.

Every figure is the seconds of one load, of an image and its labels, or of a tick.
"""

import importlib.util
import itertools
import tempfile

import peers
from harness import HERE, MADE, Answering, Failed

THREADS = "npy threads"
PROCESSES = "npy processes"
TICKS = "npy ticks"
PROGRAM = HERE / "programs/npy.py"
TASK_SECONDS = 0.02
"""A task is a hundred loads, and as many more as take this time."""
LEAST_LOADS = 100
MOST_LOADS = 20_000
INSIDE_LOADS = 200
"""A core that was idle is slow for its first 0.1 s."""
LEAST_DEFLATED = 20
"""Inflating a smooth image takes milliseconds, and starting a task microseconds."""
WORKERS = (1, 2, 4, 8)
THREAD_ROUNDS = {1: 5, 2: 5, 4: 3, 8: 3}
DISK_ROUNDS = 3
PROCESS_ROUNDS = {1: 3, 2: 3, 4: 2, 8: 1}
"""Eight processes on the standard pool hand over a gigabyte in a round, which takes seconds."""
SETS = 3


def module_of(path):
    """The program as a module, for its names."""
    specification = importlib.util.spec_from_file_location(path.stem + "_program", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


program = module_of(PROGRAM)

OURS = program.OURS
PRIVATE = program.PRIVATE
OUR_POOL = program.OUR_POOL
MAPPED = program.MAPPED
OUR_MAPPED = program.OUR_MAPPED
NUMPY = "numpy.load"
SPDL = "spdl.io"
SAFETENSORS = "safetensors"
TORCH = "torch.load"
MEMORY = "in memory"
DISK = "on disk"
IN_THREADS = (OURS, PRIVATE, NUMPY, SPDL, SAFETENSORS, TORCH)
IN_PROCESSES = (OURS, OUR_POOL, NUMPY, SPDL, SAFETENSORS, TORCH)
NEIGHBOURS = (program.IN_C, program.IN_PYTHON)
BESIDE_TICKS = (program.IDLE, *NEIGHBOURS, *IN_THREADS)
INSIDE = f"{program.TWO}, {MEMORY}"
EXECUTORS = f"{program.NPZ}, {MEMORY}, by executors"
THREAD_CASES = [
    (program.NPY, MEMORY),
    (program.NPZ, MEMORY),
    (program.SMOOTH, MEMORY),
    (program.NPY, DISK),
    (program.NPZ, DISK),
]
PROCESS_CASES = [
    (program.NPY, MEMORY),
    (program.NPZ, MEMORY),
    (program.SMOOTH, MEMORY),
    (program.NPZ, DISK),
]
TICK_KINDS = (program.NPY, program.NPZ, program.SMOOTH)
QUICK_CASES = [(program.NPZ, MEMORY)]
QUICK_WORKERS = (1, 2)


def what(kind, place):
    return f"{kind}, {place}"


def case(where, workers):
    return f"{where}: {workers}"


def measure(bench):
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="npy-", dir=MADE) as folder:
        bench.bar.set_description("npy: files")
        program.make(folder, bench.pick(SETS, 2), present(IN_THREADS))
        with Sides(bench, THREADS, folder, (*IN_THREADS, OUR_MAPPED, MAPPED)) as sides:
            threads(bench, sides)
        with Sides(bench, PROCESSES, folder, IN_PROCESSES) as sides:
            processes(bench, sides)
        with Sides(bench, TICKS, folder, BESIDE_TICKS) as sides:
            ticks(bench, sides)


def present(libraries):
    return [name for name in libraries if name not in peers.absent()]


def threads(bench, sides):
    for kind, place in bench.pick(THREAD_CASES, QUICK_CASES):
        for workers in bench.pick(WORKERS, QUICK_WORKERS):
            rounds = bench.pick(THREAD_ROUNDS[workers] if place == MEMORY else DISK_ROUNDS, 1)
            contenders = sides.long_loads(kind, place, workers=workers)
            bench.measure(THREADS, case(what(kind, place), workers), contenders, rounds)
    for inside in bench.pick((1, 2), ()):
        names = None if inside == 1 else [OURS]
        contenders = sides.loads(program.TWO, MEMORY, names, INSIDE_LOADS, workers=1, inside=inside)
        bench.measure(THREADS, case(INSIDE, inside), contenders, bench.pick(5, 1))


def processes(bench, sides):
    for kind, place in bench.pick(PROCESS_CASES, QUICK_CASES):
        for workers in bench.pick(WORKERS, QUICK_WORKERS):
            contenders = sides.loads(kind, place, workers=workers)
            rounds = bench.pick(PROCESS_ROUNDS[workers], 1)
            bench.measure(PROCESSES, case(what(kind, place), workers), contenders, rounds)
    if not bench.quick:
        contenders = sides.loads(program.NPZ, MEMORY, workers=2, executor=True)
        bench.measure(PROCESSES, case(EXECUTORS, 2), contenders, 3)


def ticks(bench, sides):
    """Neighbours that load nothing are measured once."""
    seconds, kinds = bench.pick((0.6, TICK_KINDS), (0.1, TICK_KINDS[:1]))
    for kind in kinds:
        for workers in (1, 2):
            names = [name for name in BESIDE_TICKS if kind == kinds[0] or name not in NEIGHBOURS]
            contenders = sides.contenders(kind, MEMORY, names, workers=workers, seconds=seconds)
            bench.measure(TICKS, case(what(kind, MEMORY), workers), contenders, bench.pick(5, 1))


class Sides:
    """The programs of a row, one for each library that is there."""

    def __init__(self, bench, row, folder, libraries):
        self._bench = bench
        self._row = row
        self._folder = folder
        self._programs = {}
        self._libraries = present(libraries)

    def __enter__(self):
        way = self._row.removeprefix("npy ")
        for name in self._libraries:
            log = "npy-" + "".join(filter(str.isalnum, name))
            side = Answering(log, PROGRAM, way, name, self._folder)
            try:
                side.ask(ready=True)
                self._programs[name] = side
            except Failed as error:
                side.close()
                self._bench.results.fail(self._row, "start", name, error)
        return self

    def __exit__(self, *_):
        for side in self._programs.values():
            side.close()

    def contenders(self, kind, place, names=None, **order):
        order = order | {"kind": kind, "on_disk": place == DISK}
        return {
            name: self._contender(name, order)
            for name in self._programs
            if name in (names or self._programs) and takes(name, kind, place)
        }

    def _contender(self, name, order):
        """Each round loads the files of another set."""
        numbers = itertools.cycle(range(self._bench.pick(SETS, 2)))
        side = self._programs[name]
        return lambda: side.ask(**order, set=next(numbers))["seconds"]

    def loads(self, kind, place, names=None, times=0, **order):
        """Contenders whose tasks have so many loads, but at least the least number."""
        least = LEAST_DEFLATED if kind in (program.SMOOTH, program.TWO) else LEAST_LOADS
        times = max(times, self._bench.pick(least, 10))
        return self.contenders(kind, place, names, loads=times, **order)

    def long_loads(self, kind, place, names=None, **order):
        """Contenders whose tasks are long enough, too: each runs once to find how many loads."""
        found = {}
        for name, contender in self.loads(kind, place, names, **order).items():
            try:
                times = min(int(TASK_SECONDS / contender()), self._bench.pick(MOST_LOADS, 10))
            except Failed as error:
                self._bench.results.fail(self._row, what(kind, place), name, error)
                continue
            found |= self.loads(kind, place, [name], times, **order)
        return found


def takes(name, kind, place):
    if name in (MAPPED, OUR_MAPPED) and place != DISK:
        return False
    if name == MAPPED:
        return kind == program.NPY
    return kind == program.NPZ or name not in program.OWN_FORMATS


def curve(figures, row, where):
    """Returns {who: [(number of workers, figure)]}."""
    lines = {}
    for figure in figures:
        found, _, workers = figure["case"].rpartition(": ")
        if (figure["row"], found) == (row, where):
            lines.setdefault(figure["who"], []).append((int(workers), figure))
    return lines
