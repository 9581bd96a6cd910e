"""Results of a worker that are born shared and moved, and NumPy's arithmetic on such memory."""

from harness import HERE, Answering

ROW = "born"
PROGRAM = HERE / "programs/born.py"
MOVED = "moved"
COPIED = "copied"
THEIRS = "SharedMemory"
"""SharedMemory and pickle protocol 5. The receiver reads it in place."""

RESULTS = [
    "50 MB",
    "4 MB",
    "400 KB",
    "100 fields, dict",
    "100 fields, Dataset",
    "100 fields, DataFrame",
]
WHOLE = "100 fields, dict, with its computing"
SIZES = ["80 bytes", "4096 bytes", "65536 bytes", "1048576 bytes", "16777216 bytes"]


def measure(bench):
    for case in ["50 MB", "400 KB"] if bench.quick else [*RESULTS, WHOLE]:
        measure_one(bench, case, (MOVED, COPIED, THEIRS), bench.pick(7, 2))
    for case in SIZES[:1] if bench.quick else SIZES:
        measure_one(bench, case, (MOVED, COPIED), bench.pick(9, 2))


def measure_one(bench, case, ways, rounds):
    programs = {way: Answering(ROW, PROGRAM, way, case) for way in ways}
    try:
        bench.measure(
            ROW,
            case,
            {way: contender(program) for way, program in programs.items()},
            rounds,
        )
    finally:
        for program in programs.values():
            program.close()


def contender(program):
    return lambda: program.ask()["seconds"]
