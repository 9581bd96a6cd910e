"""Runs an example with and without shmarray, in turn, and prints how much faster it is with it.

    . ci/env; python examples/python/compare.py [--small] [--rounds N] [EXAMPLE …]

Each folder is an example: original.py, changed.py, and in some folders shared_memory.py, which does
the same with the standard SharedMemory and pickle 5 (see pickle5.py). All must print the same
result. The programs print the time that they took. compare.py prints its median over the rounds,
and the median, minimum and maximum of the ratios of the rounds.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
EXAMPLES = sorted(folder.name for folder in HERE.iterdir() if (folder / "changed.py").is_file())
OURS = "changed"


def run(program, small):
    command = [sys.executable, program, *(["--small"] if small else [])]
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    result, seconds = (line.split(" ", 1)[1] for line in done.stdout.splitlines())
    return result, float(seconds)


def measure(example, small, rounds):
    """Returns the result, and the seconds of each round of each program."""
    programs = sorted((HERE / example).glob("*.py"))
    results = set()
    seconds = {program.stem: [] for program in programs}
    for _ in range(rounds):
        for program in programs:
            result, took = run(program, small)
            results.add(result)
            seconds[program.stem].append(took)
    if len(results) != 1:
        sys.exit(f"{example}: the results differ: {results}")
    return results.pop(), seconds


def compare(example, small, rounds):
    result, seconds = measure(example, small, rounds)
    ours = seconds.pop(OURS)
    print(f"{example}: {result}")
    print(f"  {statistics.median(ours) * 1e3:.0f} ms with shmarray")
    for way, theirs in sorted(seconds.items()):
        ratios = sorted(their / our for their, our in zip(theirs, ours, strict=True))
        print(
            f"  {statistics.median(theirs) * 1e3:.0f} ms {way}:"
            f" {statistics.median(ratios):.1f} times as long"
            f" ({ratios[0]:.1f} to {ratios[-1]:.1f} in {rounds} rounds)",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=", ".join(EXAMPLES))
    parser.add_argument("--small", action="store_true", help="sizes that only show that it works")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    unknown = set(arguments.examples) - set(EXAMPLES)
    if unknown:
        parser.error(f"there is no example {', '.join(sorted(unknown))}")
    chosen = arguments.examples or EXAMPLES
    for example in chosen:
        compare(example, arguments.small, arguments.rounds)
    print(f"{len(chosen)} passed, 0 failed")


if __name__ == "__main__":
    main()
