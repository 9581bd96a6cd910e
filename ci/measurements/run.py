"""Measures everything in one run, and writes results.json, RESULTS.md and the pictures.

    ci/bench [--quick] [--only WORD …] [--out FOLDER]

With --quick or --only the files go to target/ci/bench, since they are not a whole run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import leftovers
import machine
import peers
import picture
import report
import rows
from harness import HERE, MADE, Bench


def options():
    parser = argparse.ArgumentParser(prog="ci/bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under a minute: shows that it works")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help=", ".join(rows.FAMILIES)
    )
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument(
        "--draw", action="store_true", help="measure nothing: report and pictures from results.json"
    )
    parser.add_argument("--only-measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    unknown = [word for word in chosen.only if not families([word])]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}")
    whole = not (chosen.quick or chosen.only)
    chosen.out = chosen.out or (HERE if whole else MADE)
    return chosen


def families(words):
    return {
        name: family
        for name, family in rows.FAMILIES.items()
        if not words or any(word in name for word in words)
    }


def measure(chosen, path):
    """Measures the families, and writes after each, so that a broken run keeps its figures."""
    bench = Bench(chosen.quick)
    seconds = {}
    facts = {"machine": machine.facts(), "versions": machine.versions(), "absent": peers.absent()}
    for name, family in families(chosen.only).items():
        began = time.monotonic()
        family.measure(bench)
        seconds[name] = round(time.monotonic() - began, 1)
        write(path, facts | {"took_seconds": seconds} | bench.results.as_json())
    bench.bar.close()


def write(path, results):
    """Writes a figure a line, in place of an empty list."""
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    figures = ",\n".join(json.dumps(figure, **compact) for figure in results["figures"])
    text = json.dumps(results | {"figures": []}, indent=1, ensure_ascii=False)
    path.write_text(text.replace('"figures": []', f'"figures": [\n{figures}\n ]') + "\n")


def measure_in_a_process(path):
    """Measures a family in a process of its own, with which the arrays in its pool go."""
    before = leftovers.files()
    subprocess.run([sys.executable, *sys.argv, "--only-measure"], check=True)
    write(path, json.loads(path.read_text()) | {"left_behind": leftovers.since(before)})


def main():
    chosen = options()
    chosen.out.mkdir(parents=True, exist_ok=True)
    path = chosen.out / "results.json"
    if chosen.only_measure:
        return measure(chosen, path)
    if not chosen.draw:
        measure_in_a_process(path)
    return publish(chosen.out, json.loads(path.read_text()))


def publish(folder, results):
    (folder / "RESULTS.md").write_text(report.text(results))
    drawn = picture.draw(results, folder)
    print(report.summary(results))
    print(f"the README's words beside the picture: {report.caption(results)}")
    print(
        f"written: {', '.join(os.path.relpath(name) for name in [folder / 'RESULTS.md', *drawn])}"
    )


if __name__ == "__main__":
    main()
