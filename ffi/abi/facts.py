"""The facts of an ABI, as statements of C that hold only while the facts do.

A fact has a kind, the names that it is about, and values: `MEMBER(shma_options, name, 8, const char
*);` says that shma_options has a member of that name, its offset, and its type. Each kind is a
macro of recorded.c that asserts it.
"""

import re
import textwrap
from typing import NamedTuple

# How many of a kind's arguments say what the fact is about; the others are its values.
KINDS = {
    "CONSTANT": 1,
    "TEXT": 1,
    "TYPEDEF": 1,
    "OPAQUE": 1,
    "STRUCT": 1,
    "MEMBER": 2,
    "INITIALIZER": 1,
    "FUNCTION": 1,
    "SYMBOL": 1,
    "SONAME": 0,
}
STATEMENT = re.compile(rf"^({'|'.join(KINDS)})\((.*?)\);$", re.M | re.S)
HEAD = """\
// clang-format off
// The recorded ABI: what a program that was compiled with include/shmarray.h relies on. It compiles
// only with a header that still says so.
//
// Written by ffi/abi/record.py; do not edit.
#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include <shmarray.h>

#define SAME(pointer, type) _Generic((pointer), type : 1, default : 0)
#define MEMBER_OF(type, member) (((type *)0)->member)

#define CONSTANT(name, value) _Static_assert((name) == (value), #name)
#define TEXT(name) _Static_assert(sizeof(name "") != 0, #name)
#define TYPEDEF(name, type) _Static_assert(SAME((name *)0, type *), #name)
#define OPAQUE(name) extern struct name *an_opaque_##name; extern name *an_opaque_##name
#define INITIALIZER(name, type) extern type a_##name; type a_##name = name
#define FUNCTION(name, result, ...) _Static_assert(SAME(&name, result (*)(__VA_ARGS__)), #name)
// What only a linked library has.
#define SYMBOL(name, version) _Static_assert(sizeof(&name) != 0, version)
#define SONAME(name) _Static_assert(sizeof(name) != 0, name)
// Sizes are recorded for pointers of 8 bytes.
#if UINTPTR_MAX == UINT64_MAX
#define STRUCT(name, bytes, alignment) \\
    _Static_assert(sizeof(name) == (bytes) && _Alignof(name) == (alignment), #name)
#define MEMBER(structure, member, offset, type) \\
    _Static_assert(offsetof(structure, member) == (offset) && \\
        SAME(&MEMBER_OF(structure, member), __typeof__(type) *), #structure "." #member)
#else
#define STRUCT(name, bytes, alignment) _Static_assert(sizeof(name) != 0, #name)
#define MEMBER(structure, member, offset, type) \\
    _Static_assert(SAME(&MEMBER_OF(structure, member), __typeof__(type) *), #structure "." #member)
#endif

"""


class Change(NamedTuple):
    """A difference between a record and what there is now."""

    text: str
    breaks: bool  # whether it breaks programs that were compiled before


def write(facts):
    """The text of recorded.c."""
    statements = []
    for kind in KINDS:
        for (of_kind, *about), values in sorted(facts.items()):
            if of_kind == kind:
                statements.append(wrapped(kind, [*about, *values]))
    return HEAD + "\n".join(statements) + "\n"


def wrapped(kind, arguments):
    """The statement in lines that break between arguments."""
    kept_together = (argument.replace(" ", "\0") for argument in arguments)
    statement = f"{kind}({', '.join(kept_together)});"
    lines = textwrap.fill(statement, 100, subsequent_indent="    ", break_on_hyphens=False)
    return lines.replace("\0", " ")


def read(text):
    """The facts of a recorded.c."""
    facts = {}
    for kind, arguments in STATEMENT.findall(text.partition("#endif\n")[2]):
        words = split(" ".join(arguments.split()))
        facts[(kind, *words[: KINDS[kind]])] = tuple(words[KINDS[kind] :])
    return facts


def split(arguments):
    """The arguments, by the commas that are in no parentheses."""
    words = [""]
    depth = 0
    for character in arguments:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            words.append("")
        else:
            words[-1] += character
    return [word.strip() for word in words]


def compare(before, now):
    """The differences, each with whether it breaks compiled programs."""
    for fact in sorted(before.keys() | now.keys()):
        said = " ".join(fact)
        if fact not in now:
            yield Change(f"removed: {said} {', '.join(before[fact])}", True)
        elif fact not in before:
            yield Change(
                f"added: {said} {', '.join(now[fact])}", not may_be_added(fact, before, now)
            )
        elif before[fact] != now[fact]:
            was = ", ".join(before[fact])
            is_now = ", ".join(now[fact])
            fits = may_change(fact, before, now)
            yield Change(f"changed: {said} was {was} and is {is_now}", not fits)


def may_be_added(fact, before, now):
    """Anything but a member of a recorded struct; that, too, behind the end of a struct that grows.

    A member between the others, or in their padding, has no defined value in programs that were
    compiled before.
    """
    if fact[0] != "MEMBER" or ("STRUCT", fact[1]) not in before:
        return True
    end = int(before["STRUCT", fact[1]][0])
    return may_grow(fact[1], before) and int(now[fact][0]) >= end


def may_change(fact, before, now):
    """The number of dtypes and the size of some structs may grow, and nothing else may change."""
    kind, name = (*fact, None)[:2]
    if kind == "CONSTANT" and name.endswith("_COUNT"):
        return int(now[fact][0]) > int(before[fact][0])
    if kind == "STRUCT" and may_grow(name, before):
        return int(now[fact][0]) > int(before[fact][0]) and now[fact][1] == before[fact][1]
    return False


def may_grow(struct, facts):
    """A struct that says its own size, or that only the library makes: functions return it."""
    if ("MEMBER", struct, "struct_bytes") in facts:
        return True
    taken_by_pointer = re.compile(rf"(?<!const ){struct} \*")
    return not any(
        taken_by_pointer.search(parameter)
        for (kind, *_), (_, *parameters) in only_functions(facts)
        for parameter in parameters
    )


def only_functions(facts):
    return [(fact, values) for fact, values in facts.items() if fact[0] == "FUNCTION"]
