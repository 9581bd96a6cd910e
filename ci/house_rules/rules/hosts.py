"""No file names the host of a package registry: each tool's own settings say where packages are."""

import re

from tree import Finding

HOSTS = re.compile(
    r"https?://(?:index\.)?"
    r"(?:crates\.io|pypi\.org|rubygems\.org|registry\.npmjs\.org|deb\.debian\.org)"
)
ENDINGS = (".rs", ".py", ".rb", ".hpp", ".c", ".cpp", ".h", ".md", ".toml", ".sh")
MAY = {"CHANGELOG.md"}


def check(tree):
    for path in tree.files(*ENDINGS):
        if path.rpartition("/")[2] in MAY:
            continue
        yield from findings(path, tree.lines(path)) or [None]


def findings(path, lines):
    hosts = ((number, HOSTS.search(line)) for number, line in enumerate(lines, 1))
    return [
        Finding(path, number, host[0], f"the line names {host[0]}")
        for number, host in hosts
        if host
    ]
