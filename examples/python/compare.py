"""Runs an example as it was and as it is with shmarray, in turn, and says how much faster it became.

    . ci/env; python examples/python/compare.py [--small] [--rounds N] [EXAMPLE …]

Both must print the same result. The time is what the programs print themselves: the median of the
rounds, and of the ratios of each pair the median, the least and the most.
"""

import argparse
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
EXAMPLES = sorted(folder.name for folder in HERE.iterdir() if (folder / "changed.py").is_file())


def run(example, variant, small):
    command = [sys.executable, HERE / example / f"{variant}.py", *(["--small"] if small else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result, seconds = (line.split(" ", 1)[1] for line in done.stdout.splitlines())
    return result, float(seconds)


def compare(example, small, rounds):
    before, after = [], []
    for _ in range(rounds):
        expected, seconds = run(example, "original", small)
        before.append(seconds)
        result, seconds = run(example, "changed", small)
        after.append(seconds)
        if result != expected:
            sys.exit(f"{example}: {result!r}, and not {expected!r}")
    ratios = sorted(was / now for was, now in zip(before, after, strict=True))
    print(f"{example}: {expected}")
    print(
        f"  {statistics.median(before) * 1e3:.0f} ms became {statistics.median(after) * 1e3:.0f} ms: "
        f"{statistics.median(ratios):.1f} times as fast ({ratios[0]:.1f} to {ratios[-1]:.1f} in {rounds} rounds)"
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
