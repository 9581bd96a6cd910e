"""Writes the seeds of the fuzz targets, most from the golden files and the corpus of NPY files.

The folder is made anew:

python core/fuzz/seeds.py FOLDER
"""

import itertools
import json
import pathlib
import shutil
import struct
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent.parent / "ci/checks/golden"
NPY_CORPUS = HERE.parent / "tests/behaviour/npy_corpus/files.tar.gz"
# Longer ones only make every mutation slower.
MOST_BYTES = 2000
# What segment_file makes right: nothing but the id, so that each is refused or attached as it is.
AS_IT_IS = b"\x02"
# … or magic, id, state and generation, with the handle that the file describes.
WITH_IDENTITY = bytes([1 | 2 | 4 | 32])
# … or magic and id, with the handle of the first cell, which may be closing in the last epoch
# before they begin again.
FIRST_CELL = bytes([1 | 2 | 64])
# … or magic, state, generation and PERSIST, and not the id: only the name leads to that segment.
FOUND_BY_NAME = bytes([1 | 4 | 16])
# The first byte of channel_file: every correction, and in the upper bits the first operation.
CHANNEL_AS_SHOULD_BE = 1 | 2 | 4 | 8
FIRST = {"send": 0, "receive": 16, "ask": 32}
# The offsets of a channel's mode and payload, and their values.
MODE = 4096
MODES = {"queue": 1, "broadcast": 2, "latest": 3}
PAYLOAD = 4096 + 8
PAYLOADS = {"fixed": 1, "varying": 2, "handles": 3}
HEADS = 4096
LAST_EPOCH = bytes([0xFA]) + bytes([0xFF]) * 7
# The steps of registry_file, and what it puts in the registry's place, in the order of their
# numbers.
STEPS = ["small", "alone", "name", "attach", "drop", "registry", "sweep", "list", "unlink"]
STEPS += ["fork", "look", "child-makes", "child-ends", "kill"]
REGISTRIES = ["ours", "none", "noise", "read-only", "directory"]
REGISTRIES += ["link-to-nothing", "link-to-file", "link-to-directory", "fifo", "more-noise"]


def seeds():
    index = json.loads((GOLDEN / "index.json").read_text())
    for name, handle in handles(index):
        yield f"handle_text/{name}", handle.encode()
    for kind, bits in (("segments", WITH_IDENTITY), ("bad_segments", AS_IT_IS)):
        for path in sorted((GOLDEN / kind).iterdir()):
            yield f"segment_file/{path.name}", bits + path.read_bytes()
    cells = (GOLDEN / "segments/cells").read_bytes()
    yield "segment_file/first_cell", FIRST_CELL + cells
    yield "segment_file/last_epoch", FIRST_CELL + cells[:HEADS] + LAST_EPOCH + cells[HEADS + 8 :]
    named = (GOLDEN / "segments/bool_named").read_bytes()
    yield "segment_file/found_by_name", FOUND_BY_NAME + named
    for path in sorted((GOLDEN / "lists").iterdir()):
        for front in (0, 1):
            yield f"list_bytes/{path.name}-{front}", bytes([front]) + path.read_bytes()
    yield from channel_seeds((GOLDEN / "channels/queue").read_bytes())
    yield from file_seeds()
    for kind, registry in enumerate(REGISTRIES):
        pairs = [(STEPS.index(step), what) for step, what in lives(kind)]
        yield f"registry_file/{registry}", b"".join(map(bytes, pairs))


def channel_seeds(queue):
    """The golden channel in each mode and with each payload, used in each way."""
    for mode, payload, first in itertools.product(MODES, PAYLOADS, FIRST):
        file = bytearray([CHANNEL_AS_SHOULD_BE | FIRST[first]]) + queue
        struct.pack_into("<I", file, 1 + MODE, MODES[mode])
        struct.pack_into("<I", file, 1 + PAYLOAD, PAYLOADS[payload])
        yield f"channel_file/{mode}-{payload}-{first}", bytes(file)


def lives(kind):
    """A child holds, makes, sweeps and dies while the registry is that, and others go on."""
    yield from [
        ("small", 5),
        ("alone", 6),
        ("name", 7),
        ("fork", 0),
        ("registry", 50 + kind),
        ("look", 0),
    ]
    yield from [
        ("child-makes", 9),
        ("drop", 0),
        ("drop", 2),
        ("attach", 0),
        ("kill", 0),
        ("name", 0x88),
    ]
    yield from [("sweep", 0), ("registry", 0), ("unlink", 0x88)]


def file_seeds():
    """The small files of the corpus of NPY files."""
    with tarfile.open(NPY_CORPUS) as corpus:
        for member in corpus:
            path = pathlib.Path(member.name)
            data = corpus.extractfile(member).read()
            if len(data) <= MOST_BYTES:
                # An archive is tried as it is, and with the CRCs and headers that it should have.
                is_npy = path.suffix == ".npy"
                fronts = {"": b""} if is_npy else {"": b"\0", "-corrected": b"\3"}
                for name, front in fronts.items():
                    yield f"{path.suffix[1:]}_file/{path.stem}{name}", front + data


def handles(index):
    """Every handle that stands in the index, good or bad."""
    for kind in ("segments", "handles", "bad_handles"):
        for place, row in enumerate(index[kind]):
            text = row.get("handle") or row["text"]
            if len(text) <= MOST_BYTES:
                yield f"{kind}_{place:02}", text


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in seeds():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
