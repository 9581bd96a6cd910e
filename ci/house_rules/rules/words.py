"""A segment is called a segment: not a block, region, chunk or arena.

`region` and `arena` are refused wherever they stand, also as a part of a name. `block` and `chunk`
are refused in text beside a word for memory ("shared memory block", "the slab's free blocks"), in
names beside a word that a segment has ("block_bytes"), as the name of a type, and where one is
assigned an array. A block of code, a chunk of a stream and a call that blocks are what they are
everywhere. The words that the project once used for other things are refused, too: RETIRED says
what they are called now.

Text is read over the ends of lines and without its marks of emphasis. The names of files count. A
name of a test is a sentence, and is not looked at.
"""

import re

from tree import Finding

WORD = r"(?:block|region|chunk|arena)s?"
MEMORY = r"(?:(?:shared|mapped|process|this|anonymous)[- ])*(?:memory|SharedMemory|shm|mmap)"
OWNER = rf"(?:{MEMORY}|slab|segment|pool|cell)(?:'s|s')?"
TEXT = re.compile(
    rf"\b{OWNER} (?:free |warm |held )?{WORD}\b|\b{MEMORY}[-]{WORD}\b"
    rf"|\b(?:shared|mapped|shm|named|warm|pooled|held|attached|leased|free)[- ]{WORD}\b"
    rf"|\b{WORD} (?:of|in|inside|from) (?:(?:the|a|each|this) )?{OWNER}\b"
    rf"|\b{WORD}(?:'s|s')? (?:header|handle|id|lease|generation)s?\b"
    rf"|\b(?:memory|slab|segment)s? (?:is|are) (?:divided|split|cut) into {WORD}\b"
    rf"|\b{WORD} = (?:shmarray|Segment|Array)\b",
    re.I,
)
TYPE = re.compile(r"\b(?:struct|class|enum|union|trait|type|typedef) +\w*(?:Block|Chunk)(?!ing|ed)")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
NEVER = re.compile(r"(?:sub|mem|shm)?(?:region|arena)s?|(?:mem|shm)(?:block|chunk)s?", re.I)
SYNONYM = re.compile(rf"^{WORD}$", re.I)
OF_A_SEGMENT = re.compile(
    "address|attach(?:ed)?|base|bytes|cell|create|fd|file|free|generation|handle|header|holder?|id"
    "|info|key|kind|lease|map(?:ped|ping)?|mem|memory|mmap|name|offset|open|owner|page|path"
    "|pool(?:ed)?|segments?|shared|shm|shma|slab|table|unlink"
)
RETIRED = {
    "punched": "DECOMMITTED",
    "BY_LOCK": "LOCK_ONLY",
    "Division": "slab layout",
    "Birth": "creation options",
    "shelf": "free list",
    "shelves": "free lists by size class",
    "parcel": "spawn payload",
    "luggage": "outgoing or incoming fds",
    "outbox": "send queue",
    "bell": "wake-up fd",
    "door": "guard",
    "keeper": "lease",
}
SOME = re.compile("|".join(["block", "region", "chunk", "arena", *RETIRED]), re.I)
MARKS = re.compile(r"[`*]|^\s*(?://[/!]?|#|>)")
TEST = re.compile(r"\bdef test_\w+|^\s*#\[.*\n\s*(?:pub )?fn \w+")  # with the line before
THESE = ("ci/house_rules/rules/words.py", "ci/house_rules/exceptions.toml")
TESTS = "ci/house_rules/test_"


def check(tree):
    for path in [*tree.written(), *tree.files("include/shmarray.h")]:
        if path in THESE or path.startswith(TESTS):
            continue
        yield from findings(path, [path, *tree.lines(path)]) or [None]


def findings(path, lines):
    """A finding for each match of each line; line 0 is the path itself."""
    plain = [MARKS.sub("", line).strip() for line in [*lines, ""]]
    return [
        Finding(path, number, words, f'"{words}": say {instead}')
        for number, line in enumerate(lines)
        for words, instead in refused(
            lines[max(number - 1, 0) : number + 1], *plain[number : number + 2]
        )
    ]


def refused(lines, text, following):
    """What in the last line stands for a segment or is retired, with what to say instead."""
    segment = "segment, if that is what it is"
    if SOME.search(text) or SOME.match(following):
        for pattern in (TEXT, TYPE):
            for match in pattern.finditer(f"{text} {following}"):
                if match.start() < len(text):
                    yield match[0], segment
    for name in names(lines) if SOME.search(text) else ():
        parts = PARTS.findall(name)
        if is_for_a_segment([part.lower() for part in parts]):
            yield name, segment
        words = {part.lower() for part in parts}
        words |= {word.removesuffix("s") for word in words} | {name}
        for word in words & RETIRED.keys():
            yield name, RETIRED[word]


def names(lines):
    """The names in the last of the lines, but a test's own."""
    return NAME.findall(TEST.sub("", "\n".join(lines)).rpartition("\n")[2])


def is_for_a_segment(parts):
    if any(map(NEVER.fullmatch, parts)):
        return True
    return any(map(SYNONYM.match, parts)) and any(map(OF_A_SEGMENT.fullmatch, parts))
