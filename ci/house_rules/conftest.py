"""A copy of what the rules read, and breaches that are planted in it until a test ends."""

import shutil

import pytest
from planting import COPIED, ROOT
from tree import Tree


@pytest.fixture(scope="session")
def copy(tmp_path_factory):
    """A copy of core, the command line, the Python package, and the table of suites."""
    root = tmp_path_factory.mktemp("copy")
    for path in Tree(ROOT).paths:
        if path.startswith(COPIED):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, root / path)
    return root


@pytest.fixture
def plant(copy):
    """Puts lines into a file of the copy, or a file into it, until the test ends."""
    before = {}

    def into(path, text, at=None):
        """Before line `at`, or at the end. Returns the number of the first planted line."""
        file = copy / path
        file.parent.mkdir(parents=True, exist_ok=True)
        there = file.read_text() if file.exists() else None
        before.setdefault(file, there)
        lines = (there or "").splitlines()
        at = len(lines) + 1 if at is None else at
        lines[at - 1 : at - 1] = text.splitlines()
        file.write_text("\n".join(lines) + "\n")
        return at

    yield into
    for file, text in before.items():
        file.unlink() if text is None else file.write_text(text)
