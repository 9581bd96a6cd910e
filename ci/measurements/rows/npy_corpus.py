"""Loads of NPZ files such as people keep: every sample of the corpus, in every form.

Every figure is the processor time of one load of all arrays of a file, in one process alone.
"""

import statistics
import tempfile

from harness import HERE, MADE

from rows import npy

ROW = "npy corpus"
corpus = npy.module_of(HERE / "programs/npy_corpus.py")
STORED, ALIGNED, DEFLATED = corpus.FORMS
MEMORY = npy.MEMORY
DISK = npy.DISK
OURS = npy.OURS
PRIVATE = npy.PRIVATE
COPIED = npy.program.COPIED
MAPPED = npy.OUR_MAPPED
NUMPY = npy.NUMPY
SPDL = npy.SPDL
SAFETENSORS = npy.SAFETENSORS
# Who loads what. From the other files safetensors would load the same as beside stored ones.
CASES = {
    (STORED, MEMORY): (OURS, PRIVATE, COPIED, NUMPY, SPDL, SAFETENSORS),
    (STORED, DISK): (OURS, PRIVATE, MAPPED, NUMPY, SPDL, SAFETENSORS),
    (ALIGNED, MEMORY): (OURS, PRIVATE, COPIED, NUMPY, SPDL),
    (ALIGNED, DISK): (MAPPED, NUMPY, SPDL),
    (DEFLATED, MEMORY): (OURS, PRIVATE, NUMPY, SPDL),
    (DEFLATED, DISK): (OURS, PRIVATE, NUMPY, SPDL),
}
LIBRARIES = (OURS, PRIVATE, COPIED, MAPPED, NUMPY, SPDL, SAFETENSORS)
LEAST_SECONDS = 0.005
"""A round loads as often as takes this time, and before it about as long to find how often."""
ROUNDS = 5


def case(name, form, place):
    return f"{name}, {form}: {place}"


def measure(bench):
    MADE.mkdir(parents=True, exist_ok=True)
    names = bench.pick(list(corpus.SAMPLES), list(corpus.SAMPLES)[:2])
    with tempfile.TemporaryDirectory(prefix="npy-corpus-", dir=MADE) as folder:
        bench.bar.set_description(f"{ROW}: files")
        corpus.save(folder, names, saves_safetensors())
        with npy.Sides(bench, ROW, folder, LIBRARIES) as sides:
            for name in names:
                for form, place in CASES:
                    contenders = loads(bench, sides, folder, name, form, place)
                    bench.measure(ROW, case(name, form, place), contenders, bench.pick(ROUNDS, 1))


def saves_safetensors():
    """What saves a sample's arrays for safetensors, if that is there."""
    if SAFETENSORS not in npy.present([SAFETENSORS]):
        return None
    import safetensors.numpy

    return lambda path, arrays: safetensors.numpy.save_file(arrays, f"{path}.st")


def loads(bench, sides, folder, name, form, place):
    sample, path = (corpus.path(folder, name, found) for found in (STORED, form))
    order = {"sample": str(sample), "least_seconds": bench.pick(LEAST_SECONDS, 0)}
    contenders = {}
    for who in CASES[form, place]:
        found = sample.with_suffix(".st") if who == SAFETENSORS else path
        contenders |= sides.contenders(npy.program.NPZ, place, [who], path=str(found), **order)
    return contenders


def rates(figures, form, place):
    """Returns {who: [(times the rate of numpy.load, name)]}, the least first."""
    seconds = {
        (figure["case"], figure["who"]): figure["median"]
        for figure in figures
        if figure["row"] == ROW
    }
    found = {}
    for name in corpus.SAMPLES:
        where = case(name, form, place)
        for who in CASES[form, place]:
            ours = seconds.get((where, who))
            theirs = seconds.get((where, NUMPY))
            if None not in (ours, theirs):
                found.setdefault(who, []).append((theirs / ours, name))
    return {who: sorted(ratios) for who, ratios in found.items()}


def summary(figures):
    """Yields a line of cells for each form and place: the median rate, and the worst sample's."""
    for form, place in CASES:
        found = rates(figures, form, place)
        if found:
            yield [f"{form}, {place}", *(cell(found.get(who, [])) for who in LIBRARIES)]


def cell(ratios):
    if not ratios:
        return ""
    worst, name = ratios[0]
    if worst == ratios[-1][0] == 1:
        return "1 ×"
    middle = statistics.median(ratio for ratio, _ in ratios)
    return f"{middle:.3g} × (worst: {worst:.3g} ×, {name})"
