"""NumPy's own tests of NPY and NPZ files, with shmarray's functions in the place of NumPy's.

    python bindings/python/foreign/numpy_files.py [--all]

The tests are those in the installed package whose code loads or saves such files. `np.load`,
`np.save`, `np.savez`, `np.savez_compressed` and `numpy.lib.format.read_array` and `write_array` are
ours in the modules of the tests alone, so that shmarray itself may use NumPy's. `load` chooses
between load_npy and load_npz by the first bytes, as NumPy does.

Each test runs once for each of the WAYS, and those are counted that called one of these functions.
The first way is NumPy's own; a test that fails by it says nothing of ours. With --all also those
run that need gigabytes.

What differs is listed in numpy_files.toml.
"""

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from by_pytest import OPTIONS, WAY, left_in, own_directory, release, way_of
from differences import Differences
from numpy.lib import format as npy

import shmarray

CALLS = re.compile(r"\bnp\.(load|save|savez\w*)\b|\bformat\.(read|write)_array\b|roundtrip")
"""What the code of a test that runs has in it."""
FILES = re.compile(r"\bnp\.(load|save|savez\w*)\b|numpy\.lib import format")
LARGE = "test_large_archive or test_big_arrays or test_large_zip"
"""Tests that need gigabytes."""
PLAIN = "NumPy"
"""The first way."""


class Functions:
    """Counts the calls of NumPy's functions."""

    def __init__(self) -> None:
        self.calls = 0

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function, which then counts its calls."""

        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            return function(*args, **options)

        return call

    def of_numpy(self) -> dict[str, Any]:
        """Returns what replaces names of the module numpy."""
        return {name: getattr(np, name) for name in ("load", "save", "savez", "savez_compressed")}

    def of_format(self) -> dict[str, Any]:
        """Returns what replaces names of the module numpy.lib.format."""
        return {"read_array": npy.read_array, "write_array": npy.write_array}

    def modules(self) -> list[tuple[ModuleType, ModuleType]]:
        """Returns the modules, each with the one in its place."""
        replaced = ((np, self.of_numpy()), (npy, self.of_format()))
        return [(module, _InPlace(module, self._all_counted(ours))) for module, ours in replaced]

    def _all_counted(self, functions: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.counted(function) for name, function in functions.items()}


class Ours(Functions):
    """Loads and saves by shmarray, into shared memory or not."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self._shared = shared

    def of_numpy(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "save": self.save,
            "savez": self.savez,
            "savez_compressed": self.savez_compressed,
        }

    def of_format(self) -> dict[str, Any]:
        return {"read_array": self.read_array, "write_array": self.write_array}

    def load(self, file: Any, mmap_mode: Any = None, *args: Any, **options: Any) -> Any:
        if mmap_mode is not None and not _begins_as_archive(file):
            return shmarray.load_npy(file, mmap_mode, *args, **options)
        load = shmarray.load_npz if _begins_as_archive(file) else self._load_npy
        return load(file, mmap_mode, *args, shared=self._shared, **options)

    def read_array(
        self, file: Any, allow_pickle: bool = False, pickle_kwargs: Any = None, **options: Any
    ) -> Any:
        options = {**options, **(pickle_kwargs or {}), "allow_pickle": allow_pickle}
        return self._load_npy(file, shared=self._shared, **options)

    def save(self, file: Any, arr: Any, allow_pickle: bool = True) -> None:
        shmarray.save_npy(file, arr, allow_pickle=allow_pickle)

    def savez(self, file: Any, *args: Any, allow_pickle: bool = True, **named: Any) -> None:
        shmarray.save_npz(file, *args, allow_pickle=allow_pickle, **named)

    def savez_compressed(
        self, file: Any, *args: Any, allow_pickle: bool = True, **named: Any
    ) -> None:
        unnamed = {f"arr_{number}": array for number, array in enumerate(args)}
        members = {**named, **unnamed}
        shmarray.save_npz(file, members, compressed=True, allow_pickle=allow_pickle)

    def write_array(
        self,
        file: Any,
        array: Any,
        version: Any = None,
        allow_pickle: bool = True,
        pickle_kwargs: Any = None,
    ) -> None:
        """Saves by ours, but a version that is asked for by NumPy's."""
        if version is None and not pickle_kwargs:
            shmarray.save_npy(file, array, allow_pickle=allow_pickle)
        else:
            npy.write_array(file, array, version, allow_pickle, pickle_kwargs)

    def _load_npy(self, file: Any, *args: Any, shared: bool, **options: Any) -> Any:
        array = shmarray.load_npy(file, *args, shared=shared, **options)
        if array.size and array.itemsize and not array.dtype.hasobject:
            assert shmarray.is_shared(array) == shared
        return array


class _InPlace(ModuleType):
    """A module with some of its names replaced."""

    def __init__(self, module: ModuleType, replaced: Mapping[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(replaced)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _begins_as_archive(file: Any) -> bool:
    """Returns whether these are the first bytes of an archive, as `numpy.load` looks at them."""
    if not hasattr(file, "read"):
        with open(file, "rb") as opened:
            return opened.read(4) in (b"PK\3\4", b"PK\5\6")
    first = file.read(6)
    if not first:
        raise EOFError("No data left in file")  # as np.load; read_array calls it ValueError
    file.seek(-len(first), 1)
    return first[:4] in (b"PK\3\4", b"PK\5\6")


WAYS: dict[str, Callable[[], Functions]] = {
    PLAIN: Functions,
    "shared": lambda: Ours(shared=True),
    "not shared": lambda: Ours(shared=False),
}


class Runner:
    """A plugin of pytest: chooses the tests, substitutes, and counts."""

    def __init__(self) -> None:
        self.outcomes: dict[tuple[str, str], str] = {}
        """By name of the test and way."""
        self._ways = {name: way() for name, way in WAYS.items()}

    def pytest_generate_tests(self, metafunc: Any) -> None:
        if CALLS.search(inspect.getsource(metafunc.function)):
            metafunc.fixturenames.append(WAY)
            metafunc.parametrize(WAY, WAYS)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if way_of(item)]

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.outcomes[report.nodeid, PLAIN] = "failed"

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Iterator[Any]:
        name = way_of(pyfuncitem)
        functions = self._ways[way_of(pyfuncitem)]
        functions.calls = 0
        outcome = "failed"
        try:
            with _in_place(functions, pyfuncitem.module):
                result = yield
            outcome = "passed"
            return result
        except pytest.skip.Exception as skip:
            outcome = f"skipped: {skip.msg}"
            raise
        finally:
            if functions.calls:
                self.outcomes[_without_way(pyfuncitem), name] = outcome

    def verdicts(self) -> Iterator[tuple[str, str]]:
        """Yields the outcomes of our ways, for tests that pass by NumPy's."""
        for (name, way), outcome in self.outcomes.items():
            plain = self.outcomes.get((name, PLAIN), "")
            if way != PLAIN:
                skipped = "skipped: they do not pass with NumPy either"
                yield f"{name} ({way})", outcome if plain == "passed" else skipped
            elif plain == "failed" and (name, "shared") not in self.outcomes:
                yield name, "failed"  # it could not be read


@contextlib.contextmanager
def _in_place(functions: Functions, module: ModuleType) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for theirs, ours in functions.modules():
            for name in [name for name, value in vars(module).items() if value is theirs]:
                patch.setattr(module, name, ours)
        yield


def _without_way(item: Any) -> str:
    """Returns the name of a test without the parameter with the way."""
    name, _, parameters = item.nodeid.partition("[")
    others = re.sub(rf"(^|-){way_of(item)}(?=-|\]$)", "", parameters).lstrip("-")
    return name if others in ("", "]") else f"{name}[{others}"


def _arguments(large: bool) -> list[str]:
    """Arguments of pytest."""
    root = Path(np.__file__).parent
    paths = sorted(root.rglob("tests/**/test_*.py"))
    files = [str(path) for path in paths if FILES.search(path.read_text())]
    words = [] if large else ["-k", f"not ({LARGE})"]
    return [*OPTIONS, *words, "--rootdir", str(root.parent), *files]


def main(*options: str) -> int:
    with own_directory() as directory:
        runner = Runner()
        pytest.main(_arguments("--all" in options), plugins=[runner])
        release()
        verdicts = [*runner.verdicts(), *left_in(directory)]
    return Differences(Path(__file__).with_suffix(".toml")).judge(verdicts)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
