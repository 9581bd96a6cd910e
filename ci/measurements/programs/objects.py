"""A worker hands one object with 100 fields of float32 to its parent, as in PyTorch's report.
Prints the seconds.

    python objects.py ours|pipe|pickle5 dataset|frame ROWS
"""

import importlib
import json
import pathlib
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import peers  # noqa: E402

FIELDS = 100
COLUMNS = 1400


def dataset(rows):
    import xarray

    return xarray.Dataset(
        {f"f{n}": (("y", "x"), np.full((rows, COLUMNS), n, "f4")) for n in range(FIELDS)}
    )


def frame(rows):
    import pandas

    return pandas.DataFrame({f"f{n}": np.full(rows * COLUMNS, n, "f4") for n in range(FIELDS)})


def total(obj):
    return float(sum(obj[name].to_numpy()[..., -1].sum(dtype="f8") for name in obj))


KINDS = {"dataset": dataset, "frame": frame}


def worker(peer, pipe, kind, rows):
    obj = KINDS[kind](rows)
    pipe.send("made")
    pipe.recv()
    pipe.send(peer.pack(obj))


def main(who, kind, rows):
    importlib.import_module({"dataset": "xarray", "frame": "pandas"}[kind])
    peer = peers.make(who)
    peer.prepare()
    pipe, there = peer.mp.Pipe()
    process = peer.mp.get_context("fork").Process(target=worker, args=(peer, there, kind, rows))
    process.start()
    pipe.recv()
    began = time.perf_counter()
    pipe.send("go")
    obj, close = peer.take(pipe.recv())
    seen = total(obj)
    seconds = time.perf_counter() - began
    if seen != (rows if kind == "dataset" else 1) * sum(range(FIELDS)):
        sys.exit(f"the parent saw {seen}")
    print(json.dumps(seconds))
    del obj
    if close:
        close()
    process.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
