"""A segment is called a segment: not a block, region, chunk or arena.

In text, such a word beside one for memory is refused ("shared memory block", "region of memory"),
and `arena` and `region` wherever they stand. In names, it is refused beside a word that a segment
has ("block_bytes", "RegionId"). A block of code, a chunk of a stream and a call that blocks are
what they are everywhere.
"""

import re

from tree import Finding

WORD = r"(?:block|region|chunk|arena)s?"
MEMORY = r"(?:(?:shared|mapped|process|this|anonymous)[- ])*(?:memory|SharedMemory|shm|mmap)"
TEXT = re.compile(
    rf"\b{MEMORY}[- ]{WORD}\b"
    rf"|\b(?:shared|mapped|shm|named|warm|pooled|held|attached)[- ]{WORD}\b"
    rf"|\b{WORD} (?:of|in|from) (?:the )?{MEMORY}\b"
    r"|\barenas?\b|\bregions?\b",
    re.I,
)
NAME = re.compile(r"\b_*[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9_]*|[a-z0-9][A-Z][A-Za-z0-9_]*)")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
SYNONYM = re.compile(rf"^{WORD}$", re.I)
SOME = re.compile(r"block|region|chunk|arena", re.I)
MOST_PARTS = 4  # a longer name is a sentence, as the tests have
OF_A_SEGMENT = re.compile(
    "address|attach(?:ed)?|base|bytes|cell|create|fd|file|free|generation|handle|header|holder?|id"
    "|info|key|kind|lease|map(?:ped|ping)?|memory|mmap|name|offset|open|owner|page|path|pool(?:ed)?"
    "|segments?|shared|shm|slab|table|unlink"
)
THIS = ("ci/house_rules/",)


def check(tree):
    for path in tree.written():
        if path.startswith(THIS):
            continue
        yield from findings(path, tree.lines(path)) or [None]


def findings(path, lines):
    refusals = ((number, refused(line)) for number, line in enumerate(lines, 1))
    return [
        Finding(path, number, words, f'"{words}": say segment, if that is what it is')
        for number, words in refusals
        if words
    ]


def refused(line):
    """The first words of the line that stand for a segment, or None."""
    if not SOME.search(line):
        return None
    if match := TEXT.search(line):
        return match[0]
    return next((name[0] for name in NAME.finditer(line) if is_refused(name[0])), None)


def is_refused(name):
    parts = [part.lower() for part in PARTS.findall(name)]
    is_sentence = len(parts) > MOST_PARTS
    return (
        not is_sentence
        and any(map(SYNONYM.match, parts))
        and any(map(OF_A_SEGMENT.fullmatch, parts))
    )
