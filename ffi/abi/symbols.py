"""The symbols of a library, each with its version, and the soname: what dynamic linking relies on.

A line of recorded.symbols is `shma_sweep SHMARRAY_0.1`, or `soname libshmarray.so.0`.
"""

import re

from facts import Change
from header import run

NODE = re.compile(r"^(\w+\.\w+) \{(.*?)^\}", re.M | re.S)
LISTED = re.compile(r"^\s*(\w+);", re.M)


def of_map(text, soname):
    """The symbols that a version script lists."""
    listed = {"soname": soname}
    for version, body in NODE.findall(text):
        listed |= dict.fromkeys(LISTED.findall(body), version)
    return listed


def of_library(path):
    """The symbols that a shared library exports."""
    exported = {}
    for line in readelf("--dyn-syms", path):
        words = line.split()
        if len(words) == 8 and words[6].isdigit() and words[4] in ("GLOBAL", "WEAK", "UNIQUE"):
            name, _, version = words[7].partition("@")
            exported[name] = version.lstrip("@")
    for line in readelf("--dynamic", path):
        if soname := re.search(r"\(SONAME\).*\[(.*)\]", line):
            exported["soname"] = soname[1]
    # The versions themselves are symbols, too.
    return {name: version for name, version in exported.items() if name != version}


def readelf(what, path):
    return run("readelf", "--wide", what, path).splitlines()


def write(symbols):
    return "".join(f"{name} {version}\n" for name, version in sorted(symbols.items()))


def read(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def compare(before, now):
    for name in sorted(before.keys() | now.keys()):
        was, is_now = before.get(name), now.get(name)
        if is_now is None:
            yield Change(f"removed: the symbol {name}, which was in {was}", True)
        elif was is None:
            yield Change(f"added: the symbol {name} in {is_now}", False)
        elif was != is_now:
            yield Change(f"changed: {name} was in {was} and is in {is_now}", True)
