"""The targets as ratios of one run: each target, its figures, and whether it is met."""

import tomllib
from dataclasses import dataclass

from harness import HERE
from rows import jobs, ruby, standard
from rows.shared import BARE, BARE_IN_C

STEADY, COLD = ("private", "400 MB steady"), ("private", "400 MB cold")
SLACK_SECONDS = 15e-6


@dataclass
class Judged:
    key: str
    target: str
    measured: str
    met: bool | None  # None: not measured
    why: str


class Figures:
    def __init__(self, results):
        self._medians = {(f["row"], f["case"], f["who"]): f["median"] for f in results["figures"]}

    def get(self, row, case, who):
        return self._medians.get((row, case, who))

    def cases(self, row):
        return list(dict.fromkeys(case for found, case, _ in self._medians if found == row))


def say(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.0f} ns"


def shared_targets(figures):
    """Shared arrays against 200 bytes on Python's pipe, with those on the bare pipe of C beside."""
    for size in ("64 KiB", "4 MiB", "400 MB"):
        ours, bare = figures.get("shared", size, "ours"), figures.get("shared", size, BARE["pipe"])
        limit = "at most max(1.5 ×, + 15 µs) of 200 bytes on Python's pipe"
        target = f"shared {size}, there and back: {limit}"
        yield (
            f"shared {size}",
            target,
            within_pipe(ours, bare),
            pipe_words(figures, size, ours, bare),
        )


def within_pipe(ours, bare):
    return None if None in (ours, bare) else ours <= max(1.5 * bare, bare + SLACK_SECONDS)


def pipe_words(figures, size, ours, bare):
    if None in (ours, bare):
        return ""
    own, from_c = (figures.get("shared", size, who) for who in (BARE["ours"], BARE_IN_C))
    others = [
        f"{name} {say(value)}" for name, value in (("on ours", own), ("from C", from_c)) if value
    ]
    bare_ones = f"200 bytes: {say(bare)} ({', '.join(others)})"
    return f"{say(ours)}; {bare_ones}: {ours / bare:.2f} ×, + {say(max(ours - bare, 0))}"


def faster(figures, key, target, case, other, least):
    """Judges whether our rate is at least `least` times that of another."""
    ours, theirs = figures.get(*case, "ours"), figures.get(*case, other)
    if None in (ours, theirs):
        return key, target, None, ""
    return (
        key,
        target,
        theirs / ours >= least,
        f"{theirs / ours:.2f} × ({say(ours)} to {say(theirs)})",
    )


# Key, row and case, the other's name and words, and how many times its rate ours must be.
PRIVATE = (
    ("ray", STEADY, "ray", "the rate of Ray", 1.3),
    ("pickle5", STEADY, "pickle5", "SharedMemory and pickle 5", 8),
    ("memcpy", STEADY, "memcpy, one thread", "a warm memcpy on one thread", 1.1),
    ("cold", COLD, "pickle5", "SharedMemory and pickle 5", 2),
)


def private_targets(figures):
    for key, case, other, words, least in PRIVATE:
        form = "cold" if case is COLD else "steady"
        target = f"private 400 MB, {form}: at least {least} × {words}"
        yield faster(figures, f"private {key}", target, case, other, least)


def below(figures, key, target, case, who, limit):
    ours = figures.get(*case, who)
    return key, target, None if ours is None else ours < limit, "" if ours is None else say(ours)


def path_targets(figures):
    cold = ("paths", "attach 1 MiB, cold")
    bare = figures.get(*cold, "open and map")
    for language in ("Rust", "C"):
        ours = figures.get(*cold, language)
        words = "" if None in (ours, bare) else f"{ours / bare:.2f} × ({say(ours)} to {say(bare)})"
        met = None if None in (ours, bare) else ours <= 2 * bare
        yield (
            f"attach cold {language}",
            f"attach, cold, {language}: at most 2 × of open and map",
            met,
            words,
        )
    again = ("paths", "attach 1 MiB, again")
    for language, limit in (("Rust", 1e-6), ("C", 1e-6), ("Python", 4e-6)):
        target = f"attach, seen before, {language}: under {say(limit)}"
        yield below(figures, f"attach cached {language}", target, again, language, limit)
    case = ("paths", "create and drop 1 MiB")
    target = "create and drop 1 MiB, warm, C: under 2 µs"
    yield below(figures, "create C", target, case, "C", 2e-6)


def ruby_targets(figures):
    """Compares the times of transport alone."""
    marshal = figures.get("ruby", ruby.CASE, ruby.WAYS["Marshal"])
    for way, words, least in (
        ("in place", "written in place", 5),
        ("map", "returned from Numo::Parallel.map", 10),
    ):
        ours = figures.get("ruby", ruby.CASE, ruby.WAYS[way])
        target = f"frames in Ruby, {words}: at least {least} × the rate of Marshal through a pipe"
        measured = (
            None
            if None in (ours, marshal)
            else f"{marshal / ours:.1f} × ({say(ours)} to {say(marshal)})"
        )
        yield (
            f"ruby {way}",
            target,
            None if measured is None else marshal / ours >= least,
            measured or "",
        )


def jobs_targets(figures):
    """Compares each case that was measured."""
    ratios = []
    for case in figures.cases(jobs.ROW):
        ours, theirs = (figures.get(jobs.ROW, case, who) for who in jobs.LIBRARIES)
        if None not in (ours, theirs):
            ratios.append(
                (ours / theirs, f"{case} {ours / theirs:.2f} × ({say(ours)} to {say(theirs)})")
            )
    target = "jobs in Ruby, every case: at most 1.1 × the gem parallel's time"
    yield "jobs", target, *worst_of(ratios, 1.1)


def standard_targets(figures):
    """Compares the worst of all objects by each way."""
    for way in standard.program.WAYS:
        most, words = (
            (1.5, "first message to and from it")
            if way == standard.NEW_PROCESS
            else (1.1, "every object")
        )
        target = f"{way}, {words}: at most {most} × the standard library's time"
        yield f"standard {way}", target, *worst(figures, way, most)


def worst(figures, way, most):
    ratios = []
    for name in standard.program.OBJECTS:
        case = standard.ROW, standard.case(way, name)
        ours, theirs = figures.get(*case, "ours"), figures.get(*case, standard.THEIRS)
        if None not in (ours, theirs):
            ratios.append(
                (ours / theirs, f"{name} {ours / theirs:.2f} × ({say(ours)} to {say(theirs)})")
            )
    return worst_of(ratios, most)


def worst_of(ratios, most):
    """Returns whether all ratios are met, and the words of those that are not, or of the worst."""
    if not ratios:
        return None, ""
    ratios.sort(reverse=True)
    over = [words for ratio, words in ratios if ratio > most] or [ratios[0][1]]
    return ratios[0][0] <= most, ", ".join(over)


CHANNEL = (
    "polling: no slower than iceoryx2's",
    "from Python: half of iceoryx2's Python package",
    "blocking: within 1.3 × of a futex",
    "6 MB by loan costs what 6 bytes do",
)


def channel_targets(figures):
    for words in CHANNEL:
        yield f"channel {words}", f"channel's round trip, {words}", None, "no channel yet"


def why(met, reason):
    return (reason or "not explained yet") if met is False else ""


def judge(results):
    with open(HERE / "misses.toml", "rb") as file:
        reasons = tomllib.load(file)
    figures, judged = Figures(results), []
    for rows in (
        shared_targets,
        private_targets,
        ruby_targets,
        jobs_targets,
        standard_targets,
        path_targets,
        channel_targets,
    ):
        for key, target, met, words in rows(figures):
            judged.append(
                Judged(key, target, words or "not measured", met, why(met, reasons.get(key)))
            )
    return judged
