"""NumPy's, pandas' or xarray's own tests of pickling, with shmarray's in the place of pickle's.

    python bindings/python/foreign/pickling.py numpy|pandas|xarray [--all]

The tests are those that the package has installed. Without --all, tests of pandas are left out that
do the same again. What differs is listed in PACKAGE_pickling.toml.

Those tests are chosen whose code says "pickle", and those are counted that sent something. Each
runs once in each of the WAYS. What pickle itself wrote, pickle loads. A run fails, too, when
something is left in shared memory, or when nothing went there.
"""

import contextlib
import importlib
import inspect
import pickle
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from by_pytest import OPTIONS, WAY, left_in, own_directory, release, way_of
from differences import Differences

import shmarray
import shmarray.multiprocessing as mp
from shmarray._codec import _pickler


@dataclass
class Suite:
    """The tests of a package that have to do with pickling."""

    package: ModuleType
    users: Sequence[ModuleType] = ()
    """Modules of the package itself that pickle for its tests."""
    without: str = "(?!)"
    """Files and tests that this pattern finds do not run."""
    options: Sequence[str] = ()
    """Further ones of pytest."""

    def has(self, name: str, code: str = "pickle") -> bool:
        """Returns whether a file or test of this name and code has to do with pickling."""
        return "pickle" in code and not re.search(self.without, name)

    def arguments(self) -> list[str]:
        """Arguments of pytest."""
        root = Path(str(self.package.__file__)).parent
        paths = sorted(root.rglob("tests/**/test_*.py"))
        files = [
            str(path) for path in paths if self.has(str(path.relative_to(root)), path.read_text())
        ]
        return [*OPTIONS, *self.options, "--rootdir", str(root.parent), *files]


class Substitute:
    """The module pickle with our functions for writing."""

    def __init__(self) -> None:
        self.sent = 0
        self.wrote: set[bytes] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(pickle, name)

    def dumps(self, obj: object, protocol: int | None = None, **options: Any) -> bytes:
        if "buffer_callback" in options:
            return pickle.dumps(obj, protocol, **options)  # the test handles the memory by itself
        self.sent += 1
        data = self._write(obj)
        self.wrote.add(data)
        return data

    def loads(self, data: Any, /, **options: Any) -> Any:
        return self._read(data) if data in self.wrote else pickle.loads(data, **options)

    def dump(self, obj: object, file: Any, protocol: int | None = None) -> None:
        file.write(self.dumps(obj, protocol))

    def load(self, file: Any, **options: Any) -> Any:
        return self.loads(file.read(), **options)

    def _write(self, obj: object) -> bytes:
        return shmarray.dumps(obj)

    def _read(self, data: bytes) -> Any:
        return shmarray.loads(data)

    def close(self) -> None:
        """Releases messages that were not loaded."""
        for data in self.wrote:
            shmarray.discard(data)


class AllShared(Substitute):
    """Small arrays travel by shared memory, too, in messages that can be loaded again."""

    def _write(self, obj: object) -> bytes:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_pickler.ArrayPickler, "LARGE_BYTES", 1)
            patch.setattr(_pickler.ArrayPickler, "SMALL_BYTES", 0)
            patch.setattr(_pickler, "_idle", {})
            return shmarray.dumps(obj, persist=True)


class ThroughPipe(Substitute):
    """Sends objects through a Pipe of shmarray.multiprocessing. The bytes only say which one."""

    LOADS = 3
    """How often a test may load the same bytes."""

    def __init__(self) -> None:
        super().__init__()
        self._receiver = ThreadPoolExecutor(1)
        self._objects = dict[bytes, list[Future[Any]]]()

    def _write(self, obj: object) -> bytes:
        receiver, sender = mp.Pipe(duplex=False)
        received = [
            self._receiver.submit(receiver.recv) for _ in range(self.LOADS)
        ]  # a full pipe waits for them
        received.append(self._receiver.submit(receiver.close))
        with sender:
            for _ in range(self.LOADS):
                sender.send(obj)
        data = str(len(self._objects)).encode() + b" of a Pipe"
        self._objects[data] = received
        return data

    def _read(self, data: bytes) -> Any:
        return self._objects[data].pop(0).result()

    def close(self) -> None:
        self._receiver.shutdown()
        self._objects.clear()


WAYS = {"dumps": Substitute, "dumps all shared": AllShared, "Pipe": ThroughPipe}


class Runner:
    """A plugin of pytest: chooses the tests, substitutes, and counts."""

    def __init__(self, suite: Suite) -> None:
        self.outcomes: dict[str, str] = {}
        self._suite = suite
        self._ways = {name: way() for name, way in WAYS.items()}

    def close(self) -> None:
        """Releases what the tests sent."""
        for way in self._ways.values():
            way.close()

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if self._suite.has(metafunc.function.__name__, inspect.getsource(metafunc.function)):
            metafunc.fixturenames.append(WAY)
            metafunc.parametrize(WAY, WAYS)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if way_of(item) and self._suite.has(item.name)]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.outcomes[report.nodeid] = "failed"

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Iterator[Any]:
        way = self._ways[way_of(pyfuncitem)]
        way.sent = 0
        outcome = "passed"
        with self._in_place(way, pyfuncitem.module):
            try:
                return (yield)
            except pytest.skip.Exception as skip:
                outcome = f"skipped: {skip.msg}"
                raise
            finally:
                if way.sent:
                    self.outcomes[pyfuncitem.nodeid] = outcome

    @contextlib.contextmanager
    def _in_place(self, way: Substitute, module: ModuleType) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "pickle", way)
            for user in (module, *self._suite.users):
                for name in [name for name, value in vars(user).items() if value is pickle]:
                    patch.setattr(user, name, way)
            yield


def _is_full() -> bool:
    """Returns whether no array finds room."""
    try:
        shmarray.zeros(1 << 20)
    except MemoryError:
        return True
    return False


NO_FILES = r"pytables|test_http_headers|compression"
"""Files of pandas about PyTables, servers, and how small a file becomes."""
AGAIN = r"pandas_proto_(highest|\d)"
"""Tests of pandas that do the same with another protocol of pickle: ours has one."""


def suite_of(name: str, has_all: bool) -> Suite:
    package = importlib.import_module(name)
    if name != "pandas":
        return Suite(package)
    without = NO_FILES if has_all else f"{NO_FILES}|{AGAIN}"
    users = [importlib.import_module("pandas.io.pickle")]  # read_pickle and to_pickle
    options = ["--no-strict-data-files"]  # the wheel has none of them
    return Suite(package, users, without, options)


def main(name: str, *options: str) -> int:
    """Runs the tests of a package by each way, and judges their outcomes."""
    suite = suite_of(name, "--all" in options)
    with own_directory() as directory:
        runner = Runner(suite)
        pytest.main(suite.arguments(), plugins=[runner])
        runner.close()
        release()
        verdicts = [*runner.outcomes.items(), *left_in(directory)]
    if not shmarray.copied_bytes() and not _is_full():
        verdicts.append(("Nothing of theirs went by shared memory.", "failed"))
    return Differences(Path(__file__).with_name(f"{name}_pickling.toml")).judge(verdicts)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
