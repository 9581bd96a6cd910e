"""The files that the rules look at."""

import functools
import pathlib
import re
import subprocess
from typing import NamedTuple

NO_TEXT = {".png", ".jpg", ".gz", ".npy", ".npz"}
GENERATED = (
    "include/shmarray.h",  # by cbindgen
    "ffi/abi/recorded.",  # by ffi/abi/record.py
    "ci/conformance/golden/segments/",
    "ci/conformance/golden/bad_segments/",
    "ci/conformance/golden/index.json",
    "core/tests/npy_corpus/expected.json",  # by make.py beside it
    "ci/measurements/RESULTS.md",
    "ci/measurements/results.json",
)
GENERATED_ENDINGS = (".lock",)
UNIT_TESTS = re.compile(r"^#\[cfg\(test\)\]\nmod tests \{(?:\}$|.*?^\}$)", re.M | re.S)
ALL_OF_RUST = "all of Rust"  # the path of a finding about no file in particular


class Finding(NamedTuple):
    """A breach of a rule."""

    path: str
    line: int
    what: str  # what an exception names: stable when lines move
    says: str


class Tree:
    """A folder that holds this repository or a part of it."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()

    @functools.cached_property
    def paths(self):
        """Every file that git tracks or would track; without git every file."""
        if (self.root / ".git").exists():
            command = ["git", "ls-files", "-co", "--exclude-standard"]
            listed = subprocess.check_output(command, cwd=self.root, text=True).splitlines()
            return [path for path in listed if (self.root / path).is_file()]
        files = (path for path in self.root.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.root)) for path in files)

    def under(self, folder, *endings):
        return [path for path in self.files(*endings) if path.startswith(f"{folder}/")]

    def files(self, *endings):
        return [path for path in self.paths if path.endswith(endings)]

    def written(self):
        """The files of text that people write."""
        for path in self.paths:
            generated = path.startswith(GENERATED) or path.endswith(GENERATED_ENDINGS)
            if not generated and pathlib.Path(path).suffix not in NO_TEXT and self.has_text(path):
                yield path

    def has_text(self, path):
        if (self.root / path).is_symlink():
            return False
        try:
            return "\0" not in self.bytes(path).decode()
        except UnicodeDecodeError:
            return False

    def bytes(self, path):
        return (self.root / path).read_bytes()

    def text(self, path):
        return self.bytes(path).decode()

    def lines(self, path):
        """The lines, by line feeds only."""
        return self.text(path).removesuffix("\n").split("\n")


def without_unit_tests(text):
    """A Rust file without its module of unit tests, whose lines are empty."""
    return UNIT_TESTS.sub(lambda tests: "\n" * tests[0].count("\n"), text)
