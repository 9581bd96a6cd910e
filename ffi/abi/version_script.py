"""The symbols of a library, each with its version, and the soname: what dynamic linking relies on.

The version script `include/shmarray.map` lists the symbols, in a node for each version of the
library that came with some.
"""

import re

from header import run

NODE = re.compile(r"^(\w+\.\w+) \{(.*?)^\}", re.M | re.S)
LISTED = re.compile(r"^\s*(\w+);", re.M)
GLOBAL = "  global:\n"


def facts(symbols, soname):
    found = {("SYMBOL", name): (f'"{version}"',) for name, version in symbols.items()}
    return found | {("SONAME",): (f'"{soname}"',)}


def of_map(text, soname):
    """The facts of the symbols that a version script lists."""
    listed = {}
    for version, body in NODE.findall(text):
        listed |= dict.fromkeys(LISTED.findall(body), version)
    return facts(listed, soname)


def of_library(path):
    """The facts of the symbols that a shared library exports."""
    exported = {}
    soname = ""
    for line in readelf("--dyn-syms", path):
        words = line.split()
        if len(words) == 8 and words[6].isdigit() and words[4] in ("GLOBAL", "WEAK", "UNIQUE"):
            name, _, version = words[7].partition("@")
            exported[name] = version.lstrip("@")
    for line in readelf("--dynamic", path):
        if found := re.search(r"\(SONAME\).*\[(.*)\]", line):
            soname = found[1]
    # The versions themselves are symbols, too.
    return facts({name: node for name, node in exported.items() if name != node}, soname)


def readelf(what, path):
    return run("readelf", "--wide", what, path).splitlines()


def with_functions(text, functions, version):
    """The version script with each function that it lacks, in the node of this version."""
    listed = {name for _, body in NODE.findall(text) for name in LISTED.findall(body)}
    added = sorted(functions - listed)
    if not added:
        return text
    nodes = [name for name, _ in NODE.findall(text)]
    if version not in nodes:
        text += f"{version} {{\n{GLOBAL}}} {nodes[-1]};\n"
    head, node, rest = text.partition(f"{version} {{\n{GLOBAL}")
    return head + node + "".join(f"    {name};\n" for name in added) + rest
