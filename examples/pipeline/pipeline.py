"""Photographs through three languages: Python tones down, C++ filters in place, Ruby counts, Python
draws.

From Python's first stage on, every photograph is one array in shared memory, and only its handle
goes through the pipes. In each round the same work is also done with pickled bytes through pipes,
and a table compares the two. Each process reports the time of its work; the rest of the time is
that of handing over. Ruby does its part without Numo and, if it is installed, with Numo.
"""

import argparse
import pathlib
import pickle
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import matplotlib
import numpy as np
import shmarray
import skimage.data
import skimage.io
from tqdm import tqdm

HERE = pathlib.Path(__file__).parent
PHOTOS = (
    "coffee.png",
    "chelsea.png",
    "astronaut.png",
    "hubble_deep_field.jpg",
    "motorcycle_left.png",
)
ROUNDS = 20
QUICK_ROUNDS = 5
# The highest brightness after Python's stage.
BRIGHTEST = 235
# The speed that handles must reach, as a multiple of that of pickled bytes.
TARGETS = {"handing over": 5.0, "end to end": 1.5}
# The most that Ruby's part may take without Numo, as a multiple of the time with it. A loop in Ruby
# takes a hundred times as long.
WITHOUT_NUMO = 3.0


@dataclass
class Round:
    """The times of one round of all photographs, in seconds."""

    end_to_end: float = 0.0
    toning: float = 0.0
    filtering: float = 0.0
    counting: float = 0.0

    @property
    def handing_over(self):
        return self.end_to_end - self.toning - self.filtering - self.counting


def tone_down(frame, photo):
    """Runs Python's stage with existing output memory. Returns the seconds that it took."""
    began = time.perf_counter()
    np.minimum(frame, BRIGHTEST, out=photo)
    return time.perf_counter() - began


class Worker:
    """A process that runs a stage in another language, with lines or bytes as input and output."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended with status {self.process.wait()}")
        return line.decode().rstrip("\n")

    def tell(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def seconds(self):
        """Reads the time of work that it reports after each photograph, in seconds."""
        return int(self.line()) / 1e9

    def end(self):
        """Reads the number of array bytes that it copied, which it reports at the end."""
        self.process.stdin.close()
        copied = int(self.line())
        if self.process.wait() != 0:
            raise RuntimeError(
                f"{self.process.args[0]} ended with status {self.process.returncode}"
            )
        return copied


class ByHandle:
    """The pipeline with handles: the arrays are not copied."""

    def __init__(self, filter_command, *ruby_arguments):
        self.edges = Worker(filter_command)
        self.reducer = Worker("ruby", HERE / "reduce.rb", *ruby_arguments)
        self.ruby = self.reducer.line()
        self.copied = self.through_pipes = 0

    def photograph(self, frame):
        """Returns the edges, their counts, and the seconds of toning down, filtering, counting."""
        copied_before = shmarray.copied_bytes()
        photo = shmarray.empty(frame.shape, frame.dtype)
        counts = shmarray.zeros((3, 256), "<u8")
        toning = tone_down(frame, photo)
        self.copied += shmarray.copied_bytes() - copied_before
        handle = str(shmarray.handle(photo))
        self.edges.tell(f"{handle}\n".encode())
        filtering = self.edges.seconds()
        self.reducer.tell(f"{handle}\t{shmarray.handle(counts)}\n".encode())
        return photo, counts, (toning, filtering, self.reducer.seconds())

    def end(self):
        self.copied += self.edges.end() + self.reducer.end()


class ByPickle:
    """The same work with pickled bytes through pipes."""

    def __init__(self, filter_command, *ruby_arguments):
        self.edges = Worker(filter_command, "--bytes")
        self.reducer = Worker("ruby", HERE / "reduce.rb", "--bytes", *ruby_arguments)
        self.ruby = self.reducer.line()
        self.copied = self.through_pipes = 0

    def photograph(self, frame):
        """Returns the same as the method of ByHandle."""
        toned = np.empty(frame.shape, frame.dtype)
        toning = tone_down(frame, toned)
        self.send(self.edges, toned)
        photo = np.frombuffer(pickle.load(self.edges.process.stdout), np.uint8).reshape(frame.shape)
        filtering = self.edges.seconds()
        self.send(self.reducer, photo)
        counts = np.frombuffer(self.reducer.process.stdout.read(3 * 256 * 8), "<u8").reshape(3, 256)
        self.through_pipes += 3 * photo.nbytes + counts.nbytes
        return photo, counts, (toning, filtering, self.reducer.seconds())

    @staticmethod
    def send(worker, frame):
        worker.tell(b"%d %d\n" % frame.shape[:2] + pickle.dumps(frame.tobytes(), protocol=5))

    def end(self):
        self.copied += self.edges.end() + self.reducer.end()


class Comparison:
    """Both ways with one kind of Ruby, run in turn in each round."""

    def __init__(self, filter_command, *ruby_arguments):
        self.ways = (
            ByHandle(filter_command, *ruby_arguments),
            ByPickle(filter_command, *ruby_arguments),
        )
        self.ruby = self.ways[0].ruby
        self.rounds = [], []
        self.results = None

    def round(self, photographs, progress):
        both = []
        for way, rounds in zip(self.ways, self.rounds, strict=True):
            seconds, results = one_round(way, photographs, progress)
            rounds.append(seconds)
            both.append(results)
        check(photographs, *both)
        self.results = both[0]

    def end(self):
        for way in self.ways:
            way.end()

    def median(self, part):
        """Returns the median seconds of a round, by handle and by pickle."""
        return [statistics.median(getattr(one, part) for one in rounds) for rounds in self.rounds]

    def times(self, part):
        """Returns how many times as fast handles are: the median of the rounds."""
        pairs = zip(*self.rounds, strict=True)
        return statistics.median(
            getattr(pickled, part) / getattr(handled, part) for handled, pickled in pairs
        )


def one_round(way, photographs, progress):
    seconds = Round()
    results = []
    for frame in photographs:
        began = time.perf_counter()
        photo, counts, (toning, filtering, counting) = way.photograph(frame)
        seconds.end_to_end += time.perf_counter() - began
        seconds.toning += toning
        seconds.filtering += filtering
        seconds.counting += counting
        results.append((photo, counts))
        progress.update()
    return seconds, results


def load_photographs():
    folder = pathlib.Path(skimage.data.__file__).parent
    photographs = [
        np.ascontiguousarray(skimage.io.imread(folder / name)[..., :3]) for name in PHOTOS
    ]
    for photograph in photographs:
        assert photograph.dtype == np.uint8 and photograph.ndim == 3
    return photographs


def check(photographs, handled, pickled):
    """Checks that both ways have the same pixels and counts, and that NumPy counts the same."""
    for frame, (photo, counts), (other_photo, other_counts) in zip(
        photographs, handled, pickled, strict=True
    ):
        assert photo.shape == frame.shape and not np.array_equal(photo, frame)
        np.testing.assert_array_equal(photo, other_photo)
        np.testing.assert_array_equal(counts, other_counts)
        for channel in range(3):
            np.testing.assert_array_equal(
                counts[channel], np.bincount(photo[..., channel].ravel(), minlength=256)
            )


def compare(photographs, filter_command, rounds):
    """Returns the comparisons without Numo and, if it is installed, with Numo."""
    comparisons = [Comparison(filter_command)]
    if comparisons[0].ruby.startswith("Numo"):
        comparisons.append(Comparison(filter_command, "--without-numo"))
    total = rounds * len(comparisons) * 2 * len(photographs)
    with tqdm(total=total, desc="both ways", unit="photo") as progress:
        for _ in range(rounds):
            for comparison in comparisons:
                comparison.round(photographs, progress)
    for comparison in comparisons:
        comparison.end()
    return comparisons


def draw(photographs, results, path):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, rows = plt.subplots(
        len(photographs), 3, figsize=(12, 3.1 * len(photographs)), layout="constrained"
    )
    titles = (
        "input: toned down by Python",
        "edges: in place, by C++",
        "values of the edges: counted by Ruby",
    )
    for row, photograph, (edges, counts) in zip(rows, photographs, results, strict=True):
        for axes, picture in zip(row[:2], (photograph, edges), strict=True):
            axes.imshow(picture)
            axes.axis("off")
        for channel, colour in enumerate(("tab:red", "tab:green", "tab:blue")):
            row[2].step(range(256), np.maximum(counts[channel], 0.5), colour, where="mid", lw=1)
        row[2].set(yscale="log", ylim=(0.5, None), xlim=(0, 255), xlabel="value", ylabel="pixels")
    for axes, title in zip(rows[0], titles, strict=True):
        axes.set_title(title)
    figure.savefig(path, dpi=80)


def print_table(comparison, rounds):
    print(f"\nRuby counts with {comparison.ruby}")
    print(f"{'':38}{'by handle':>14}{'pickled pipe':>14}")
    works = {
        "tone down (Python)": "toning",
        "filter (C++)": "filtering",
        "count (Ruby)": "counting",
    }
    rows = {f"work: {title}": part for title, part in works.items()}
    for title, part in (
        rows | {"handing over": "handing_over", "end to end": "end_to_end"}
    ).items():
        handled, pickled = comparison.median(part)
        faster = f"{comparison.times(part):9.1f} times" if title in TARGETS else ""
        print(f"{title:38}{handled * 1e3:11.2f} ms{pickled * 1e3:11.2f} ms{faster}")
    for title, part in {
        "bytes copied by the library": "copied",
        "bytes through pipes": "through_pipes",
    }.items():
        handled, pickled = (getattr(way, part) // rounds for way in comparison.ways)
        print(f"{f'array {title}':38}{handled:14,}{pickled:14,}")


def missed(comparisons):
    """Yields a line for each target that is missed."""
    for comparison in comparisons:
        for title, target in TARGETS.items():
            times = comparison.times(title.replace(" ", "_"))
            if times < target:
                yield (
                    f"{title}, Ruby with {comparison.ruby}: {times:.2f} times as fast, "
                    f"the target is {target}"
                )


def slow_without_numo(comparisons):
    """Yields a line if Ruby's part takes too long without Numo."""
    if len(comparisons) == 2:
        with_numo, without = (comparison.median("counting")[0] for comparison in comparisons)
        print(f"\nRuby's part takes {without / with_numo:.2f} times as long without Numo.")
        if without > WITHOUT_NUMO * with_numo:
            yield (
                f"Ruby's part without Numo must take at most {WITHOUT_NUMO} times "
                "what it takes with Numo"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", required=True, help="the compiled filter.cpp")
    parser.add_argument("--picture", default="pipeline.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    photographs = load_photographs()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    comparisons = compare(photographs, options.filter, rounds)
    draw(photographs, comparisons[0].results, options.picture)
    size = sum(photograph.nbytes for photograph in photographs) / 1e6
    print(f"\n{len(photographs)} photographs, {size:.1f} MB: medians of {rounds} rounds")
    for comparison in comparisons:
        print_table(comparison, rounds)
    failures = list(slow_without_numo(comparisons))
    misses = list(missed(comparisons))
    for line in misses:
        print(f"missed (other programs at work here make it miss, too): {line}")
    print(f"picture: {options.picture}")
    if failures + misses * options.strict:
        sys.exit("\n".join(failures) or 1)


if __name__ == "__main__":
    main()
