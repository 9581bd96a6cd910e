#!/usr/bin/env python3
"""Records the ABI of the C library, or checks that it is the recorded one.

    ffi/abi/record.py            adds what the header and the list of symbols have in addition
    ffi/abi/record.py --check    fails if they, or an installed library, differ from the record
    ffi/abi/record.py --break    records also what breaks programs that were compiled before

The record is recorded.c, which compiles only with a header that has every recorded function,
constant and struct as it was, and recorded.symbols. It only grows. After a version of an ABI number
has been released, --break needs another ABI number (the major version), and with it comes another
name of the library.
"""

import argparse
import re
import sys
from pathlib import Path

import facts
import symbols
from header import NotCompiled, facts_of, run

ROOT = Path(__file__).resolve().parents[2]
RELEASE = re.compile(r"^## \[?v?(\d+)\.\d+\.\d+", re.M)


def options(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--break", action="store_true", dest="breaks")
    parser.add_argument("--header", type=Path, default=ROOT / "include/shmarray.h")
    parser.add_argument("--map", type=Path, default=ROOT / "include/shmarray.map")
    parser.add_argument("--library", type=Path, help="an installed shared library to check")
    parser.add_argument("--record", type=Path, default=Path(__file__).parent, metavar="FOLDER")
    parser.add_argument("--changelog", type=Path, default=ROOT / "CHANGELOG.md")
    return parser.parse_args(arguments)


def abi_number():
    """The major version, which is the number in the library's name."""
    return re.search(r'^version = "(\d+)\.', (ROOT / "Cargo.toml").read_text(), re.M)[1]


def recorded(folder, name, read):
    path = folder / name
    return read(path.read_text()) if path.exists() else {}


def differences(chosen):
    """What differs from the record, and what there is now."""
    before = recorded(chosen.record, "recorded.c", facts.read)
    linked = recorded(chosen.record, "recorded.symbols", symbols.read)
    now = facts_of(chosen.header)
    if chosen.library:
        exported = symbols.of_library(chosen.library)
    else:
        soname = f"libshmarray.so.{abi_number()}"
        exported = symbols.of_map(chosen.map.read_text(), soname)
    changes = [*facts.compare(before, now), *symbols.compare(linked, exported)]
    return changes, now, exported


def check(chosen, changes, now):
    """Prints what differs. The header is compiled, too, by the compiler that programs use."""
    for change in changes:
        print(f"FAILED: {'breaks the ABI' if change.breaks else 'not recorded'}: {change.says}")
    if not now:
        print("FAILED: the header has nothing to record")
        return 1
    if changes:
        print(ADVICE)
        return 1
    source = chosen.record / "recorded.c"
    strict = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    run("cc", *strict, f"-I{chosen.header.parent}", source)
    print(f"the ABI is the recorded one: {len(now)} facts")
    return 0


ADVICE = """\
An addition is recorded by ffi/abi/record.py. What breaks the ABI breaks programs that were compiled
before: undo it, or see --break in ffi/abi/record.py."""


def record(chosen, changes, now, exported):
    breaking = [change.says for change in changes if change.breaks]
    if breaking and not chosen.breaks:
        print("not recorded, since it breaks the ABI:", *breaking, sep="\n  ")
        return 1
    released = RELEASE.findall(chosen.changelog.read_text())
    of_record = recorded(chosen.record, "recorded.symbols", symbols.read).get("soname", "")
    if breaking and abi_number() in released and exported["soname"] == of_record:
        print(f"not recorded: a version of ABI {abi_number()} has been released, and", *breaking)
        return 1
    (chosen.record / "recorded.c").write_text(facts.write(now))
    (chosen.record / "recorded.symbols").write_text(symbols.write(exported))
    print(*(change.says for change in changes), f"recorded: {len(now)} facts", sep="\n")
    return 0


def main(arguments=None):
    chosen = options(arguments)
    try:
        changes, now, exported = differences(chosen)
        if chosen.check:
            return check(chosen, changes, now)
    except NotCompiled as failed:
        print(f"FAILED: {failed}")
        return 1
    return record(chosen, changes, now, exported)


if __name__ == "__main__":
    sys.exit(main())
