"""Functions have at most 60 lines and files at most 500.

Functions of Rust, Python, Ruby, C, C++ and shell scripts are measured, tests included, and so are
blocks of Ruby that define a method or a test, C++'s named lambdas, and closures in a Rust `static`.
Tables are not: macros, constants, and code of a module outside of functions. A Rust file's unit
tests do not count for its length. Of Rust's functions outside of tests the median has under 9
lines, and nine of ten have under 25.
"""

import statistics

from parsing.functions import functions, language
from tree import ALL_OF_RUST, UNIT_TESTS, Finding, without_unit_tests

MOST_LINES_OF_A_FILE, MOST_LINES_OF_A_FUNCTION = 500, 60
MEDIAN_BELOW, NINE_OF_TEN_BELOW = 9, 25
NOT_IN_THE_MEDIAN = {"tests", "drivers"}


def check(tree):
    lengths = []
    for path, text in sources(tree):
        yield from file_is_short(path, text)
        counted = path.endswith(".rs") and not NOT_IN_THE_MEDIAN & {*path.split("/")}
        outside = without_unit_tests(text).split("\n")
        for name, line, lines in functions(path, text):
            yield function_is_short(path, name, line, lines)
            if counted and outside[line - 1]:
                lengths.append(lines)
    if lengths:
        yield from rust_functions_are_short(sorted(lengths))


def sources(tree):
    """Path and text of each file of code."""
    for path in tree.written():
        text = tree.text(path)
        if language(path, text):
            yield path, text


def file_is_short(path, text):
    lines = text.count("\n") - sum(tests.count("\n") for tests in UNIT_TESTS.findall(text))
    says = f"the file has {lines} lines, more than {MOST_LINES_OF_A_FILE}"
    yield Finding(path, lines, "file", says) if lines > MOST_LINES_OF_A_FILE else None


def function_is_short(path, name, line, lines):
    if lines <= MOST_LINES_OF_A_FUNCTION:
        return None
    says = f"the function {name} has {lines} lines, more than {MOST_LINES_OF_A_FUNCTION}"
    return Finding(path, line, name, says)


def rust_functions_are_short(lengths):
    median, ninth = statistics.median(lengths), lengths[len(lengths) * 9 // 10]
    for what, lines, below in (
        ("the median function of Rust", median, MEDIAN_BELOW),
        ("of ten functions of Rust the ninth", ninth, NINE_OF_TEN_BELOW),
    ):
        says = f"{what} has {lines} lines, not under {below}"
        yield Finding(ALL_OF_RUST, 0, what, says) if lines >= below else None
