"""The functions of a source file in each language: name, first line, number of lines.

Signature and closing line count; decorators and comments before do not.
"""

import ast
import re

from .tokens import closing, tokens

RUBY = re.compile(r"^(?P<indent>\s*)(?:\w+ )*def (?P<name>[^\s(;]+)")
SHELL = re.compile(r"^(?P<indent>)(?P<name>[\w-]+)\(\) \{$")
TRANSPARENT = {"namespace", "class", "struct", "union", "enum", "extern"}
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def functions(path, text):
    """(name, line, lines) of each function, by the file's ending."""
    match path.rpartition(".")[2]:
        case "rs":
            return rust(text)
        case "py":
            return python(text)
        case "rb":
            return indented(text, RUBY, "end")
        case "c" | "h" | "cpp" | "hpp":
            return c(text)
        case _:
            return indented(text, SHELL, "}")


def rust(text):
    found = tokens(text)
    for index, token in enumerate(found):
        if token.text == "fn" and found[index + 1].is_word:
            end = body_end(found, index)
            if end is not None:
                yield found[index + 1].text, token.line, found[end].line - token.line + 1


def body_end(found, index):
    """The index of the brace that ends a function, or None where it has no body."""
    while index < len(found):
        text = found[index].text
        if text == "{":
            return closing(found, index)
        if text == ";":
            return None
        index = closing(found, index) + 1 if text in ("(", "[") else index + 1
    return None


def python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def indented(text, beginning, ending):
    """Functions that end at the first line of the same indentation that is the ending."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        if match := beginning.match(line):
            last = match["indent"] + ending
            end = next((i for i in range(start + 1, len(lines)) if lines[i] == last), None)
            is_one_line = ending == "end" and re.search(r"\) = |[^=]\bend$", line)
            if end is not None and not is_one_line:
                yield match["name"], start + 1, end - start + 1


def c(text):
    """Bodies in braces after a parameter list, also in namespaces, classes and `extern "C"`."""
    found = tokens(DIRECTIVE.sub(lambda match: "\n" * match[0].count("\n"), text))
    yield from bodies(found, 0, len(found))


def bodies(found, index, end):
    start = index  # of the declaration that the brace may belong to
    while index < end:
        text = found[index].text
        if text == "{":
            last = closing(found, index)
            declaration = [token.text for token in found[start:index]]
            if TRANSPARENT & {*declaration} and "(" not in declaration:
                yield from bodies(found, index + 1, last)
            elif "(" in declaration and "=" not in declaration[: declaration.index("(")]:
                name = found[max(start, start + declaration.index("(") - 1)]
                yield name.text, name.line, found[last].line - found[start].line + 1
            index = start = last + 1
        elif text in (";", "}"):
            index = start = index + 1
        else:
            index = closing(found, index) + 1 if text == "(" else index + 1
