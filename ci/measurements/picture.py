"""The pictures of a run: results.png for the README, growth.png and npy.png for RESULTS.md."""

import io

import matplotlib
from PIL import Image, PngImagePlugin

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402
import peers  # noqa: E402
import report  # noqa: E402
from rows import growth, npy, ruby  # noqa: E402
from rows.shared import BARE  # noqa: E402
from targets import say  # noqa: E402

OURS = "#d1495b"
THEIRS = "#5c6b8a"
LIMIT = "#2b2d42"
QUIET = "#6c757d"
# Title, row, case.
PANELS = (
    ("Shared array of 400 MB,\nthere and an answer back", "shared", "400 MB"),
    ("Private array of 64 KiB", "private", "64 KiB steady"),
    ("Private array of 4 MiB", "private", "4 MiB steady"),
    ("Private array of 400 MB, steady", "private", "400 MB steady"),
    ("… the first one, cold", "private", "400 MB cold"),
    ("100 fields to the parent\n(PyTorch's report)", "reports", "100 fields of 700 × 1400 float32"),
    ("xarray.Dataset of 392 MB", "reports", "Dataset of 100 fields"),
    ("BigData to a pool", "reports", "BigData to a pool, 16 chunks"),
    ("Ruby: a frame of 6.2 MB\nfrom a worker", "ruby", ruby.CASE),
)
COLUMNS = 3
STYLE = {
    "font.size": 9,
    "savefig.dpi": 160,  # sharp on a screen with twice the pixels
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(results, folder):
    """Draws the pictures. Each carries its caption, so that check.py can compare the two."""
    made = []
    metadata = PngImagePlugin.PngInfo()
    metadata.add_text("Description", report.caption(results))
    with plt.rc_context(STYLE):
        for name, figure in (
            ("results.png", panels(results)),
            ("growth.png", curves(results)),
            ("npy.png", loads(results)),
        ):
            if figure is None:
                continue
            save(figure, folder / name, metadata)
            plt.close(figure)
            made.append(folder / name)
    return made


def save(figure, path, metadata):
    """Writes it with a palette of 128 colours, which takes a third of the bytes and looks alike."""
    whole = io.BytesIO()
    figure.savefig(whole)
    with Image.open(whole) as image:
        few = image.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    few.save(path, pnginfo=metadata, optimize=True)


def found(results, row, case):
    figures = [
        figure for figure in results["figures"] if (figure["row"], figure["case"]) == (row, case)
    ]
    return {figure["who"]: figure for figure in figures}


def panels(results):
    shown = [(title, found(results, row, case)) for title, row, case in PANELS]
    shown = [panel for panel in shown if peers.OURS in panel[1]]
    if not shown:
        return None
    lines = -(-len(shown) // COLUMNS)
    figure, axes = plt.subplots(
        lines,
        COLUMNS,
        figsize=(13.5, 0.5 + 2.2 * lines),
        squeeze=False,
        layout="constrained",
        facecolor="white",
    )
    figure.get_layout_engine().set(w_pad=0.15, hspace=0.06)  # between a value and the next label
    drawn = {*peers.NAMES, *ruby.WAYS.values()}
    for axis, (title, figures) in zip(axes.flat, shown, strict=False):
        panel(axis, title, figures, drawn, floor(figures))
    for axis in axes.flat[len(shown) :]:
        axis.set_visible(False)
    figure.suptitle(
        "Time until the answer is back: further left is better. Points are medians, lines reach"
        " from the least to the most; log scale; × of shmarray's",
        fontsize=10.5,
    )
    return figure


def floor(figures):
    """The bare round trip in the same rounds, if it was measured."""
    figure = figures.get(BARE["pipe"])
    return ("200 bytes in the same pipe", figure["median"]) if figure else None


def panel(axis, title, figures, drawn, limit=None):
    """Draws the figures of these contenders, the slowest at the bottom."""
    shown = sorted(drawn & figures.keys(), key=lambda who: -figures[who]["median"])
    ours = figures[peers.OURS]["median"]
    for position, who in enumerate(shown):
        point(axis, position, who, figures[who], ours)
    axis.set_yticks(range(len(shown)), [peers.label(who) for who in shown])
    axis.get_yticklabels()[shown.index(peers.OURS)].set_fontweight("bold")
    axis.set_ylim(-0.6, len(shown) - 0.4)
    axis.set_title(title, fontsize=9.5, fontweight="bold", loc="left")
    axis.tick_params(axis="y", length=0)
    scale(
        axis,
        [figures[who][end] for who in shown for end in ("least", "most")],
        limit,
        memcpy(figures),
    )
    limits(axis, figures, limit)


def scale(axis, values, limit, copies):
    values = [*values, *([limit[1]] if limit else []), *copies]
    least = min(values) / 1.5
    most = max(values) * 1.5
    axis.set_xscale("log")
    axis.set_xlim(least, most)
    axis.set_xticks(ticks(least, most))
    axis.xaxis.set_major_formatter(lambda value, _: say(value))
    axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axis.grid(alpha=0.25)


def ticks(least, most):
    """The powers of ten in the range; around a single one also three times and a third of it."""
    within = lambda steps: [
        step * 10.0**n for n in range(-9, 4) for step in steps if least <= step * 10.0**n <= most
    ]
    tens = within([1])
    return tens[:: -(-len(tens) // 3)] if len(tens) > 1 else within([1, 3])


def point(axis, position, who, figure, ours):
    """Draws the median, a line from the least to the most, and the number beside the axis."""
    value = figure["median"]
    is_ours = who == peers.OURS
    color = OURS if peers.label(who).startswith("shmarray") else THEIRS
    axis.plot(
        [figure["least"], figure["most"]],
        [position, position],
        color=color,
        linewidth=1.5,
        solid_capstyle="butt",
    )
    axis.plot([value], [position], "o", color=color, markersize=6)
    times = (
        ""
        if is_ours
        else f"  ×{value / ours:.2g}"
        if value / ours < 100
        else f"  ×{value / ours:.0f}"
    )
    axis.annotate(
        f"{say(value)}{times}",
        (1, position),
        (5, 0),
        xycoords=axis.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        fontsize=8,
        fontweight="bold" if is_ours else "normal",
    )


def memcpy(figures):
    return [figure["median"] for who, figure in figures.items() if who.startswith("memcpy")]


def limits(axis, figures, limit):
    """Draws the machine's limits as dashed lines, explained under the axis."""
    lines = [limit] if limit else []
    if copies := memcpy(figures):
        lines.append(("memcpy, 1 thread and all", max(copies)))
        axis.axvline(min(copies), color=LIMIT, linestyle=":", linewidth=1)
    for words, seconds in lines:
        axis.axvline(seconds, color=LIMIT, linestyle=":", linewidth=1)
        axis.set_xlabel(f"dotted: {words}", fontsize=7.5, color=QUIET)


def curves(results):
    units = (("bytes", "size of the array"), ("live", "live arrays of 64 KiB"))
    if not any(figure["row"] == growth.ROW for figure in results["figures"]):
        return None
    figure, axes = plt.subplots(
        len(units),
        len(growth.OPERATIONS),
        figsize=(11, 5),
        layout="constrained",
        facecolor="white",
        sharey="row",
    )
    for line, (unit, words) in zip(axes, units, strict=True):
        for axis, operation in zip(line, growth.OPERATIONS, strict=True):
            curve(axis, growth.curves(results["figures"], operation, unit), unit)
            axis.set_xlabel(words, fontsize=8)
            axis.set_title(operation, fontsize=9.5, fontweight="bold", loc="left")
    axes[0][0].legend(fontsize=7.5, frameon=False)
    return figure


LABELS = {"ours": "shmarray", "pickle5": "SharedMemory"}


def curve(axis, lines, unit):
    for who, points in lines.items():
        color = OURS if who == peers.OURS else THEIRS
        positions = [position for position, _ in points]
        axis.plot(
            positions,
            [p["median"] for _, p in points],
            "o-",
            color=color,
            markersize=3.5,
            label=LABELS[who],
        )
        least, most = ([p[end] for _, p in points] for end in ("least", "most"))
        axis.fill_between(positions, least, most, color=color, alpha=0.2)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: say(value))
    axis.grid(alpha=0.25)
    if unit == "bytes":
        axis.xaxis.set_major_formatter(lambda value, _: size(value))
        axis.set_xticks(growth.SIZES[::2])
        axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())


def size(number):
    for unit, least in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= least:
            return f"{number / least:.0f} {unit}"
    return f"{number:.0f}"


# The libraries of npy.png: colour, marker and line.
LINES = {
    npy.OURS: (OURS, "o", "-"),
    npy.PRIVATE: (OURS, "o", ":"),
    npy.OUR_POOL: (LIMIT, "s", ":"),
    npy.NUMPY: (LIMIT, "s", "-"),
    npy.MAPPED: (LIMIT, "x", ":"),
    npy.OUR_MAPPED: (OURS, "x", "--"),
    npy.SPDL: ("#3d7ea6", "^", "-"),
    npy.SAFETENSORS: ("#8a9a5b", "D", "-"),
    npy.TORCH: ("#b08968", "v", "-"),
}
LOADS = [
    *((npy.THREADS, "threads", *case) for case in npy.THREAD_CASES),
    *((npy.PROCESSES, "processes", *case) for case in npy.PROCESS_CASES),
]
TICKS = [(npy.program.NPY, 1), (npy.program.NPY, 2), (npy.program.NPZ, 2)]


def loads(results):
    """Draws a line of panels each: threads in memory and on disk, processes, and ticks."""
    if npy.THREADS not in {figure["row"] for figure in results["figures"]}:
        return None
    figure = plt.figure(figsize=(13, 11.5), layout="constrained", facecolor="white")
    above, below = figure.subfigures(2, 1, height_ratios=(3.3, 1))
    axes = above.subplots(3, 3)
    for axis, (row, noun, kind, place) in zip(axes.flat, LOADS, strict=True):
        rates(axis, npy.curve(results["figures"], row, npy.what(kind, place)))
        axis.set_title(f"{kind},\n{place}", fontsize=9.5, fontweight="bold", loc="left")
        axis.set_xlabel(noun, fontsize=8)
    legend(above, axes)
    above.suptitle(
        "Loads per second of an image of 3 × 640 × 480 bytes and its labels: higher is better",
        fontsize=10.5,
    )
    for axis, (kind, workers) in zip(below.subplots(1, len(TICKS)), TICKS, strict=True):
        ticks_beside(axis, results, kind, workers)
    below.suptitle(
        "A tick of 1 ms in the main thread, its 99th percentile: further left is better",
        fontsize=10.5,
    )
    return figure


def rates(axis, lines):
    axis.set_visible(bool(lines))
    for who, points in lines.items():
        color, marker, line = LINES[who]
        axis.plot(
            [workers for workers, _ in points],
            [1 / figure["median"] for _, figure in points],
            color=color,
            marker=marker,
            linestyle=line,
            markersize=4,
            label=peers.label(who),
        )
    axis.set_xscale("log", base=2)
    axis.set_xticks(npy.WORKERS, map(str, npy.WORKERS))
    axis.set_yscale("log")
    axis.yaxis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.yaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axis.grid(alpha=0.25)


def ticks_beside(axis, results, kind, workers):
    figures = found(results, npy.TICKS, npy.case(npy.what(kind, npy.MEMORY), workers))
    axis.set_visible(npy.OURS in figures)
    if npy.OURS in figures:
        noun = "thread loads" if workers == 1 else "threads load"
        panel(axis, f"while {workers} {noun} {kind},\nin memory", figures, set(figures))


def legend(figure, axes):
    """One legend for all panels of rates."""
    named = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(
        named.values(),
        named.keys(),
        loc="outside lower center",
        ncols=len(named),
        frameon=False,
        fontsize=8.5,
    )
