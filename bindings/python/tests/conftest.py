"""A SHMARRAY_DIR of its own for each test, empty again at its end, and other processes."""

import gc
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SHARED_MEMORY = Path("/dev/shm")

PEER = """
import gc, json, sys
import numpy as np
import shmarray
space = {"np": np, "shmarray": shmarray, "gc": gc}
for line in sys.stdin:
    exec(json.loads(line), space)
    print(json.dumps(space.pop("answer", None)), flush=True)
"""


@pytest.fixture(autouse=True)
def directory(monkeypatch):
    """Where this test's segments live; whatever it leaves there is a failure."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="shmarray-test-", dir=parent) as path:
        monkeypatch.setenv("SHMARRAY_DIR", path)
        yield Path(path)
        gc.collect()
        assert files_in(path) == [], "segments or names were left"


def files_in(path):
    """The files there, without the registry, which is an empty file of locks."""
    return sorted(name for name in os.listdir(path) if not name.startswith("shmarray-registry-"))


@pytest.fixture
def files(directory):
    """What there is in SHMARRAY_DIR now."""
    return lambda: files_in(directory)


class Peer:
    """Another process, which runs what it is told and answers what it sets `answer` to."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PEER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code, **values):
        """Runs code with these values as its variables."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        print(json.dumps("\n".join([*lines, code])), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"the other process died: {self.process.stderr.read()}"
        return json.loads(answer)

    def leave(self):
        """Lets it exit, and sees that it does so quietly."""
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")


@pytest.fixture
def peer():
    """Another process."""
    other = Peer()
    yield other
    if other.process.poll() is None:
        other.leave()


@pytest.fixture
def run_python():
    """Runs a whole program in another process and gives what it printed; it must be quiet."""

    def run(code, *arguments):
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run
