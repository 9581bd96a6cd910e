"""A data set for all workers: an item, making it, opening it, and what eight workers weigh."""

import importlib.util

import numpy as np
import shmarray
import timed
from harness import HERE, Answering, Failed

ROW = "lists"
PROGRAM = HERE / "programs/lists.py"
OURS = "ours"
FILE = "in a file"
PLAIN = "plain"
SERIALISED = "serialised"
DATASETS = "datasets"
MANAGER = "manager"
NOTHING = "nothing"
"""Workers that have no data set."""

RECORD_ITEM, RAGGED_ITEM = "an item: record", "an item: ragged array"
RAGGED_ITEM_IN_C = "an item: ragged array, in C"
RECORD_MADE, RAGGED_MADE = "making: a record", "making: a ragged array"
OPENED, ATTACHED = "opening a file", "attaching"
STARTED, WEIGHED = "8 workers start", "8 workers have touched all: copies"
CASES = {
    RECORD_ITEM: ("record", (OURS, FILE, PLAIN, SERIALISED, DATASETS, MANAGER)),
    RAGGED_ITEM: ("ragged", (OURS, PLAIN, SERIALISED)),
    RECORD_MADE: ("build records", (OURS, SERIALISED)),
    RAGGED_MADE: ("build ragged", (OURS, SERIALISED)),
    OPENED: ("open", (OURS,)),
    ATTACHED: ("attach", (OURS,)),
}
RECORD_BYTES = 8 + 15 + 40 + 36 + 400
"""About as many as a record's values have."""


def measure(bench):
    count = bench.pick(100_000, 2_000)
    for case, (word, ways) in CASES.items():
        programs = started(word, ways, count)
        contenders = {way: contender(program) for way, program in programs.items()}
        bench.measure(ROW, case, contenders, bench.pick(7, 2))
        for program in programs.values():
            program.close()
    in_c(bench, count)
    for way in (NOTHING, OURS, FILE, PLAIN, SERIALISED):
        weigh(bench, way, bench.pick(1_000_000, 5_000))


def in_c(bench, count):
    items = shmarray.List(np.arange(float(number % 40)) for number in range(count))
    line = f"time_items {bench.pick(1_000_000, 10_000)} {shmarray.handle(items)}"

    def run():
        with timed.driver("C") as driver:
            return timed.ask(driver, line)[0]

    bench.measure(ROW, RAGGED_ITEM_IN_C, {OURS: run}, bench.pick(7, 2))


def started(case, ways, count):
    """The programs of these ways. Each makes its data set first."""
    there = [way for way in ways if way != DATASETS or importlib.util.find_spec(DATASETS)]
    return {way: Answering(ROW, PROGRAM, way, case, str(count)) for way in there}


def contender(program):
    return lambda: program.ask()["seconds"]


def weigh(bench, way, count):
    """Records the time in which eight workers start, and what all processes weigh in copies."""
    for program in started("workers", [way], count).values():
        try:
            found = [program.ask()["seconds"] for _ in range(bench.pick(3, 1))]
        except Failed as error:
            bench.results.fail(ROW, WEIGHED, way, error)
            continue
        finally:
            program.close()
        bench.results.add(ROW, STARTED, way, [one["start"] for one in found])
        nothing = bench.results.get(ROW, WEIGHED, NOTHING) or 0
        copies = [one["memory"] / (count * RECORD_BYTES) - nothing for one in found]
        bench.results.add(ROW, WEIGHED, way, list(np.array(copies)), "copies")
