"""Writes the seeds of the fuzz targets from the golden files: python core/fuzz/seeds.py [--check]"""

import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent.parent / "ci/conformance/golden"
# Longer ones only make every mutation slower.
MOST_BYTES = 2000
# What segment_file makes right: nothing but the id, so that each is refused or attached as it is.
AS_IT_IS = b"\x02"
# … or magic, id, state and generation, with the handle that the file describes.
WITH_IDENTITY = bytes([1 | 2 | 4 | 32])


def seeds():
    index = json.loads((GOLDEN / "index.json").read_text())
    for name, handle in handles(index):
        yield f"handle_text/{name}", handle.encode()
    for kind, bits in (("segments", WITH_IDENTITY), ("bad_segments", AS_IT_IS)):
        for path in sorted((GOLDEN / kind).iterdir()):
            yield f"segment_file/{path.name}", bits + path.read_bytes()


def handles(index):
    """Every handle that stands in the index, good or bad."""
    for kind in ("segments", "handles", "bad_handles"):
        for place, row in enumerate(index[kind]):
            text = row.get("handle") or row["text"]
            if len(text) <= MOST_BYTES:
                yield f"{kind}_{place:02}", text


def main():
    wanted = {HERE / "corpus" / name: content for name, content in seeds()}
    if sys.argv[1:] != ["--check"]:
        for path, content in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    there = {path: path.read_bytes() for path in (HERE / "corpus").glob("*/*")}
    different = sorted(path.name for path in wanted | there if wanted.get(path) != there.get(path))
    print(f"{len(wanted)} seeds, {len(different)} differ {' '.join(different)}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
