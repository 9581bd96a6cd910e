"""Photographs through three languages: Python shares, C++ filters in place, Ruby counts, Python draws.

Every photograph is one array in shared memory; what goes through the pipes is a line of text.
The same work with pickled bytes through pipes runs beside it, and a table compares the two.
"""

import argparse
import pathlib
import pickle
import subprocess
import time

import matplotlib
import numpy as np
import shmarray
import skimage.data
import skimage.io
from tqdm import tqdm

HERE = pathlib.Path(__file__).parent
PHOTOS = ("coffee.png", "chelsea.png", "astronaut.png", "hubble_deep_field.jpg", "motorcycle_left.png")


class Stages:
    """Seconds by stage, in the order in which the stages first ran."""

    def __init__(self):
        self.seconds = {}

    def run(self, name, work, *arguments):
        began = time.perf_counter()
        result = work(*arguments)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
        return result


class Worker:
    """A stage in another language: lines or bytes in, lines or bytes out."""

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

    def do(self, line):
        self.tell(line.encode() + b"\n")
        if self.line() != "done":
            raise RuntimeError(f"{self.process.args[0]} did not do what it was asked")

    def end(self):
        """What it says last, if anything: the bytes it copied."""
        self.process.stdin.close()
        said = self.process.stdout.read().decode().split()
        if self.process.wait() != 0:
            raise RuntimeError(f"{self.process.args[0]} ended with status {self.process.returncode}")
        return int(said[-1]) if said else 0


def load_photographs():
    folder = pathlib.Path(skimage.data.__file__).parent
    photographs = [np.ascontiguousarray(skimage.io.imread(folder / name)[..., :3]) for name in PHOTOS]
    for photograph in photographs:
        assert photograph.dtype == np.uint8 and photograph.ndim == 3
    return photographs


def by_handle(frames, filter_command):
    """The pipeline as it is meant: arrays stay where they are."""
    stages, moved = Stages(), 0
    edges, reducer = Worker(filter_command), Worker("ruby", HERE / "reduce.rb")
    ruby = reducer.line()
    copied_before, results = shmarray.copied_bytes(), []
    for frame in tqdm(frames, desc="by handle      ", unit="photo"):
        photo = stages.run("share (Python)", shmarray.array, frame)
        counts = shmarray.zeros((3, 256), "<u8")
        handles = str(shmarray.handle(photo)), str(shmarray.handle(counts))
        stages.run("filter (C++)", edges.do, handles[0])
        stages.run("count (Ruby)", reducer.do, "\t".join(handles))
        moved += 2 * photo.nbytes + counts.nbytes
        results.append((photo, counts))
    copied = shmarray.copied_bytes() - copied_before + edges.end() + reducer.end()
    return results, stages.seconds, moved, copied, ruby


def by_pickle(frames, filter_command):
    """The same work, with pickled bytes through pipes."""
    stages, results, moved = Stages(), [], 0
    edges, reducer = Worker(filter_command, "--bytes"), Worker("ruby", HERE / "reduce.rb", "--bytes")
    reducer.line()

    def send(worker, frame):
        worker.tell(b"%d %d\n" % frame.shape[:2] + pickle.dumps(frame.tobytes(), protocol=5))

    def filtered(frame):
        send(edges, frame)
        return np.frombuffer(pickle.load(edges.process.stdout), np.uint8).reshape(frame.shape)

    def counted(frame):
        send(reducer, frame)
        return np.frombuffer(reducer.process.stdout.read(3 * 256 * 8), "<u8").reshape(3, 256)

    for frame in tqdm(frames, desc="by pickled pipe", unit="photo"):
        photo = stages.run("filter (C++)", filtered, frame)
        counts = stages.run("count (Ruby)", counted, photo)
        moved += 3 * photo.nbytes + counts.nbytes
        results.append((photo, counts))
    edges.end(), reducer.end()
    return results, stages.seconds, moved


def check(frames, handled, pickled):
    """Both ways have the same pixels and counts, and the counts are NumPy's."""
    for frame, (photo, counts), (other_photo, other_counts) in zip(frames, handled, pickled, strict=True):
        assert photo.shape == frame.shape and not np.array_equal(photo, frame)
        np.testing.assert_array_equal(photo, other_photo)
        np.testing.assert_array_equal(counts, other_counts)
        np.testing.assert_array_equal(counts[1], np.bincount(photo[..., 1].ravel(), minlength=256))


def draw(photographs, results, path):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, rows = plt.subplots(len(photographs), 3, figsize=(12, 3.1 * len(photographs)), layout="constrained")
    titles = ("input: shared by Python", "edges: in place, by C++", "values of the edges: counted by Ruby")
    for row, photograph, (edges, counts) in zip(rows, photographs, results, strict=False):
        for axes, picture in zip(row[:2], (photograph, edges), strict=True):
            axes.imshow(picture)
            axes.axis("off")
        for channel, colour in enumerate(("tab:red", "tab:green", "tab:blue")):
            row[2].step(range(256), np.maximum(counts[channel], 0.5), colour, where="mid", lw=1)
        row[2].set(yscale="log", ylim=(0.5, None), xlim=(0, 255), xlabel="value", ylabel="pixels")
    for axes, title in zip(rows[0], titles, strict=True):
        axes.set_title(title)
    figure.savefig(path, dpi=80)


def print_table(frames, ruby, handled, pickled):
    (_, by_handle_seconds, moved, copied, _), (_, by_pickle_seconds, through_pipes) = handled, pickled
    print(f"\n{len(frames)} photographs, {sum(frame.nbytes for frame in frames) / 1e6:.1f} MB; Ruby counts with {ruby}")
    print(f"{'':34}{'by handle':>14}{'pickled pipe':>14}")
    print(f"{'array bytes handed over by handle':34}{moved:14,}{0:14,}")
    print(f"{'array bytes copied by the library':34}{copied:14,}{0:14,}")
    print(f"{'array bytes through pipes':34}{0:14,}{through_pipes:14,}")
    for stage in by_handle_seconds:
        other = by_pickle_seconds.get(stage)
        print(
            f"{stage:34}{by_handle_seconds[stage] * 1e3:11.1f} ms"
            + (f"{other * 1e3:11.1f} ms" if other else f"{'-':>14}")
        )
    totals = sum(by_handle_seconds.values()), sum(by_pickle_seconds.values())
    print(
        f"{'all stages':34}{totals[0] * 1e3:11.1f} ms{totals[1] * 1e3:11.1f} ms   ({totals[1] / totals[0]:.2f} times)"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--filter", required=True, help="the compiled filter.cpp")
    parser.add_argument("--picture", default="pipeline.png", help="where the picture goes")
    parser.add_argument("--quick", action="store_true", help="each photograph once")
    options = parser.parse_args()
    photographs = load_photographs()
    frames = photographs * (1 if options.quick else 10)
    handled = by_handle(frames, options.filter)
    pickled = by_pickle(frames, options.filter)
    check(frames, handled[0], pickled[0])
    draw(photographs, handled[0], options.picture)
    print_table(frames, handled[4], handled, pickled)
    print(f"picture: {options.picture}")


if __name__ == "__main__":
    main()
