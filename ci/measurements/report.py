"""RESULTS.md: the targets and every figure, from results.json."""

import peers
import targets
from rows import npy_corpus

ROWS = {
    "limits": "What the machine allows",
    "shared": "An array that is shared already: there, and an answer back",
    "private": "A private array: there, and an answer back",
    "reports": "What people reported",
    "standard": "In place of the standard library",
    "ruby": "Frames in Ruby",
    "received": "Received: what a receiver has alone, and one copy for many",
    "born": "Born shared: a worker's result, and arithmetic on such memory",
    "lists": "One data set for all workers",
    "jobs": "In place of the gem parallel",
    "paths": "Create, drop and attach",
    "channel polling": "Channels: a message there and another back, both sides polling",
    "channel blocking": "Channels: a message there and another back, both sides sleeping",
    "channel pairs": "Channels: 6 MB there and back between languages, polling",
    "channel one way": "Channels: one message, by the number of senders and receivers",
    "channel burst": "Channels: how often a receiver that sleeps is woken",
    "channel kill": "Channels: what a kill costs",
    "npy threads": "NPY and NPZ: one load, by the number of threads",
    "npy processes": "NPY and NPZ: one load, by the number of processes",
    npy_corpus.ROW: "NPZ such as people keep: multiples of numpy.load's rate, in processor time",
    "npy ticks": "A tick of 1 ms beside threads that load: the 99th percentile",
    "dask": "Dask on one host: an array to a worker or to the client",
    "dask broadcast": "Dask on one host: the client's array to 4 workers",
    "dask memory": "Dask on one host: memory, in multiples of the array",
    "dask programs": "Dask on one host: programs",
    "memory": "Memory, in multiples of the array",
    "growth": "Growth",
}
PICTURES = {
    "npy threads": {"npy.png": "Loads per second, and ticks beside loads"},
    "growth": {"growth.png": "Curves of the four operations over size and number"},
}
CAPTIONED = {who: peers.label(who) for who in ("ours", "ray", "pickle5", "pipe")}
MARKS = {True: "met", False: "**missed**", None: "–"}


def text(results):
    parts = [
        "# Results",
        "Written by `ci/bench`; what each row means stands in [README.md](README.md)."
        " Medians of rounds, the least and the most.",
        machine(results),
        "## Targets",
        table(("target", "measured", "", "where the time goes"), target_rows(results)),
    ]
    for row, title in ROWS.items():
        parts += section(results, row, title)
    parts += failures(results)
    return "\n\n".join(parts) + "\n"


def summary(results):
    """The targets and the absent peers, for the screen."""
    judged = targets.judge(results)
    lines = [
        f"{MARKS[target.met].strip('*'):8}{target.target}: {target.measured}" for target in judged
    ]
    return "\n".join(
        [*lines, *(f"no figures of {name}: {why}" for name, why in results["absent"].items())]
    )


def machine(results):
    facts = results["machine"]
    versions = results["versions"]
    size = lambda key: f"{facts[key] / 2**30:.0f} GiB"
    lines = [
        f"{facts['processor']}, {facts['cores']} cores{', virtual' if facts['virtual'] else ''},"
        f" {size('memory_bytes')} of memory, {size('shared_memory_bytes')} of them shared at most;"
        f" Linux {facts['kernel']}.",
        ", ".join(f"{name} {version}" for name, version in versions.items() if version) + ".",
    ]
    for row, commit in results.get("runs_of_their_own", {}).items():
        lines.append(f"The rows of {row} come from a run of their own, at commit {commit}.")
    if results["quick"]:
        lines.insert(0, "**A quick run: too few rounds and too small sizes to judge by.**")
    return "\n\n".join(lines)


def target_rows(results):
    for target in targets.judge(results):
        yield target.target, target.measured, MARKS[target.met], target.why


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def section(results, row, title):
    figures = [figure for figure in results["figures"] if figure["row"] == row]
    figures += [said for said in results.get("said", []) if said["row"] == row]
    if not figures:
        return []
    pictures = [f"![{words}]({name})" for name, words in PICTURES.get(row, {}).items()]
    drawn = corpus_table(figures) if row == npy_corpus.ROW else figure_table(figures)
    return [f"## {title}", *pictures, drawn]


def pictures(results):
    """The names of the pictures that results of these rows have beside results.png."""
    rows = {figure["row"] for figure in results["figures"]}
    return [name for row, drawn in PICTURES.items() if row in rows for name in drawn]


def figure_table(figures):
    """A table with a line for each case and a column for each contender."""
    cases = list(dict.fromkeys(figure["case"] for figure in figures))
    names = list(dict.fromkeys(figure["who"] for figure in figures))
    cells = {(figure["case"], figure["who"]): cell(figure) for figure in figures}
    rows = [[case, *(cells.get((case, name), "") for name in names)] for case in cases]
    return table(["", *map(peers.label, names)], rows)


def corpus_table(figures):
    """A table with a line for each form of file: every sample's figures are in results.json."""
    return table(["", *map(peers.label, npy_corpus.LIBRARIES)], npy_corpus.summary(figures))


def cell(figure):
    if "words" in figure:
        return figure["words"]
    if figure["unit"] == "count":
        return f"{figure['median']:g} ({figure['least']:g}–{figure['most']:g})"
    if figure["unit"] != "s":
        return f"{figure['median']:.2f}"
    say = targets.say
    return f"{say(figure['median'])} ({say(figure['least'])}–{say(figure['most'])})"


def failures(results):
    lines = [
        f"* {peers.label(f['who'])}, {f['row']}, {f['case']}: {f['why']}" for f in results["failed"]
    ]
    lines += [f"* left in shared memory: {name}" for name in results.get("left_behind") or []]
    if results.get("left_behind") is None:
        lines.append("* What this run left in shared memory was not counted.")
    return ["## What failed", "\n".join(lines)] if lines else []


def caption(results):
    """The words beside the picture in the README, from the same figures."""
    figures = targets.Figures(results)
    medians = {who: figures.get(*targets.STEADY, who) for who in CAPTIONED}
    times = [
        f"{name}: {targets.say(medians[who])}"
        for who, name in CAPTIONED.items()
        if medians[who] is not None
    ]
    return (
        f"Time until an answer is back. A private array of 400 MB, steady: {', '.join(times)}"
        if times
        else "A run without figures of private arrays of 400 MB"
    )
