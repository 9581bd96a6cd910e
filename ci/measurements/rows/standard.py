"""What a program gains or loses that changes its import: objects of every kind, by every way."""

import importlib.util
import json
import subprocess
import sys

from harness import HERE, Failed

ROW = "standard"
PROGRAM = HERE / "programs/standard.py"
THEIRS = "standard library"
MOST_BYTES = 64 << 20
"""A round sends no more than this, but at least two objects."""
ROUND_SECONDS = 0.03
"""In a shorter round the kernel's placing of processes counts for more than their work."""

specification = importlib.util.spec_from_file_location("standard_program", PROGRAM)
program = importlib.util.module_from_spec(specification)
specification.loader.exec_module(program)

NEW_PROCESS = "a new process"
FIRST = ["int", "array of 64 KiB"]
QUICK = {"Pipe": ["int", "bytes, 100 KiB"], "Pool.imap, 100": ["dict"]}


def measure(bench):
    for way in QUICK if bench.quick else program.WAYS:
        sides = {"ours": Side("ours", way), THEIRS: Side("standard", way)}
        try:
            for name in objects(bench, way):
                times = count(bench, way, name, sides[THEIRS])
                contenders = {who: side.contender(name, times) for who, side in sides.items()}
                bench.measure(ROW, case(way, name), contenders, bench.pick(9, 2))
        finally:
            for side in sides.values():
                side.close()


def case(way, name):
    return f"{way}: {name}"


def objects(bench, way):
    if bench.quick:
        return QUICK[way]
    return FIRST if way == NEW_PROCESS else program.OBJECTS


def count(bench, way, name, side):
    """The number of objects for which the side needs ROUND_SECONDS."""
    if way == NEW_PROCESS:
        return 5
    obj = program.OBJECTS[name]()
    size = max(len(obj) if isinstance(obj, bytes | str) else 0, getattr(obj, "nbytes", 0), 1)
    most = min(bench.pick(20_000, 20), MOST_BYTES // size)
    times = 20
    while times < most and (seconds := side.contender(name, times)() * times) < ROUND_SECONDS:
        times = int(times * min(10, 1.1 * ROUND_SECONDS / seconds))
    return max(2, min(times, most))


class Side:
    """The program of one library for one way."""

    def __init__(self, library, way):
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, library, way],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def contender(self, name, times):
        def run():
            print(
                json.dumps({"object": name, "warm": max(1, times // 10), "count": times}),
                file=self._process.stdin,
                flush=True,
            )
            answer = self._process.stdout.readline()
            if not answer:
                raise Failed("it has ended")
            return float(answer)

        return run

    def close(self):
        self._process.stdin.close()
        self._process.wait()
