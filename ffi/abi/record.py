#!/usr/bin/env python3
"""Records the ABI of the C library, or checks that it is the recorded one.

    ffi/abi/record.py            adds what the header has in addition, also to the list of symbols
    ffi/abi/record.py --check    fails if they, or an installed library, differ from the record
    ffi/abi/record.py --break    records also what breaks programs that were compiled before

The record is recorded.c, which compiles only with a header that has every recorded function,
constant and struct as it was. It also has the version of each symbol. It only grows. After a
version of an ABI number has been released, --break needs another ABI number (the major version),
and with it comes another name of the library.
"""

import argparse
import re
import sys
from pathlib import Path

import facts
import version_script
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


def version():
    """The major version, which is the number of the ABI, and the minor one."""
    return re.search(r'^version = "(\d+)\.(\d+)', (ROOT / "Cargo.toml").read_text(), re.M).groups()


def differences(chosen):
    """What differs from the record, what was recorded, and what there is now."""
    path = chosen.record / "recorded.c"
    before = facts.read(path.read_text()) if path.exists() else {}
    now = facts_of(chosen.header)
    if not chosen.check:
        add_to_map(chosen.map, {fact[1] for fact in now if fact[0] == "FUNCTION"})
    if chosen.library:
        linked = version_script.of_library(chosen.library)
    else:
        soname = f"libshmarray.so.{version()[0]}"
        linked = version_script.of_map(chosen.map.read_text(), soname)
    now |= linked
    return list(facts.compare(before, now)), before, now


def add_to_map(path, functions):
    node = f"SHMARRAY_{'.'.join(version())}"
    path.write_text(version_script.with_functions(path.read_text(), functions, node))


def check(chosen, changes, now):
    """Prints what differs. The header is compiled, too, by the compiler that programs use."""
    for change in changes:
        print(f"FAILED: {'breaks the ABI' if change.breaks else 'not recorded'}: {change.text}")
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


def record(chosen, changes, before, now):
    breaking = [change.text for change in changes if change.breaks]
    if breaking and not chosen.breaks:
        print("not recorded, since it breaks the ABI:", *breaking, sep="\n  ")
        return 1
    released = RELEASE.findall(chosen.changelog.read_text())
    abi, _ = version()
    if breaking and abi in released and now["SONAME",] == before.get(("SONAME",)):
        print(f"not recorded: a version of ABI {abi} has been released, and", *breaking)
        return 1
    (chosen.record / "recorded.c").write_text(facts.write(now))
    print(*(change.text for change in changes), f"recorded: {len(now)} facts", sep="\n")
    return 0


def main(arguments=None):
    chosen = options(arguments)
    try:
        changes, before, now = differences(chosen)
        if chosen.check:
            return check(chosen, changes, now)
    except NotCompiled as failed:
        print(f"FAILED: {failed}")
        return 1
    return record(chosen, changes, before, now)


if __name__ == "__main__":
    sys.exit(main())
