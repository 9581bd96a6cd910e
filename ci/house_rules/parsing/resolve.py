"""Which modules a path of Rust leads to, through re-exports and aliases."""


def targets(modules, module, path):
    """The modules that `path`, written in `module`, names or whose item it names.

    A module that only passes a name on counts, too, unless it is `module` or above it. Paths into
    other crates lead nowhere.
    """
    return _Search(modules, module.path).resolve(module.path, path)


class _Search:
    def __init__(self, modules, origin):
        self.modules, self.origin, self.seen = modules, origin, set()

    def resolve(self, here, path):
        if (here, path) in self.seen:
            return set()
        self.seen.add((here, path))
        here, rest = self.start(here, path)
        return set() if here is None else self.descend(here, rest)

    def start(self, here, path):
        """The module in which the path begins, and what follows."""
        first, *rest = path
        if first == "crate":
            return ("crate",), rest
        if first in ("self", "super"):
            here = here[:-1] if first == "super" else here
            while rest and rest[0] == "super":
                here, rest = here[:-1], rest[1:]
            return here, rest
        return (here, list(path)) if first in names_of(self.modules[here]) else (None, [])

    def descend(self, here, names):
        """What the names lead to, from a module on."""
        for index, name in enumerate(names):
            if here not in self.modules:
                return set()
            module = self.modules[here]
            if name in module.children:
                here = (*here, name)
                continue
            led = self.through_uses(module, name, names[index + 1 :])
            passes_on = led and is_within(self.origin, here)
            return led if passes_on else led | {here}
        return {here} if here in self.modules else set()

    def through_uses(self, module, name, rest):
        led = set()
        for use in module.uses:
            if name == "*" or use.path == ("*",):
                continue
            if use.name == name:
                led |= self.resolve(module.path, (*use.path, *rest))
            elif use.name == "*" and name not in module.items:
                led |= self.from_glob(module, use, name, rest)
        return led

    def from_glob(self, module, use, name, rest):
        """What a glob gives under this name, if the module behind it has the name."""
        led = set()
        for source in self.resolve(module.path, use.path[:-1]) - {module.path}:
            if name in names_of(self.modules[source]):
                led |= self.resolve(source, ("self", name, *rest))
        return led


def names_of(module):
    return {use.name for use in module.uses} | module.items | {*module.children}


def is_within(path, ancestor):
    return path[: len(ancestor)] == ancestor
