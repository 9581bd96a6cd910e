"""No file names the host of a package registry: each tool's own settings say where packages are.

Addresses count with or without a scheme, in every file that people write but a change log.
"""

import re

from tree import Finding

HOSTS = re.compile(
    r"(?:\b[a-z+]+:)?//(?:[^\s/@]+@)?(?:[\w-]+\.)*"
    r"(?:crates\.io|pypi\.org|pypi\.python\.org|pythonhosted\.org|rubygems\.org|npmjs\.(?:org|com)"
    r"|yarnpkg\.com|proxy\.golang\.org|(?:deb|ftp|security|archive)\.(?:debian\.org|ubuntu\.com))"
    r"|\b(?:[\w-]+\.)*(?:crates\.io|pypi\.org|pythonhosted\.org|rubygems\.org)/"
    r"|\bcrates\.io-index\b",
    re.I,
)
MAY = {"CHANGELOG.md"}


def check(tree):
    for path in tree.written():
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
