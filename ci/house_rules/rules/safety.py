"""Each SAFETY comment gives its reason in 6 different words or more, and the median has 12 or more.

A reason is the text after `SAFETY:` to the end of the comment, or to a line that begins with TODO,
NOTE or clippy. It names the obligation, the fact that meets it, and where that fact was
established; a reason that begins with `as above`, `see above` or `for the same reason as there`, or
that has TODO or ditto in it, is none. The comment is no doc comment. A `# Safety` section of a doc
comment has 6 words, too, or names the item whose section holds for it. Whether an unsafe block has
a comment at all is clippy's to say.
"""

import re
import statistics

from tree import ALL_OF_RUST, Finding

FEWEST_WORDS, FEWEST_IN_THE_MEDIAN = 6, 12
LINES = re.compile(r"^\s*//(?![/!])\s?(?P<text>.*)$")
BLOCK = re.compile(r"^\s*\*(?!/)\s?(?P<text>.*?)\s*(?:\*/)?$")
START = re.compile(
    r"^(?:.*?(?P<mark>//[/!]?|/\*+)|\s*\*)\s*SAFETY:\s*(?P<reason>.*?)\s*(?:\*/)?$", re.I
)
OTHER = re.compile(r"(?:TODO|FIXME|XXX|HACK|NOTE|clippy)\b")
WORD = re.compile(r"\S*\w\S*")
NO_REASON = re.compile(
    r"^(?:for )?(?:the )?(?:same|as|see|like)\b[^`,:;.]*\b(?:above|there)\b"
    r"|\b(?:ditto|TODO|FIXME)\b",
    re.I,
)
SECTION = re.compile(r"^\s*//[/!] # Safety$")
DOC = re.compile(r"^\s*//[/!](?! #) ?(.*)$")
ANOTHERS = re.compile(r"\[`|`\w+::")  # the link or path of the item whose section holds


def check(tree):
    lengths = []
    for path in tree.files(".rs"):
        lines = tree.lines(path)
        for line, mark, reason in reasons(lines):
            lengths.append(len(WORD.findall(reason)))
            yield short(path, line, reason) or is_doc(path, line, mark, reason)
        yield from sections(path, lines)
    if lengths:
        median = statistics.median(lengths)
        says = f"the median SAFETY comment has {median:g} words, under {FEWEST_IN_THE_MEDIAN}"
        yield Finding(ALL_OF_RUST, 0, "median", says) if median < FEWEST_IN_THE_MEDIAN else None


def words_of(reason):
    """The number of different words in a reason; 0 if it only says where another stands."""
    words = {word.lower().strip("`.,;:!?()") for word in WORD.findall(reason)}
    return 0 if NO_REASON.search(reason) else len(words)


def short(path, line, reason):
    words = words_of(reason)
    says = f'the SAFETY comment "{reason}" gives a reason of {words} words, under {FEWEST_WORDS}'
    return None if words >= FEWEST_WORDS else Finding(path, line, reason, says)


def is_doc(path, line, mark, reason):
    says = "a SAFETY comment is no doc comment: write it with //"
    return Finding(path, line, reason, says) if mark in ("///", "//!") else None


def reasons(lines):
    """The line, mark and text of each SAFETY comment, the lines of a comment joined."""
    for number, line in enumerate(lines):
        if match := START.match(line):
            parts = [match["reason"]]
            following = LINES if (match["mark"] or "*").startswith("//") else BLOCK
            for further in [] if line.endswith("*/") else lines[number + 1 :]:
                comment = following.match(further)
                if not comment or START.match(further) or OTHER.match(comment["text"]):
                    break
                parts.append(comment["text"])
            yield number + 1, match["mark"], " ".join(filter(None, parts))


def sections(path, lines):
    for number, line in enumerate(lines):
        if SECTION.match(line):
            text = []
            for further in lines[number + 1 :]:
                doc = DOC.match(further)
                if doc is None:
                    break
                text.append(doc[1])
            text = " ".join(filter(None, text))
            is_said = ANOTHERS.search(text) or words_of(text) >= FEWEST_WORDS
            says = f'the section # Safety, "{text}", has under {FEWEST_WORDS} words'
            yield None if is_said else Finding(path, number + 1, text, says)
