"""The modules of the Python package form no circle, and its folders form a line.

Each folder of LAYERS imports from the package's own modules and from the folders before it, never
from one after it. Every `import` counts, wherever it stands, except under `if TYPE_CHECKING:`.
`from .x import name` is an import of the module x, or of x.name where that is a module.
"""

import ast

from parsing.circles import circles
from tree import Finding

SOURCE = "bindings/python/python"
LAYERS = ("_codec", "_ipc", "_workers", "multiprocessing", "concurrent", "joblib", "dask")


def check(tree):
    files = {module_of(path): path for path in tree.under(SOURCE, ".py", ".pyi")}
    imports = {}  # (module, module it imports): line
    for module, path in files.items():
        if path.endswith(".pyi"):
            continue  # the stub of a compiled module
        for used, line in imported(ast.parse(tree.text(path)), module, path, files):
            if used != module:
                imports.setdefault((module, used), line)
    modules = circles(imports)
    folders = circles((entry(a), entry(b)) for a, b in imports if entry(a) != entry(b))
    for (module, used), line in sorted(imports.items()):
        what = f"{module} imports {used}"
        why = reason(module, used, modules, folders)
        yield Finding(files[module], line, what, f"{what}, {why}") if why else None


def module_of(path):
    parts = path.removeprefix(f"{SOURCE}/").rpartition(".")[0].split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def entry(module):
    """The folder or module of the top level that a module belongs to."""
    return ".".join(module.split(".")[:2])


def reason(module, used, modules, folders):
    """Why the one may not import the other, or None."""
    if any({module, used} <= group for group in modules):
        return "which leads back to it: a circle"
    layers = [layer_of(module), layer_of(used)]
    if None not in layers and layers[0] < layers[1]:
        return f"and {LAYERS[layers[1]]} stands above {LAYERS[layers[0]]}"
    entries = {entry(module), entry(used)}
    if len(entries) > 1 and any(entries <= group for group in folders):
        return "whose folder leads back to this one: a circle"
    return None


def layer_of(module):
    folder = module.split(".")[1:2]
    return LAYERS.index(folder[0]) if folder and folder[0] in LAYERS else None


def imported(node, module, path, files):
    """The package's modules that the syntax tree imports, each with its line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            children = child.orelse
            for other in children:
                yield from imported(other, module, path, files)
            continue
        if isinstance(child, ast.Import):
            names = [name.name for name in child.names]
            yield from ((name, child.lineno) for name in names if name in files)
        elif isinstance(child, ast.ImportFrom):
            yield from from_import(child, module, path, files)
        yield from imported(child, module, path, files)


def from_import(node, module, path, files):
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    base = ".".join(filter(None, (package if node.level else "", node.module)))
    for name in node.names:
        whole = f"{base}.{name.name}"
        used = whole if whole in files else base
        if used in files:
            yield used, node.lineno
