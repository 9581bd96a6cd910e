"""The modules of the Python package form no circle, and stand in layers.

LAYERS is the order of ARCHITECTURE.md. A module imports from its own layer's modules and from the
layers before it, never from one after it; _workers imports from _ipc alone of the folders. Every
module of the top level has a layer. Every `import` counts, wherever it stands, and so does a
constant name that is given to `import_module` or `__import__` or looked up in `sys.modules`; only
what is under `if TYPE_CHECKING:`, exactly so, does not. `from .x import name` is an import of the
module x, or of x.name where that is a module, and of the packages that it lies in. Not seen are
attributes of the package, such as `shmarray.joblib` after `import shmarray`.
"""

import ast
import re

from parsing.circles import circles
from tree import Finding

SOURCE = "bindings/python/python"
LAYERS = (
    {"_dtypes"},
    {"_core"},
    {"_error", "_family", "_shortage", "_wire"},
    {"_codec"},
    {"_create", "_share", "_dumps", "_by_handle", "_files", "_channel"},
    {"_ipc"},
    {"_workers"},
    {"multiprocessing"},
    {"concurrent"},
    {"joblib"},
    {"dask"},
    {"__init__", "__main__"},
)
ONLY_FOR_TYPES = {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
BY_NAME = re.compile(r"\b(?:import_module|__import__|sys\.modules(?:\.get)?)$")
RULE = "ci/house_rules/rules/python_modules.py"
NOT_BY = {"_workers": {"_codec"}}  # what a layer leaves to one between


def check(tree):
    files = {module_of(path): path for path in tree.under(SOURCE, ".py", ".pyi")}
    imports = {}  # (module, module it imports): line
    for module, path in files.items():
        if path.endswith(".pyi"):
            continue  # the stub of a compiled module
        if layer_of(module) is None:
            yield Finding(path, 1, module, f"{module} has no layer in {RULE}")
        for name, line in imported(ast.parse(tree.text(path)), module, path, files):
            for used in with_packages(name, module, files):
                imports.setdefault((module, used), line)
    yield from layers_without_module(files)
    yield from in_order(files, imports)


def in_order(files, imports):
    modules = circles(imports)
    folders = circles((entry(a), entry(b)) for a, b in imports if entry(a) != entry(b))
    for (module, used), line in sorted(imports.items()):
        what = f"{module} imports {used}"
        why = reason(module, used, modules, folders)
        yield Finding(files[module], line, what, f"{what}, {why}") if why else None


def layers_without_module(files):
    """A finding for each name of LAYERS that no module has, if the package is there."""
    there = {name_of(module) for module in files}
    for name in sorted(set().union(*LAYERS) - there if there else ()):
        yield Finding(RULE, 1, name, f"LAYERS names {name}, which the package does not have")


def with_packages(name, module, files):
    """The module of the name, and the packages that run when it is imported.

    Not those that the importing module lies in, which run before it, and in part.
    """
    parts = name.split(".")
    for length in range(len(parts), 1, -1):
        used = ".".join(parts[:length])
        if used in files and not f"{module}.".startswith(f"{used}."):
            yield used


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
        return f"and {name_of(used)} stands above {name_of(module)}"
    if name_of(used) in NOT_BY.get(name_of(module), ()):
        return f"and {name_of(module)} does not use {name_of(used)}"
    entries = {entry(module), entry(used)}
    if len(entries) > 1 and any(entries <= group for group in folders):
        return "whose folder leads back to this one: a circle"
    return None


def name_of(module):
    """The name at the top level of the package that a module belongs to."""
    return [*module.split(".")[1:], "__init__"][0]


def layer_of(module):
    name = name_of(module)
    return next((index for index, layer in enumerate(LAYERS) if name in layer), None)


def imported(node, module, path, files):
    """The package's modules that the syntax tree imports, each with its line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) in ONLY_FOR_TYPES:
            child = ast.Module(child.orelse, [])
        if isinstance(child, ast.Import):
            yield from ((name.name, child.lineno) for name in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from from_import(child, module, path, files)
        elif isinstance(child, ast.Call | ast.Subscript):
            yield from by_name(child, module, path)
        yield from imported(child, module, path, files)


def by_name(node, module, path):
    """The module that a call or subscript names by a constant."""
    by, *given = [node.func, *node.args] if isinstance(node, ast.Call) else [node.value, node.slice]
    if BY_NAME.search(ast.unparse(by)) and given and isinstance(given[0], ast.Constant):
        name = str(given[0].value)
        dots = len(name) - len(name.lstrip("."))
        yield absolute(name[dots:], dots, module, path), node.lineno


def from_import(node, module, path, files):
    base = absolute(node.module, node.level, module, path)
    for name in node.names:
        whole = f"{base}.{name.name}"
        yield whole if whole in files else base, node.lineno


def absolute(name, dots, module, path):
    package = module if path.endswith("__init__.py") else module.rpartition(".")[0]
    for _ in range(dots - 1):
        package = package.rpartition(".")[0]
    return ".".join(filter(None, (package if dots else "", name)))
