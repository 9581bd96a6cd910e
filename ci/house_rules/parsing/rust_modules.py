"""The modules of a Rust crate, in the order of their `mod` lines, and what each names.

What is compiled only for tests, `#[cfg(test)]`, is left out; every other `cfg` counts as set.
"""

from dataclasses import dataclass, field

from .tokens import closing, tokens
from .use_trees import parse_use, path_at

ITEMS = {"fn", "struct", "enum", "union", "trait", "type", "const", "static"}
BETWEEN = {"fn", "unsafe", "mut", "extern", "async", '""'}  # of a keyword and its name
VISIBILITY = {"pub", "(", ")", "crate", "super", "in", "self", "::"}


@dataclass
class Module:
    path: tuple  # ("crate", "segment", "pool")
    file: str
    children: list = field(default_factory=list)
    uses: list = field(default_factory=list)
    paths: list = field(default_factory=list)  # (path, line) of expressions and types
    items: set = field(default_factory=set)
    words: set = field(default_factory=set)  # every word outside of `use`
    unread: list = field(default_factory=list)  # (name, line, why) of what cannot be followed

    def __str__(self):
        return "::".join(self.path)


def read_crate(root, source):
    """Every module of the crate whose lib.rs lies in the folder `source`, by its path."""
    modules = {}
    _read_file(root, f"{source}/lib.rs", source, ("crate",), modules)
    return modules


def _read_file(root, file, folder, path, modules):
    """`folder` is where the files of its children lie."""
    _read(root, file, folder, path, tokens((root / file).read_text()), modules)


def _read(root, file, folder, path, found, modules):
    module = modules[path] = Module(path, file)
    index = depth = 0
    while index < len(found):
        text = found[index].text
        if text == "#" and _is_attribute(found, index):
            end = closing(found, index + 1 + (found[index + 1].text == "!"))
            _paths_from_the_crate(module, found[index:end])
            index = _after_item(found, end + 1) if _is_for_tests(found, index, end) else end + 1
        elif text == "use" and found[index + 1].text not in ("<",):
            uses, index = parse_use(found, index, _is_public(found, index))
            module.uses += uses
        elif text == "mod" and depth == 0 and found[index + 1].is_word:
            index = _child(root, module, folder, found, index, modules)
        elif why := _unreadable(found, index):
            module.unread.append((text, found[index].line, why))
            index += 1
        else:
            depth += (text in "([{") - (text in ")]}")
            index = _word(module, found, index, depth)


def _word(module, found, index, depth):
    """Notes the item or path that begins here; returns the next index."""
    token = found[index]
    if not token.is_word or (index and found[index - 1].text in ("::", ".")):
        return index + 1
    if depth == 0 and token.text in ITEMS:
        name = index + 1
        while found[name].text in BETWEEN:
            name += 1
        module.items.add(found[name].text)
        return index + 1
    path, after = path_at(found, index)
    module.words.add(path[0])
    if len(path) > 1 and not _is_visibility(found, index):
        module.paths.append((path, token.line))
    return after


def _child(root, module, folder, found, index, modules):
    """Reads `mod name;` or `mod name { … }`; returns the index after it."""
    name = found[index + 1].text
    path = (*module.path, name)
    module.children.append(name)
    inside = f"{folder}/{name}"
    if found[index + 2].text == "{":
        end = closing(found, index + 2)
        _read(root, module.file, inside, path, found[index + 3 : end], modules)
        return end + 1
    for file in (f"{inside}.rs", f"{inside}/mod.rs"):
        if (root / file).is_file():
            _read_file(root, file, inside, path, modules)
    if path not in modules:
        module.unread.append((name, found[index].line, f"{module}::{name} has no file"))
    return index + 3


def _is_attribute(found, index):
    following = [token.text for token in found[index + 1 : index + 3]]
    return following[:1] == ["["] or following == ["!", "["]


def _is_for_tests(found, start, end):
    """Whether the attribute is a `cfg` that asks for `test`, alone or beside more."""
    if found[start + 2].text != "cfg":
        return False
    while start < end:
        if found[start].text in ("any", "not"):
            start = closing(found, start + 1)
        elif found[start].text == "test":
            return found[start - 1].text in ("(", ",")
        start += 1
    return False


def _after_item(found, index):
    """The index after the item, field, variant or arm at `index`, with its further attributes."""
    while index < len(found) and found[index].text == "#":
        index = closing(found, index + 1) + 1
    start = index
    while index < len(found):
        text = found[index].text
        if text in "([{":
            index = closing(found, index)
            following = found[index + 1].text if index + 1 < len(found) else ""
            if text == "{" and following not in (";", "=>", ","):
                return index + 1
        elif text == ";" or (text == "," and not _is_item(found, start)):
            return index + 1
        elif text in ")]}":
            return index
        index += 1
    return index


def _is_item(found, index):
    """Whether an item begins here: commas do not end it, as they end a field or an arm."""
    while found[index].text in VISIBILITY:
        index += 1
    return found[index].text in ITEMS | {"use", "mod", "impl", "unsafe", "extern", "async", "let"}


def _unreadable(found, index):
    """Why the modules cannot be told from what begins here, or None."""
    texts = [token.text for token in found[index : index + 3]]
    if texts[0] == "mod" and found[index + 1].is_word:
        return "a module inside of a function or a macro"
    if texts[:2] == ["include", "!"]:
        return "code of another file, by include!"
    if texts == ["extern", "crate", "self"]:
        return "another name for the crate"
    if texts[0] in ("crate", "super") and texts[1:] == ["::", "$"]:
        return "a path that a macro completes"
    return None


def _paths_from_the_crate(module, attribute):
    for index, token in enumerate(attribute):
        if token.text in ("crate", "super") and attribute[index - 1].text != "::":
            module.paths.append((path_at(attribute, index)[0], token.line))


def _is_public(found, index):
    """Whether `pub`, perhaps with a restriction, stands before the `use`."""
    index -= 1
    while index >= 0 and found[index].text in VISIBILITY:
        if found[index].text == "pub":
            return True
        index -= 1
    return False


def _is_visibility(found, index):
    return index > 1 and found[index - 1].text == "in" and found[index - 2].text == "("
