"""The pictures of a run: results.svg for the README, growth.svg for RESULTS.md."""

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402
import peers  # noqa: E402
from rows import growth, ruby  # noqa: E402
from rows.shared import BARE  # noqa: E402
from targets import say  # noqa: E402

OURS, THEIRS, LIMIT, QUIET = "#d1495b", "#8d99ae", "#2b2d42", "#6c757d"
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
STYLE = {"font.size": 9, "svg.hashsalt": "shmarray", "axes.spines.top": False, "axes.spines.right": False}


def draw(results, folder):
    made = []
    with plt.rc_context(STYLE):
        for name, figure in (("results.svg", bars(results)), ("growth.svg", curves(results))):
            if figure is None:
                continue
            figure.savefig(folder / name, metadata={"Date": None})
            plt.close(figure)
            made.append(folder / name)
    return made


def found(results, row, case):
    figures = [figure for figure in results["figures"] if (figure["row"], figure["case"]) == (row, case)]
    return {figure["who"]: figure for figure in figures}


def bars(results):
    panels = [(title, found(results, row, case)) for title, row, case in PANELS]
    panels = [panel for panel in panels if peers.OURS in panel[1]]
    if not panels:
        return None
    lines = -(-len(panels) // COLUMNS)
    figure, axes = plt.subplots(
        lines, COLUMNS, figsize=(11, 0.5 + 2.45 * lines), squeeze=False, layout="constrained", facecolor="white"
    )
    for axis, (title, figures) in zip(axes.flat, panels, strict=False):
        panel(axis, title, figures, floor(figures))
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle("Time until the answer is back: shorter is better (log scale; × of shmarray's)", fontsize=11)
    return figure


def floor(figures):
    """The bare round trip in the same rounds, where it was measured."""
    figure = figures.get(BARE["pipe"])
    return ("200 bytes in the same pipe", figure["median"]) if figure else None


def panel(axis, title, figures, limit):
    drawn = {*peers.NAMES, *ruby.WAYS.values()}
    shown = sorted(drawn & figures.keys(), key=lambda who: -figures[who]["median"])
    ours = figures[peers.OURS]["median"]
    seconds = [figures[who]["median"] for who in shown]
    least = min([*seconds, *([limit[1]] if limit else []), *(memcpy(figures) or [])]) / 2.5
    for place, who in enumerate(shown):
        bar(axis, place, who, figures[who], ours, least)
    axis.set_yticks(range(len(shown)), [peers.label(who) for who in shown])
    axis.get_yticklabels()[shown.index(peers.OURS)].set_fontweight("bold")
    axis.set_xscale("log")
    axis.set_xlim(least, max(seconds) * (max(seconds) / least) ** 0.75)
    axis.set_title(title, fontsize=9.5, fontweight="bold", loc="left")
    axis.tick_params(axis="y", length=0)
    axis.xaxis.set_major_formatter(lambda value, _: say(value))
    axis.set_xticks(decades(least, max(seconds)))
    axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    limits(axis, figures, limit)


def decades(least, most):
    """Three ticks at most, no further than bars go: the room beyond is for words."""
    ticks = [10.0**n for n in range(-9, 4) if least <= 10.0**n <= 3 * most]
    return ticks[:: -(-len(ticks) // 3) or 1]


def bar(axis, place, who, figure, ours, least):
    value, is_ours = figure["median"], who == peers.OURS
    axis.barh(
        place, value - least, left=least, height=0.72, color=OURS if peers.label(who).startswith("shmarray") else THEIRS
    )
    axis.plot([figure["least"], figure["most"]], [place, place], color=LIMIT, linewidth=0.8)
    words = say(value) if is_ours else f"{say(value)}  ×{value / ours:.2g}" if value / ours < 100 else f"{say(value)}  ×{value / ours:.0f}"  # fmt: skip
    edge = max(value, figure["most"])
    axis.text(edge * 1.06, place, words, va="center", fontsize=8, fontweight="bold" if is_ours else "normal")


def memcpy(figures):
    return [figure["median"] for who, figure in figures.items() if who.startswith("memcpy")]


def limits(axis, figures, limit):
    """What the machine allows: dashed lines, explained under the axis."""
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
        len(units), len(growth.OPERATIONS), figsize=(11, 5), layout="constrained", facecolor="white", sharey="row"
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
        places = [place for place, _ in points]
        axis.plot(places, [p["median"] for _, p in points], "o-", color=color, markersize=3.5, label=LABELS[who])
        axis.fill_between(places, [p["least"] for _, p in points], [p["most"] for _, p in points], color=color, alpha=0.2)  # fmt: skip
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
