"""The modules of each folder of Python programs form no circle, the package's own aside.

A program imports the modules beside it by their names, `import a` or `from a.b import c`. Each
name is looked for in the folders above the file. Imports inside of functions count, too.
"""

import ast

from parsing.circles import circles
from tree import Finding

from rules.python_modules import SOURCE


def check(tree):
    paths = [path for path in tree.files(".py") if not path.startswith(f"{SOURCE}/")]
    imports = {}  # (path, path of the module that it imports): line
    for path in paths:
        for name, line in names(ast.parse(tree.text(path))):
            if used := file_of(name, path, {*paths}):
                imports.setdefault((path, used), line)
    inside = circles(imports)
    for (path, used), line in sorted(imports.items()):
        says = f"{path} imports {used}, which leads back to it: a circle"
        is_circle = any({path, used} <= group for group in inside)
        yield Finding(path, line, used, says) if is_circle else None


def names(module):
    """The names that are imported, the longest that a `from` may mean first, each with its line."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from ((name.name, node.lineno) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((f"{node.module}.{name.name}", node.lineno) for name in node.names)


def file_of(name, path, paths):
    """The file of the longest part of the name, in the nearest folder that has one, but `path`."""
    folder = path.rpartition("/")[0]
    while folder:
        parts = name.split(".")
        while parts:
            stem = f"{folder}/{'/'.join(parts)}"
            for file in (f"{stem}.py", f"{stem}/__init__.py"):
                if file in paths and file != path:
                    return file
            parts.pop()
        folder = folder.rpartition("/")[0]
    return None
