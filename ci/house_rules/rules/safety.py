"""Each SAFETY comment gives its reason in 6 words or more, and the median in 12 or more.

A reason is the text after `SAFETY:` to the end of the comment. It names the obligation, the fact
that meets it, and where that fact was established; `as above` does not count as words of it.
"""

import re
import statistics

from tree import ALL_OF_RUST, Finding

FOLDERS = ("core", "ffi", "bindings")
FEWEST_WORDS, FEWEST_IN_THE_MEDIAN = 6, 12
COMMENT = re.compile(r"^\s*//(?![/!])\s?(.*)$")
START = re.compile(r"^.*?(?<!/)(?://|/\*)\s*SAFETY:\s*(?P<reason>.*?)\s*(?:\*/)?$", re.I)
WORD = re.compile(r"\S*\w\S*")
REPEATS = re.compile(r"^(?:the same )?(?:as|see) above\b", re.I)


def check(tree):
    lengths = []
    for folder in FOLDERS:
        for path in tree.under(folder, ".rs"):
            for line, reason in reasons(tree.lines(path)):
                words = WORD.findall(REPEATS.sub("", reason))
                lengths.append(len(words))
                yield short(path, line, reason, len(words))
    if lengths:
        median = statistics.median(lengths)
        says = f"the median SAFETY comment has {median:g} words, under {FEWEST_IN_THE_MEDIAN}"
        yield Finding(ALL_OF_RUST, 0, "median", says) if median < FEWEST_IN_THE_MEDIAN else None


def short(path, line, reason, words):
    if words >= FEWEST_WORDS:
        return None
    says = f'the SAFETY comment "{reason}" gives a reason of {words} words, under {FEWEST_WORDS}'
    return Finding(path, line, reason, says)


def reasons(lines):
    """The line and text of each SAFETY comment, the lines of a comment joined."""
    for number, line in enumerate(lines):
        if match := START.match(line):
            parts = [match["reason"]]
            for further in lines[number + 1 :]:
                comment = COMMENT.match(further)
                if comment is None or START.match(further):
                    break
                parts.append(comment[1])
            yield number + 1, " ".join(filter(None, parts))
