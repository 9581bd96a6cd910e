"""A test does not begin by returning when nobody asked for it.

A function that only another test's child process runs is no test, and would count as passed. A
test that cannot run here says so: the function that its condition calls has `skip` in its name,
and its line is counted as skipped. `#[ignore]` is allowed: what is ignored does not count as
passed.

Tests of Rust (`#[test]` and its like), Python and Ruby (`def test_…`) are read. In Rust and Python
a `return` counts that the test's own body reaches before its first loop, unless its statement
asserts something; in Ruby each line that begins with `return`. Not seen are the tests of C and
C++, a `return` in a closure, and a test whose whole body is under an `if` or that `?` ends.
"""

import ast
import re

from parsing.tokens import closing, tokens
from tree import Finding

LOOPS = {"for", "while", "loop"}
RUBY_TEST = re.compile(r"^( *)def (test_\w+)")
RUBY_RETURN = re.compile(r" *(?:.* (?:then|and|&&|or) )?return\b(?!.*skip)")
SAYS = re.compile(r"skip|assert")  # what the statement of a `return` may say


def check(tree):
    for path in tree.files(*TESTS):
        text = tree.text(path)
        for name, line, returns in TESTS[path[path.rindex(".") :]](text):
            says = f"the test {name} returns at once when nobody asked for it"
            yield Finding(path, line, name, says) if returns else None


def rust(text):
    if "test" not in text:
        return
    found = tokens(text)
    texts = [token.text for token in found]
    for index in range(len(found) - 1):
        if texts[index] == "#" and texts[index + 1] == "[" and is_test(texts, found, index):
            function = after_attributes(texts, found, index)
            if function is None:
                continue
            body = texts.index("{", function)
            is_run = "ignore" not in attributes(texts, found, index)
            returns = is_run and rust_returns(found, body + 1, closing(found, body))
            yield *found[function + 1], returns


def is_test(texts, found, index):
    """Whether the attribute makes a test, alone or by `cfg_attr`."""
    inside = texts[index + 2 : closing(found, index + 1)]
    if inside[:1] == ["cfg_attr"]:
        inside = inside[inside.index(",") :] if "," in inside else []
    return inside[:1] != ["cfg"] and bool({"test", "rstest"} & {*inside})


def after_attributes(texts, found, index):
    """The index of the `fn` that the attributes stand before, or None."""
    while texts[index] == "#":
        index = closing(found, index + 1) + 1
    while texts[index] in ("pub", "async", "unsafe"):
        index += 1
    return index if texts[index] == "fn" else None


def attributes(texts, found, index):
    """The first word of each attribute from this one on."""
    words = []
    while texts[index] == "#":
        words.append(texts[index + 2])
        index = closing(found, index + 1) + 1
    return words


def rust_returns(found, index, end):
    """Whether the body returns before its first loop, in a statement that says nothing of it."""
    start, depth = index, 0  # of the statement
    while index < end:
        text = found[index].text
        depth += (text in "([{") - (text in ")]}")
        if text in LOOPS:
            return False
        if text in ("|", "fn"):
            index = end_of_closure(found, index, end)
        elif text == "return":
            return not any(SAYS.search(token.text) for token in found[start:index])
        elif depth == 0 and text in ";}" and found[index + 1].text != "else":
            start = index + 1
        index += 1
    return False


def end_of_closure(found, index, end):
    """The index of what comes before the end of the statement or argument."""
    while index + 1 < end and found[index + 1].text not in ";,)]}":
        index += 1
        index = closing(found, index) if found[index].text in "([{" else index
    return index


def python(text):
    for node in ast.walk(ast.parse(text)):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name.startswith("test"):
            yield node.name, node.lineno, python_returns(node.body)


def python_returns(statements):
    """Whether a statement before the first loop returns, and says nothing of it."""
    for statement in statements:
        if isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            return False
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            returns = any(isinstance(each, ast.Return) for each in ast.walk(statement))
            if returns and not SAYS.search(ast.unparse(statement)):
                return True
    return False


def ruby(text):
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if match := RUBY_TEST.match(line):
            following = lines[number:]
            end = match[1] + "end"
            body = following[: following.index(end)] if end in following else []
            yield match[2], number, any(map(RUBY_RETURN.match, body))


TESTS = {".rs": rust, ".py": python, ".rb": ruby}
