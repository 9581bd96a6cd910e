"""Tokens of Rust, C and C++, without comments: their text and line.

A string or character literal is one token, `""`. Code in comments or strings is no code.
"""

import functools
import re
from typing import NamedTuple

TOKEN = re.compile(
    r"""
    (?P<space>\s+|\\\n)
    |(?P<line_comment>//[^\n]*)
    |(?P<block_comment>/\*)
    |(?P<raw>(?:b|c)?r(?P<hashes>\#*)")
    |(?P<cpp_raw>R"(?P<delimiter>[^(\s]*)\()
    |(?P<string>(?:b|c|L|u8?|U)?"(?:\\.|[^"\\])*")
    |(?P<char>b?'(?:\\(?:x[0-9a-fA-F]+|u\{[^}]*\}|.)|[^'\\])')
    |(?P<lifetime>'[A-Za-z_]\w*)
    |(?P<word>(?:r\#)?[A-Za-z_]\w*)
    |(?P<number>\d[\w.']*?(?=\.\.|[^\w.']|\Z|\.[A-Za-z_]))
    |(?P<sign>::|->|=>|\.\.[.=]?|.)
    """,
    re.X | re.S,
)
OPENING = {"(": ")", "[": "]", "{": "}"}
CLOSING = set(OPENING.values())


class Token(NamedTuple):
    text: str
    line: int

    @property
    def is_word(self):
        return self.text[0].isalpha() or self.text[0] == "_"


@functools.cache
def tokens(text):
    """The tokens of a source text; nobody changes the list."""
    found, position, line = [], 0, 1
    while position < len(text):
        match = TOKEN.match(text, position)
        end = _end(match, text)
        kind = match.lastgroup
        if kind in ("word", "sign", "number", "lifetime"):
            found.append(Token(match[0].removeprefix("r#"), line))
        elif kind not in ("space", "line_comment", "block_comment"):
            found.append(Token('""', line))
        line += text.count("\n", position, end)
        position = end
    return found


def _end(match, text):
    """Where the token ends whose beginning matched."""
    match match.lastgroup:
        case "block_comment":
            return _comment_end(text, match.end())
        case "raw":
            return _after(text, '"' + match["hashes"], match.end())
        case "cpp_raw":
            return _after(text, ")" + match["delimiter"] + '"', match.end())
        case _:
            return match.end()


def _after(text, ending, start):
    found = text.find(ending, start)
    return len(text) if found < 0 else found + len(ending)


def _comment_end(text, position):
    """The end of a block comment; Rust's may be nested."""
    depth = 1
    while depth:
        mark = re.compile(r"/\*|\*/").search(text, position)
        if mark is None:
            return len(text)
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return position


def closing(found, start):
    """The index of the bracket that closes the one at `start`; the last index if none does."""
    depth = 0
    for index in range(start, len(found)):
        if found[index].text in OPENING:
            depth += 1
        elif found[index].text in CLOSING:
            depth -= 1
            if depth == 0:
                return index
    return len(found) - 1
