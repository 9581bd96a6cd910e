"""How costs grow with the size of an array, and with the number of live arrays."""

import contextlib
import sys

from harness import HERE, Failed, program

ROW = "growth"
SIZES = (4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20, 2 << 30)
LIVE = (1, 10, 100, 1000, 10_000)
WHO = ("ours", "pickle5")
OPERATIONS = ("create and drop", "attach", "send shared", "share private")
LIVE_BYTES = 64 << 10


def measure(bench):
    """Runs one program for all operations at one point of a curve."""
    for size in bench.pick(SIZES, SIZES[0:3:2]):
        point(bench, f"{size} bytes", size, 0)
    for live in bench.pick(LIVE, LIVE[0:4:3]):
        point(bench, f"{live} live", LIVE_BYTES, live)


def point(bench, where, size, live):
    rounds = bench.pick(3 if size > 1 << 30 else 5, 1)
    bench.bar.set_description(f"{ROW}: {where}")
    bench.bar.total += rounds * len(WHO)
    found = {who: {operation: [] for operation in OPERATIONS} for who in WHO}
    for _ in range(rounds):
        for who in list(found):
            try:
                (seconds,) = program(sys.executable, HERE / "programs/growth.py", who, size, live)
                for operation in OPERATIONS:
                    found[who][operation].append(seconds[operation])
            except Failed as error:
                bench.results.fail(ROW, where, who, error)
                del found[who]
            bench.bar.update()
    for who, operations in found.items():
        for operation, values in operations.items():
            bench.results.add(ROW, f"{operation}, {where}", who, values)


def curves(figures, operation, unit):
    """Returns {who: [(position, figure)]} of a curve; `unit` is "bytes" or "live"."""
    lines = {}
    for figure in figures:
        with contextlib.suppress(ValueError):
            what, where = figure["case"].rsplit(", ", 1)
            number, kind = where.split(" ")
            if (figure["row"], what, kind) == (ROW, operation, unit):
                lines.setdefault(figure["who"], []).append((int(number), figure))
    return lines
