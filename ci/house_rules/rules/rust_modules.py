"""The modules of each Rust crate form a line in every folder, and no circle anywhere.

The `mod` lines of a folder's `mod.rs` (or `lib.rs`) are the order. A module uses only those that
are listed before it, and its own children. It may use what a module above it defines only if that
does not use it in turn. `use` counts in every form, and so do paths in expressions and types. A
re-export counts as a use for the module behind it; the re-exporting module itself uses the name
only if it stands in its code, too.

The crates are those with a `src/lib.rs`. Refused is whatever hides a module or a name from this
rule: `use` of everything in a module of the crate, a file that no `mod` names, `include!`, a module
inside of a function, a path that a macro completes. Calls of methods are not seen, nor are the
modules of programs and of tests.
"""

from parsing.circles import circles
from parsing.resolve import is_within, targets
from parsing.rust_modules import read_crate
from tree import Finding

LIBRARY = "src/lib.rs"


def check(tree):
    for file in tree.files(LIBRARY):
        source = file.removesuffix("/lib.rs")
        modules = read_crate(tree.root, source)
        yield from check_crate(modules)
        yield from files_without_mod(tree, source, modules)


def files_without_mod(tree, source, modules):
    """A finding for each file that is no module. Modules of tests are named after them."""
    read = {module.file for module in modules.values()}
    for path in tree.under(source, ".rs"):
        is_test = "test" in path.removeprefix(source)
        if path not in read and not is_test and not path.endswith("/main.rs"):
            yield Finding(path, 1, path, "no `mod` names this file")


def check_crate(modules):
    edges = {}  # (module, module it uses): line
    for module in modules.values():
        for name, line, why in module.unread:
            yield Finding(module.file, line, name, why)
        yield from globs(modules, module)
        for path, line in paths_of(module):
            for target in targets(modules, module, path) - {module.path}:
                edges.setdefault((module.path, target), line)
    inside = [{*group} for group in circles(edges)]
    for (user, used), line in sorted(edges.items()):
        yield breach(modules, user, used, line, inside)


def globs(modules, module):
    for use in module.uses:
        if use.path[-1] == "*" and targets(modules, module, use.path[:-1]):
            says = f"{module} uses everything in {'::'.join(use.path[:-1])}: name what it uses"
            yield Finding(module.file, use.line, "::".join(use.path), says)


def paths_of(module):
    """The paths that the module names, each with its line, less what it only passes on."""
    for use in module.uses:
        is_below = use.path[0] in ("self", *module.children)
        if not (use.is_public and is_below) or use.name in module.words:
            yield use.path, use.line
    yield from module.paths


def breach(modules, user, used, line, inside):
    """The finding about one module that uses another, or None."""
    if is_within(used, user):
        return None
    if is_within(user, used):
        if not any({user, used} <= group for group in inside):
            return None
        why = "which uses it in turn: a circle"
    else:
        shared = next(i for i, (a, b) in enumerate(zip(user, used, strict=False)) if a != b)
        above = modules[user[:shared]]
        order = above.children
        if order.index(used[shared]) < order.index(user[shared]):
            return None
        used = used[: shared + 1]
        why = f"which {above.file} lists after {user[shared]}"
    names = "::".join(user), "::".join(used)
    what = " uses ".join(names)
    return Finding(modules[user].file, line, what, f"{what}, {why}")
