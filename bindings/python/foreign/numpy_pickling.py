"""NumPy's own tests of pickling, with shmarray.dumps and shmarray.loads in the place of pickle's.

    python bindings/python/foreign/numpy_pickling.py

Those are chosen whose code says "pickle", and those are counted that sent something. It fails
when one fails that is not in the table of README.md, or one in it passes; when something is left in shared
memory; and when nothing ran.
"""

import collections
import gc
import inspect
import os
import pickle
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import shmarray
from shmarray import _pickling

# Tests that are to fail: those in the table of the README. All of one parametrization are one.
README = Path(__file__).with_name("README.md").read_text()
DIFFERENCES = set(re.findall(r"^\| `(numpy/\S+)` \|", README, re.M))


class Substitute:
    """The module pickle, but what it writes is ours. What pickle wrote, it loads as pickle does."""

    def __init__(self):
        self.sent = 0
        self.messages = []

    def __getattr__(self, name):
        return getattr(pickle, name)

    def dumps(self, obj, protocol=None, **options):
        if "buffer_callback" in options:
            return pickle.dumps(obj, protocol, **options)  # the test has a way of its own for the memory
        self.sent += 1
        self.messages.append(shmarray.dumps(obj))
        return self.messages[-1]

    def loads(self, data, /, **options):
        return shmarray.loads(data) if data.startswith(b"shmarray") else pickle.loads(data, **options)

    def dump(self, obj, file, protocol=None):
        file.write(self.dumps(obj, protocol))

    def load(self, file, **options):
        return self.loads(file.read(), **options)


class Runner:
    """A plugin of pytest: chooses the tests, substitutes, and counts."""

    def __init__(self):
        self.pickle = Substitute()
        self.outcomes = {}

    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if "pickle" in inspect.getsource(item.function)]

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        self.pickle.sent = 0
        outcome = "passed"
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "pickle", self.pickle)
            for name in [name for name, value in vars(pyfuncitem.module).items() if value is pickle]:
                patch.setattr(pyfuncitem.module, name, self.pickle)
            try:
                return (yield)
            except pytest.skip.Exception:
                outcome = "skipped"
                raise
            except BaseException:
                outcome = "failed"
                raise
            finally:
                if self.pickle.sent or outcome == "failed":
                    self.outcomes[pyfuncitem.nodeid] = outcome


def run(directory):
    """What became of each test, and what they left in shared memory."""
    os.environ["SHMARRAY_DIR"] = directory
    _pickling.LARGE_BYTES = 1  # most of their arrays are small, and are to go by shared memory, too
    root, runner = Path(np.__file__).parent, Runner()
    files = [str(path) for path in sorted(root.rglob("tests/test_*.py")) if "pickle" in path.read_text()]
    options = ["-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:warnings", "-c", os.devnull]
    pytest.main([*options, "--rootdir", str(root.parent), *files], plugins=[runner])
    for message in runner.pickle.messages:
        shmarray.discard(message)  # of which some were not to be loaded
    gc.collect()
    return runner.outcomes, [name for name in os.listdir(directory) if "registry" not in name]


def main():
    with tempfile.TemporaryDirectory(prefix="shmarray-foreign-") as directory:
        outcomes, left = run(directory)
    failed = {test for test, outcome in outcomes.items() if outcome == "failed"}
    differing = {test for test in outcomes if test.split("[")[0] in DIFFERENCES}
    wrong = [f"{test}: failed" for test in sorted(failed - differing)]
    expected = {test.split("[")[0] for test in failed & differing}
    wrong += [f"{test}: is no difference any more" for test in sorted(DIFFERENCES - expected)]
    wrong += [f"left in shared memory: {name}" for name in left]
    if not (outcomes and shmarray.copied_bytes()):
        wrong.append("none of NumPy's tests ran, or nothing of theirs went by shared memory")
    for line in wrong:
        print("FAILED", line)
    counts = collections.Counter(outcomes.values())
    print(f"{len(failed & differing)} differ, as bindings/python/foreign/README.md says")
    print(f"NumPy's tests of pickling: {counts['passed']} passed, {len(wrong)} failed, {counts['skipped']} skipped")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
