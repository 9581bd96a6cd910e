"""The modules of the package form a line: each imports only what is below it.

Every form of import counts: absolute and relative, in functions and below ``TYPE_CHECKING``, and
``import_module`` with a literal name.
"""

import ast
import graphlib
import importlib.util
import pathlib
import shutil

import pytest

import shmarray

PACKAGE = pathlib.Path(shmarray.__file__).parent
LAYERS = (
    {"_dtypes"},  # the Rust module imports it
    {"_core"},
    {"_error", "_family", "_shortage", "_wire"},
    {"_codec"},
    {"_by_handle", "_channel", "_create", "_dumps", "_files", "_share"},
    {"_ipc"},
    {"_workers"},
    {"multiprocessing"},
    {"concurrent"},
    {"joblib"},
    {"dask"},
    {"__init__", "__main__"},
)
"""From the lowest up. A folder is one entry."""
LAYER_OF = {entry: number for number, entries in enumerate(LAYERS) for entry in entries}
MAY_BE_CIRCULAR = {"multiprocessing"}
"""The contexts of the standard package import its modules in their methods, and these import the
contexts: so do ours, which have the same names.
"""


def modules(package):
    """Returns the modules of a copy of the package by their dotted names; ``_core`` by its stub."""
    paths = [*package.rglob("*.py"), *package.glob("*.pyi")]
    return {name_of(path.relative_to(package)): path for path in paths}


def name_of(path):
    parts = ("shmarray", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(name, path, known):
    """Yields the modules of the package that a module imports."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            members = [f"{start}.{alias.name}" for alias in node.names]
            found = [member if member in known else start for member in members]
        elif isinstance(node, ast.Call) and is_import_call(node):
            found = [importlib.util.resolve_name(node.args[0].value, package)]
        else:
            continue
        yield from (one for one in found if one.partition(".")[0] == "shmarray")


def is_import_call(node):
    function = node.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    literal = node.args and isinstance(node.args[0], ast.Constant)
    return called in ("import_module", "__import__") and literal


def entry_of(name):
    """Returns the entry of `LAYERS` that a module belongs to."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def violations(package):
    """Yields each import of something above, and the circles within folders."""
    known = modules(package)
    uses = {name: set(imported(name, path, known)) for name, path in known.items()}
    for name, used in uses.items():
        layer = LAYER_OF.get(entry_of(name))
        if layer is None:
            yield f"{name} is in no layer"
            continue
        for other in sorted(used):
            if LAYER_OF.get(entry_of(other), len(LAYERS)) > layer:
                yield f"{name} imports {other}, which is above it"
    for entry in sorted(LAYER_OF.keys() - MAY_BE_CIRCULAR):
        try:
            graphlib.TopologicalSorter(within(entry, uses)).prepare()
        except graphlib.CycleError as error:
            yield f"a circle: {' → '.join(error.args[1])}"


def within(entry, uses):
    """Returns the imports of the modules of an entry from one another."""
    inside = {name for name in uses if entry_of(name) == entry}
    return {name: (uses[name] & inside) - {name} for name in inside}


def test_each_module_imports_only_what_is_below_it():
    assert len(modules(PACKAGE)) > 50
    assert list(violations(PACKAGE)) == []


def test_each_entry_of_the_layers_exists_and_is_used():
    assert {entry_of(name) for name in modules(PACKAGE)} | {"__init__"} == LAYER_OF.keys()


def test_multiprocessing_has_only_modules_that_the_standard_package_has():
    standard = pathlib.Path(importlib.util.find_spec("multiprocessing").origin).parent
    ours = {path.name for path in (PACKAGE / "multiprocessing").glob("*.py")}
    assert ours - {path.name for path in standard.rglob("*.py")} - {"dummy.py"} == set()


PLANTED = {
    "absolute": ("_codec/_parts.py", "import shmarray._ipc._fds"),
    "absolute, from": ("_codec/_parts.py", "from shmarray._workers import Task"),
    "relative": ("_ipc/_locks.py", "from .._workers._task import Task"),
    "relative, a package": ("_ipc/_locks.py", "from .. import concurrent"),
    "from the package itself": ("_workers/_task.py", "from .. import dumps"),
    "with another name": ("_share.py", "from . import joblib as j"),
    "in a function": ("_dumps.py", "def f():\n    from .multiprocessing import queues"),
    "for type checkers": (
        "_workers/_task.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..concurrent import Future",
    ),
    "by import_module": (
        "_error.py",
        "import importlib\nimportlib.import_module('shmarray._share')",
    ),
    "by __import__": ("_error.py", "__import__('shmarray.joblib')"),
    "a circle": ("_ipc/_fds.py", "def f():\n    from ._lock_tokens import Token"),
    "a circle of a module and its package": ("_codec/__init__.py", "from ._parts import Parts"),
    "a module in no layer": ("_stray.py", ""),
}


@pytest.mark.parametrize(("path", "line"), PLANTED.values(), ids=PLANTED)
def test_a_planted_import_is_refused(path, line, tmp_path):
    copy = tmp_path / "shmarray"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    if path == "_codec/__init__.py":  # a circle needs two
        with (copy / "_codec/_parts.py").open("a") as file:
            file.write("\nfrom . import View\n")
    with (copy / path).open("a") as file:
        file.write(f"\n{line}\n")
    assert len(list(violations(copy))) == 1
