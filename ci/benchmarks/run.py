"""Measures everything in one run, and writes results.json, RESULTS.md and the pictures.

    ci/bench [--quick] [--only WORD …] [--out FOLDER]

With --quick or --only the files go to target/ci/bench, as they are not the whole.
"""

import argparse
import json
import os
import pathlib
import time

import machine
import peers
import picture
import report
import rows
from harness import HERE, MADE, Bench

SHARED = pathlib.Path("/dev/shm")
# What libraries keep for their next use, by design.
KEPT = {f"shmarray-registry-{os.getuid()}"}


def options():
    parser = argparse.ArgumentParser(prog="ci/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under a minute: shows that it works")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help=", ".join(rows.FAMILIES))
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--draw", action="store_true", help="measure nothing: report and pictures from results.json")
    chosen = parser.parse_args()
    unknown = [word for word in chosen.only if not families([word])]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}")
    whole = not (chosen.quick or chosen.only)
    chosen.out = chosen.out or (HERE if whole else MADE)
    return chosen


def families(words):
    return {name: family for name, family in rows.FAMILIES.items() if not words or any(word in name for word in words)}


def names(folder):
    return set(os.listdir(folder)) if folder.is_dir() else set()


def measure(chosen, path):
    """Written after each family: a run that is broken off has what it measured."""
    bench, before, seconds = Bench(chosen.quick), names(SHARED), {}
    facts = {"machine": machine.facts(), "versions": machine.versions(), "absent": peers.absent()}
    for name, family in families(chosen.only).items():
        began = time.monotonic()
        family.measure(bench)
        seconds[name] = round(time.monotonic() - began, 1)
        whole = facts | {"left_behind": ours_left(before), "took_seconds": seconds} | bench.results.as_json()
        path.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    bench.bar.close()


def ours_left(before):
    """What this run left in shared memory, other programs' aside."""
    prefixes = ("shmarray-", "bench-", "psm_", "torch_", "iox2_", "plasma")
    new = names(SHARED) - before - KEPT
    return sorted(name for name in new if name.startswith(prefixes) and (SHARED / name).is_file())


def main():
    chosen = options()
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / "results.json"
    if not chosen.draw:
        measure(chosen, path)
    results = json.loads(path.read_text())
    (chosen.out / "RESULTS.md").write_text(report.text(results))
    drawn = picture.draw(results, chosen.out)
    print(report.summary(results))
    print(f"written: {', '.join(os.path.relpath(name) for name in [path, chosen.out / 'RESULTS.md', *drawn])}")


if __name__ == "__main__":
    main()
