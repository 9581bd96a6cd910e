"""NumPy's own tests of pickling, with shmarray.dumps and shmarray.loads in the place of pickle's.

    python bindings/python/foreign/numpy_pickling.py

Those are chosen whose code says "pickle", and those are counted that sent something. What differs is
listed in numpy_pickling.toml. It fails, too, when something is left in shared memory, or nothing went there.
"""

import gc
import inspect
import os
import pickle
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from differences import Differences

import shmarray
from shmarray import _messages, _pickling


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
        return shmarray.loads(data) if data.startswith(_messages._MAGIC) else pickle.loads(data, **options)

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
            except pytest.skip.Exception as skip:
                outcome = f"skipped: {skip.msg}"
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
    shmarray.sweep()  # what is only kept for reuse
    return runner.outcomes, [name for name in os.listdir(directory) if "registry" not in name]


def main():
    with tempfile.TemporaryDirectory(prefix="shmarray-foreign-") as directory:
        outcomes, left = run(directory)
    verdicts = [*outcomes.items(), *((f"{name} is left in shared memory", "failed") for name in left)]
    if not shmarray.copied_bytes():
        verdicts.append(("Nothing of theirs went by shared memory.", "failed"))
    return Differences(Path(__file__).with_suffix(".toml")).judge(verdicts)


if __name__ == "__main__":
    sys.exit(main())
