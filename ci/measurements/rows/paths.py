"""The cost of creating, dropping and attaching in each language, beside the bare calls."""

import sys
from multiprocessing.shared_memory import SharedMemory
from time import perf_counter

import shmarray
from harness import HERE, MADE, limit, program

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
PROGRAMS = {
    "C": [MADE / "paths-c"],
    "Rust": [MADE / "paths-rust"],
    "Python": [sys.executable, HERE / "programs/paths.py"],
    "Ruby": ["ruby", HERE / "programs/paths.rb"],
}


def measure(bench):
    for case, (size, full, quick) in CREATED.items():
        count = bench.pick(full, quick)
        contenders = {name: created(command, size, count) for name, command in PROGRAMS.items()}
        contenders["SharedMemory (Python)"] = standard(size, count)
        bench.measure(ROW, f"create and drop {case}", contenders, bench.pick(7, 1))
    for case, size in ATTACHED.items():
        attach(bench, case, size)


def created(command, size, count):
    return lambda: program(*command, "create", size, count)[0]


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
    """Has each program attach all arrays.

    It attaches them cold, then one that it holds, then all again after it dropped them.
    """
    arrays = [shmarray.empty(size, "u1") for _ in range(ATTACHED_COUNT + 1)]
    handles = "".join(f"{shmarray.handle(array)}\n" for array in arrays)
    later = {"held": {}, "again": {}}
    contenders = {
        name: attached(name, command, handles, later) for name, command in PROGRAMS.items()
    }
    contenders["open and map"] = limit("open", ATTACHED_COUNT)
    bench.measure(ROW, f"attach {case}, cold", contenders, bench.pick(7, 1))
    for what, found in later.items():
        for name, values in found.items():
            bench.results.add(ROW, f"attach {case}, {what}", name, values)


def attached(name, command, handles, later):
    """A run of the program, which gives three figures; two of them go to `later`."""

    def run():
        (row,) = program(*command, "attach", 2000, stdin=handles)
        for what, found in later.items():
            found.setdefault(name, []).append(row[what])
        return row["cold"]

    return run
