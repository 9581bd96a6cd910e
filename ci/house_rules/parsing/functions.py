"""The functions of a source file in each language: name, first line, number of lines.

Signature and closing line count; decorators and comments before do not.
"""

import ast
import re

from .tokens import closing, tokens

RUBY = re.compile(
    r"^(?P<indent>\s*)(?:"
    r"(?:\w+ )*def (?P<name>[^\s(;]+)"
    r"|(?:define_method|test|it)\b[ (:\"']*(?P<block>\w+).*\bdo\b"
    r"|(?P<lambda>\w+) = (?:lambda|proc|Proc\.new|->.*)\b.*\bdo\b)"
)
RUBY_END = r"end\b"
RUBY_ONE_LINE = re.compile(r"\) = |[^=]\bend$")
SHELL = re.compile(
    r"^(?P<indent>\s*)(?:function (?P<name>[\w-]+)(?: ?\(\))?|(?P<plain>[\w-]+) ?\(\))"
    r"\s*[{(]?\s*(?:#.*)?$"
)
SHELL_END = r"[})]"
LANGUAGES = {
    "Rust": (".rs",),
    "Python": (".py",),
    "Ruby": (".rb", ".gemspec", "Rakefile", "Gemfile"),
    "C": (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp"),
    "shell": (".sh", ".bash"),
    "declarations": (".pyi", ".rbs"),
}
SHEBANGS = {
    "shell": re.compile(r"#!.*\b(?:ba|da|z|k)?sh\b|# shellcheck shell="),
    "Python": re.compile(r"#!.*\bpython"),
    "Ruby": re.compile(r"#!.*\bruby\b"),
}
TRANSPARENT = {"namespace", "class", "struct", "union", "enum", "extern"}
ACCESS = {"public", "protected", "private"}
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)


def language(path, text):
    """The language of a file of code, by its ending or its first line, or None."""
    for name, endings in LANGUAGES.items():
        if path.endswith(endings):
            return name
    if "." in path.rpartition("/")[2]:
        return None
    return next((name for name, first in SHEBANGS.items() if first.match(text)), None)


def functions(path, text):
    """(name, line, lines) of each function."""
    match language(path, text):
        case "Rust":
            return rust(text)
        case "Python":
            return python(text)
        case "Ruby":
            return indented(text, RUBY, RUBY_END, RUBY_ONE_LINE)
        case "C":
            return c(text)
        case "shell":
            return indented(text, SHELL, SHELL_END)
        case _:
            return ()


def rust(text):
    found = tokens(text)
    for index, token in enumerate(found):
        end = None
        if token.text == "fn" and found[index + 1].is_word:
            end = body_end(found, index)
        elif token.text == "static" and found[index + 1].is_word:
            end = closure_end(found, index)
        if end is not None:
            yield found[index + 1].text, token.line, found[end].line - token.line + 1


def closure_end(found, index):
    """The index of the brace that ends the closure of a `static`, or None if it is another."""
    while found[index].text not in ("=", ";"):
        index += 1
    if [token.text for token in found[index : index + 3]] != ["=", "|", "|"]:
        return None
    return closing(found, index + 3) if found[index + 3].text == "{" else None


def body_end(found, index):
    """The index of the brace that ends a function, or None where it has no body."""
    while index < len(found):
        text = found[index].text
        is_number = text == "{" and found[index - 1].text == "<"  # of `Type<{ 3 }>`
        if text == "{" and not is_number:
            return closing(found, index)
        if text == ";":
            return None
        index = closing(found, index) + 1 if is_number or text in ("(", "[") else index + 1
    return None


def python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def indented(text, beginning, ending, one_line=None):
    """Functions that end at the first line of the same indentation that begins with the ending."""
    lines = text.splitlines()
    for start, line in enumerate(lines):
        match = beginning.match(line)
        if match is None or (one_line and one_line.search(line.partition(" #")[0].rstrip())):
            continue
        last = re.compile(match["indent"] + ending)
        end = next((i for i in range(start + 1, len(lines)) if last.match(lines[i])), None)
        if end is not None:
            name = next(filter(None, [*match.groups()][1:]))
            yield name, start + 1, end - start + 1


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
            declaration = without_template(found, start, index)
            texts = [token.text for token in declaration]
            if TRANSPARENT & {*texts} and "(" not in texts:
                yield from bodies(found, index + 1, last)
            elif name := name_of(texts):
                line = found[start].line
                yield name, declaration[0].line, found[last].line - line + 1
            index = start = last + 1
        elif text in (";", "}"):
            index = start = index + 1
        else:
            index = closing(found, index) + 1 if text == "(" else index + 1


def without_template(found, start, end):
    """The declaration without `template <…>` and without access labels."""
    while start + 1 < end:
        if found[start].text == "template":
            start = after_angles(found, start + 1)
        elif found[start].text in ACCESS and found[start + 1].text == ":":
            start += 2
        else:
            break
    return found[start:end]


def after_angles(found, index):
    """The index after the `>` that closes the `<` at `index`."""
    depth = 0
    while True:
        depth += {"<": 1, ">": -1}.get(found[index].text, 0)
        index = closing(found, index) + 1 if found[index].text == "(" else index + 1
        if depth == 0:
            return index


def name_of(declaration):
    """The name of the function that the words before a brace declare, or None."""
    if "operator" in declaration:
        return "operator" + declaration[declaration.index("operator") + 1]
    if "(" not in declaration:
        return None
    before = declaration[: declaration.index("(")]
    if "=" not in before:
        return (before or ["("])[-1]
    equals = before.index("=")
    return before[equals - 1] if before[equals + 1 : equals + 2] == ["["] else None
