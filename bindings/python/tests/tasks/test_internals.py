"""Tasks use of the package what is public, and the private names that `_internals` lists."""

import ast
import pathlib

import shmarray
from shmarray._tasks import _internals

PACKAGE = pathlib.Path(shmarray.__file__).parent
FOLDERS = ("_tasks", "multiprocessing", "concurrent", "joblib", "dask")


def nodes():
    """Yields the nodes of all sources of tasks, each with how deep in the package its file is."""
    for folder in FOLDERS:
        for path in (PACKAGE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                yield len(path.relative_to(PACKAGE).parts), node


def test_every_private_name_that_is_listed_is_used():
    used = {
        node.attr
        for _, node in nodes()
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "_internals"
    }
    assert used == {*_internals.__all__}


def test_what_is_imported_of_the_package_itself_is_public():
    """import-linter compares modules. It sees neither these names nor those of `_internals`."""
    imported = {
        name.name
        for depth, node in nodes()
        if isinstance(node, ast.ImportFrom) and node.module is None and node.level == depth
        for name in node.names
    }
    assert imported - {*shmarray.__all__} == {"multiprocessing", "_replaced"}
