"""The modules of each Rust crate form a line in every folder, and no circle anywhere.

The `mod` lines of a folder's `mod.rs` (or `lib.rs`) are the order. A module uses only those that
are listed before it, and its own children. It may use what a module above it defines only if that
does not use it in turn. `use` counts in every form, and so do paths in expressions and types. A
re-export counts as a use for the module behind it; the re-exporting module itself uses the name
only if it stands in its code, too.
"""

from parsing.circles import circles
from parsing.resolve import is_within, targets
from parsing.rust_modules import read_crate
from tree import Finding

SOURCES = (
    "core/src",
    "ffi/src",
    "bindings/cli/src",
    "bindings/python/src",
    "bindings/ruby/ext/shmarray/src",
)


def check(tree):
    for source in SOURCES:
        if (tree.root / source).is_dir():
            yield from check_crate(read_crate(tree.root, source))


def check_crate(modules):
    edges = {}  # (module, module it uses): line
    for module in modules.values():
        for name, line in module.lost:
            yield Finding(module.file, line, name, f"{module}::{name} has no file")
        for path, line in paths_of(module):
            for target in targets(modules, module, path) - {module.path}:
                edges.setdefault((module.path, target), line)
    inside = [{*group} for group in circles(edges)]
    for (user, used), line in sorted(edges.items()):
        yield breach(modules, user, used, line, inside)


def paths_of(module):
    """The paths that the module names, each with its line, less what it only passes on."""
    for use in module.uses:
        if not use.is_public or use.name in module.words or use.path[0] in ("crate", "super"):
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
