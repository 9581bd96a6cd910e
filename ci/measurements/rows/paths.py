"""The cost of creating, dropping and attaching in each language, beside the bare calls."""

import tempfile
from multiprocessing.shared_memory import SharedMemory
from time import perf_counter

import shmarray
import timed
from harness import limit

ROW = "paths"
# Bytes, and how often each program creates so many: in a full run, in a quick one.
CREATED = {
    "80 B": (80, 2000, 500),
    "64 KiB": (1 << 16, 1000, 200),
    "1 MiB": (1 << 20, 300, 50),
    "400 MB": (400_000_000, 5, 1),
}
# The smaller arrays are cells of slabs, the larger have segments of their own.
ATTACHED = {"80 B": 80, "1 MiB": 1 << 20}
ATTACHED_COUNT = 200
LANGUAGES = [name for name in timed.LANGUAGES if name != "C++"]  # which is C, inline


def measure(bench):
    for case, (size, full, quick) in CREATED.items():
        count = bench.pick(full, quick)
        contenders = {language: created(language, size, count) for language in LANGUAGES}
        contenders["SharedMemory (Python)"] = standard(size, count)
        bench.measure(ROW, f"create and drop {case}", contenders, bench.pick(7, 1))
    for case, size in ATTACHED.items():
        attach(bench, case, size)


def created(language, size, count):
    def run():
        with timed.driver(language) as driver:
            return timed.ask(driver, f"time_create {size} {count}")[0]

    return run


def standard(size, count):
    def run():
        began = perf_counter()
        for _ in range(count):
            segment = SharedMemory(create=True, size=size)
            segment.close()
            segment.unlink()
        return (perf_counter() - began) / count

    return run


def attach(bench, case, size):
    """Has each language attach all arrays.

    It attaches them cold, then one that it holds, then all again after it dropped them.
    """
    arrays = [shmarray.empty(size, "u1") for _ in range(ATTACHED_COUNT + 1)]
    handles = "".join(f"{shmarray.handle(array)}\n" for array in arrays)
    later = {"held": {}, "again": {}}
    contenders = {language: attached(language, handles, later) for language in LANGUAGES}
    contenders["open and map"] = limit("open", ATTACHED_COUNT)
    bench.measure(ROW, f"attach {case}, cold", contenders, bench.pick(7, 1))
    for what, found in later.items():
        for name, values in found.items():
            bench.results.add(ROW, f"attach {case}, {what}", name, values)


def attached(language, handles, later):
    """A run that gives three figures; two of them go to `later`."""

    def run():
        with tempfile.NamedTemporaryFile("w") as file, timed.driver(language) as driver:
            file.write(handles)
            file.flush()
            cold, *rest = timed.ask(driver, f"time_attach 2000 {file.name}")
        for found, seconds in zip(later.values(), rest, strict=True):
            found.setdefault(language, []).append(seconds)
        return cold

    return run
