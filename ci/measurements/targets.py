"""The targets as ratios of one run: each target, its figures, and whether it is met."""

import statistics
import tomllib
from dataclasses import dataclass

import peers
from harness import HERE
from rows import born, channel, dask, jobs, lists, npy, npy_corpus, received, ruby, standard
from rows.shared import BARE, BARE_IN_C

STEADY = ("private", "400 MB steady")
COLD = ("private", "400 MB cold")
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
        ours = figures.get("shared", size, "ours")
        bare = figures.get("shared", size, BARE["pipe"])
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
    ours = figures.get(*case, "ours")
    theirs = figures.get(*case, other)
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


# Key, the case, our contender, the other's, and the most times its figure that ours may be.
RECEIVED = (
    ("write pool", "first write to 50 MB, CPU", "ours, from a pool", received.OWN, 1.4),
    ("write dumps", "first write to 50 MB, CPU", "ours, from dumps", received.OWN, 1.4),
    ("fork small", "fork with 128 arrays of 2 MiB", "ours", received.OWN, 2),
    ("fork large", "fork with 8 arrays of 32 MiB", "ours", received.OWN, 2),
    ("several", "160 MB to 8 workers, read", "ours", received.EIGHT, 0.5),
)


def received_targets(figures):
    for key, case, who, other, most in RECEIVED:
        ours, theirs = (figures.get(received.ROW, case, each) for each in (who, other))
        target = f"{case}, {who}: at most {most} × {other}"
        if None in (ours, theirs):
            yield f"received {key}", target, None, ""
            continue
        ratio = ours / theirs
        words = f"{ratio:.2f} × ({say(ours)} to {say(theirs)})"
        yield f"received {key}", target, ratio <= most, words
    copies = figures.get(received.ROW, received.COPIES, "ours")
    target = "160 MB to 8 workers in one call: at most 1.1 copies in shared memory"
    met = None if copies is None else copies <= 1.1
    yield "received copies", target, met, "" if copies is None else f"{copies:.2f}"


# Key, the cases, the other's figure, and the most times it that what is moved may take.
BORN = (
    ("50 MB", ["50 MB"], born.COPIED, 1 / 5),
    ("50 MB, SharedMemory", ["50 MB"], born.THEIRS, 1 / 20),
    ("fields", [case for case in born.RESULTS if "fields" in case], born.COPIED, 1 / 8),
    ("400 KB", ["400 KB"], born.COPIED, 1 / 2),
    ("whole", [born.WHOLE], born.COPIED, 1 / 2),
    ("whole, SharedMemory", [born.WHOLE], born.THEIRS, 1 / 5),
    ("small arrays", born.SIZES[:1], born.COPIED, 1.05),
    ("arithmetic", born.SIZES[1:], born.COPIED, 1.1),
)


def born_targets(figures):
    for key, cases, other, most in BORN:
        found = [
            [figures.get(born.ROW, case, who) for who in (born.MOVED, other)] for case in cases
        ]
        target = f"Born shared, {cases[0]}{' …' if cases[1:] else ''}: at most {most:.3g} × {other}"
        if any(None in pair for pair in found):
            yield f"born {key}", target, None, ""
            continue
        worst, moved, theirs = max((pair[0] / pair[1], *pair) for pair in found)
        words = f"{worst:.3g} × ({say(moved)} to {say(theirs)})"
        yield f"born {key}", target, worst <= most, words


# Key, the words, the case, and the most seconds.
LISTS = (
    ("ragged item", "a ragged item in Python: under 1 µs", lists.RAGGED_ITEM, 1e-6),
    ("ragged item in C", "a ragged item in C: under 50 ns", lists.RAGGED_ITEM_IN_C, 50e-9),
    ("making arrays", "at least 1 million ragged arrays a second", lists.RAGGED_MADE, 1e-6),
    (
        "making records",
        "records at 300 MB/s or more",
        lists.RECORD_MADE,
        lists.RECORD_BYTES / 300e6,
    ),
    ("opening", "opening a file under 1 ms", lists.OPENED, 1e-3),
)


def lists_targets(figures):
    for key, words, case, most in LISTS:
        found = figures.get(lists.ROW, case, lists.OURS)
        met = None if found is None else found <= most
        yield f"lists {key}", f"Lists: {words}", met, "" if found is None else say(found)
    ours, theirs = (
        figures.get(lists.ROW, lists.RECORD_ITEM, who) for who in (lists.OURS, lists.SERIALISED)
    )
    target = "Lists: a record is no slower than pickle.loads of it"
    yield "lists record", target, *at_most(ours, theirs, 1)
    for way in (lists.OURS, lists.FILE):
        copies = figures.get(lists.ROW, lists.WEIGHED, way)
        met = None if copies is None else copies <= 1.1
        target = f"Lists {way}: 8 workers that touched all have at most 1.1 copies together"
        yield f"lists memory {way}", target, met, "" if copies is None else f"{copies:.2f}"
        start, bare = (figures.get(lists.ROW, lists.STARTED, who) for who in (way, lists.NOTHING))
        met = None if None in (start, bare) else start <= bare + 10e-3
        target = f"Lists {way}: 8 workers start within 10 ms of those without data"
        words = "" if met is None else f"{say(start)} to {say(bare)}"
        yield f"lists start {way}", target, met, words


def at_most(ours, theirs, most):
    """Whether a figure is at most so many times another, and the words."""
    if None in (ours, theirs):
        return None, ""
    return ours / theirs <= most, f"{ours / theirs:.2f} × ({say(ours)} to {say(theirs)})"


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
        most, words = 1.1, "every object"
        if "Queue" in way:
            most = 1.0
        elif way == standard.NEW_PROCESS:
            most, words = 1.5, "first message to and from it"
        target = f"{way}, {words}: at most {most} × the standard library's time"
        yield f"standard {way}", target, *worst(figures, way, most)


def worst(figures, way, most):
    ratios = []
    for name in standard.program.OBJECTS:
        case = standard.ROW, standard.case(way, name)
        ours = figures.get(*case, "ours")
        theirs = figures.get(*case, standard.THEIRS)
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


def channel_targets(figures):
    """Compares medians of round trips, of which each round has at least thousands."""
    typical = channel.TYPICAL
    for key, target, row, ours, others, most in CHANNELS:
        ratios = []
        for size in channel.SIZES:
            found = figures.get(row, channel.case(size, ours), typical)
            theirs = figures.get(row, channel.case(size, others), typical)
            ratios += many_times(size, found, theirs)
        limit = f"median at most {most} × {others}'s"
        yield key, f"channel's round trip, {target}: {limit}", *worst_of(ratios, most)
    for who in (channel.OURS, channel.OURS_PYTHON):
        large, small = (
            figures.get(channel.POLLING, channel.case(size, who), typical)
            for size in (channel.LARGE, channel.SMALL)
        )
        target = f"{who}, {channel.LARGE} by loan, polling: at most 1.1 × of 8 bytes"
        yield f"channel large {who}", target, *worst_of(many_times(who, large, small), 1.1)
    large, small = (
        figures.get(channel.FLOOD, f"1 to 4, {size}", channel.OURS)
        for size in (channel.LARGE, channel.SMALL)
    )
    target = f"channel, 1 to 4, a message of {channel.LARGE}: at most 1.1 × of 8 bytes"
    yield "channel fan-out", target, *worst_of(many_times("1 to 4", large, small), 1.1)
    woken = figures.get(channel.BURST, channel.BURST_CASE, channel.OURS)
    target = "channel, a burst of 1,000 small messages: wakes a receiver that sleeps once"
    yield "channel burst", target, woken and woken <= 1, woken and f"{woken:g} times"


# Key, words, row, ours, the other, and how many times its time ours may be.
CHANNELS = (
    ("channel polling", "polling", channel.POLLING, channel.OURS, channel.ICEORYX, 0.8),
    (
        "channel Python",
        "polling, Python",
        channel.POLLING,
        channel.OURS_PYTHON,
        channel.ICEORYX_PYTHON,
        0.5,
    ),
    (
        "channel blocking",
        "blocking",
        channel.BLOCKING,
        channel.OURS,
        channel.WORDS[channel.BLOCKING],
        1.1,
    ),
)


def as_many_times(figures, words, ours, other):
    """Our time as a multiple of the other's in the same case, if both were measured."""
    return many_times(words, figures.get(*ours), figures.get(*ours[:2], other))


def many_times(words, found, theirs):
    if None in (found, theirs):
        return []
    return [(found / theirs, f"{words} {found / theirs:.2f} × ({say(found)} to {say(theirs)})")]


def npy_targets(figures):
    yield from npy_rates(figures)
    yield npy_pool(figures)
    yield npy_never_slower(figures)
    yield from npy_ticks(figures)


def in_memory(kind, workers, row=npy.THREADS):
    return row, npy.case(npy.what(kind, npy.MEMORY), workers)


# What is compared: (case, who) of ours and of the other.
NPY = npy.program.NPY
NPZ = npy.program.NPZ
SMOOTH = npy.program.SMOOTH
INSIDE = [(npy.THREADS, npy.case(npy.INSIDE, threads)) for threads in (1, 2)]
NPY_RATES = (
    (
        "npy no copy",
        "load_npy(bytes, shared=False): at least 3 × spdl.io's rate",
        3,
        [((*in_memory(NPY, 1), npy.PRIVATE), (*in_memory(NPY, 1), npy.SPDL))],
    ),
    (
        "npz deflated outside",
        "load_npz, deflated, in two threads: at least 1.8 × its rate in one",
        1.8,
        [((*in_memory(SMOOTH, 2), npy.OURS), (*in_memory(SMOOTH, 1), npy.OURS))],
    ),
    (
        "npz deflated inside",
        "load_npz, two members of one size, threads=2: at least 1.8 × the rate of threads=1",
        1.8,
        [((*INSIDE[1], npy.OURS), (*INSIDE[0], npy.OURS))],
    ),
)


def npy_rates(figures):
    for key, target, least, pairs in NPY_RATES:
        yield key, target, *least_of(times(figures, pairs), least)


def times(figures, pairs):
    """How many times the other's rate ours is, with words, where both were measured."""
    found = []
    for one, other in pairs:
        ours = figures.get(*one)
        theirs = figures.get(*other)
        if None not in (ours, theirs):
            where = one[1].rpartition(": ")[0]
            words = f"{where} {theirs / ours:.2f} × ({say(ours)} to {say(theirs)})"
            found.append((theirs / ours, words))
    return found


def least_of(ratios, least):
    """Returns whether all ratios reach the least, and the words of all."""
    if not ratios:
        return None, ""
    return min(ratios)[0] >= least, ", ".join(words for _, words in ratios)


STORED = (npy_corpus.STORED, npy_corpus.ALIGNED)
DEFLATED = (npy_corpus.DEFLATED,)
# Key, the options of the call, whose time, in which forms, how many times the other's rate.
CORPUS = (
    ("views", ", shared=False", npy.PRIVATE, STORED, 3, npy.SPDL),
    ("shared", "", npy.OURS, STORED, 1, npy.SPDL),
    ("copies", ", shared=False, align=True", npy_corpus.COPIED, STORED, 1, npy.SPDL),
    ("deflated shared", "", npy.OURS, DEFLATED, 2, npy.NUMPY),
    ("deflated shared spdl", "", npy.OURS, DEFLATED, 1, npy.SPDL),
    ("deflated private", ", shared=False", npy.PRIVATE, DEFLATED, 2, npy.NUMPY),
    ("deflated private spdl", ", shared=False", npy.PRIVATE, DEFLATED, 1, npy.SPDL),
)


def corpus_targets(figures):
    """Each target holds for every sample."""
    for key, options, who, forms, least, other in CORPUS:
        pairs = [
            ((npy_corpus.ROW, where, who), (npy_corpus.ROW, where, other))
            for name in npy_corpus.corpus.SAMPLES
            for form in forms
            for where in [npy_corpus.case(name, form, npy.MEMORY)]
        ]
        words = "stored" if forms == STORED else "deflated"
        target = (
            f"load_npz(bytes{options}), {words}, every sample: at least {least} × {other}'s rate"
        )
        yield f"corpus {key}", target, *every_one_of(times(figures, pairs), least)


def every_one_of(ratios, least):
    """Returns whether all reach the least, and words of the median, the worst and all misses."""
    if not ratios:
        return None, ""
    ratios.sort()
    middle = statistics.median(ratio for ratio, _ in ratios)
    missed = [words for ratio, words in ratios if ratio < least]
    below = f"{len(missed)} of {len(ratios)} below it" if missed else "worst"
    return not missed, f"median {middle:.2f} ×; {below}: {', '.join(missed or [ratios[0][1]])}"


def npy_pool(figures):
    """Compares with the faster of the libraries that load NPZ."""
    case = in_memory(NPZ, 2, npy.PROCESSES)
    theirs = [(figures.get(*case, who), who) for who in (npy.NUMPY, npy.SPDL)]
    others = [
        ((*case, npy.OURS), (*case, who))
        for seconds, who in sorted(pair for pair in theirs if pair[0] is not None)
    ][:1]
    target = "load_npz in a pool of two processes: at least 5 × the rate of the standard pool"
    return "npz pool", target, *least_of(times(figures, others), 5)


NEVER_SLOWER = 1.05


def npy_never_slower(figures):
    ratios = []
    for kind, place in npy.THREAD_CASES:
        for who in (npy.OURS, npy.PRIVATE):
            seconds = {
                workers: figures.get(npy.THREADS, npy.case(npy.what(kind, place), workers), who)
                for workers in npy.WORKERS
            }
            ratios += slower(f"{peers.label(who)}, {npy.what(kind, place)}", seconds)
    target = f"more threads never slower than one: at most {NEVER_SLOWER} × its time for a load"
    return "npy never slower", target, *worst_of(ratios, NEVER_SLOWER)


def slower(words, seconds):
    """The time of a load in several threads as a multiple of its time in one."""
    return [
        (found / seconds[1], f"{words}, {workers} threads {found / seconds[1]:.2f} ×")
        for workers, found in seconds.items()
        if workers > 1 and None not in (found, seconds[1])
    ]


def npy_ticks(figures):
    """Compares what ours adds to the idle neighbour's ticks with what numpy.load adds."""
    for kind in npy.TICK_KINDS:
        found = [tick(figures, kind, workers) for workers in (1, 2)]
        found = [judged for judged in found if judged]
        met = all(met for met, _ in found) if found else None
        target = f"a tick beside loads of {kind}: at most a tenth of what numpy.load adds to it"
        yield f"ticks {kind}", target, met, "; ".join(words for _, words in found)


def tick(figures, kind, workers):
    case = in_memory(kind, workers, npy.TICKS)
    idle, ours, theirs = (
        figures.get(*case, who) for who in (npy.program.IDLE, npy.OURS, npy.NUMPY)
    )
    if None in (idle, ours, theirs):
        return None
    ours, theirs = max(ours - idle, 0), max(theirs - idle, 0)
    words = f"beside {workers}: {say(ours)} more than {say(idle)}, numpy.load {say(theirs)} more"
    return ours <= 0.1 * theirs, words


# Key, words, row, case, and how many times the rate of plain distributed ours must be.
DASK_RATES = (
    ("private", "400 MB private, to a worker", dask.ROW, dask.case("400 MB", "private", "task"), 8),
    ("shared", "400 MB shared, to a worker", dask.ROW, dask.case("400 MB", "shared", "task"), 50),
    *(
        (
            f"client {kind}",
            f"400 MB {kind}, to the client",
            dask.ROW,
            dask.case("400 MB", kind, "client"),
            20,
        )
        for kind in dask.KINDS
    ),
    *(
        (
            f"broadcast {kind}",
            f"400 MB {kind}, to 4 workers",
            dask.BROADCAST,
            dask.broadcast_case("400 MB", kind),
            20,
        )
        for kind in dask.KINDS
    ),
    ("rechunk", "rechunk of 400 MB", dask.PROGRAMS, dask.RUNS["rechunk"][0], 1.5),
)
DASK_NEVER_SLOWER = 1.05


def dask_targets(figures):
    for key, words, row, case, least in DASK_RATES:
        target = f"Dask, {words}: at least {least} × the rate of plain distributed"
        yield faster(figures, f"dask {key}", target, (row, case), dask.THEIRS, least)
    yield dask_memory(figures)
    ratios = [
        found
        for row in (dask.ROW, dask.BROADCAST, dask.PROGRAMS)
        for case in figures.cases(row)
        for found in as_many_times(figures, case, (row, case, "ours"), dask.THEIRS)
    ]
    target = f"Dask, every case: at most {DASK_NEVER_SLOWER} × plain distributed's time"
    yield "dask slower", target, *worst_of(ratios, DASK_NEVER_SLOWER)


def dask_memory(figures):
    """Compares the arrays that exist beside the client's own."""
    found = [figures.get(dask.MEMORY, case, "ours") for case in figures.cases(dask.MEMORY)]
    target = "Dask, 400 MB shared at 4 workers and the client: memory of at most 1.1 arrays"
    if None in found or not found:
        return "dask memory", target, None, ""
    private, shared = found
    return (
        "dask memory",
        target,
        shared <= 1.1,
        f"{shared:.2f} (private: {private:.2f}, with the client's own)",
    )


def why(met, reason):
    return (reason or "not explained yet") if met is False else ""


def judge(results):
    with open(HERE / "misses.toml", "rb") as file:
        reasons = tomllib.load(file)
    figures = Figures(results)
    judged = []
    for rows in (
        shared_targets,
        private_targets,
        ruby_targets,
        received_targets,
        born_targets,
        lists_targets,
        jobs_targets,
        standard_targets,
        path_targets,
        channel_targets,
        npy_targets,
        corpus_targets,
        dask_targets,
    ):
        for key, target, met, words in rows(figures):
            judged.append(
                Judged(key, target, words or "not measured", met, why(met, reasons.get(key)))
            )
    return judged
