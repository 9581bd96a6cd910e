"""Core and what it is built from have the same features in every crate of the workspace.

With another set of features anywhere below core, a binding would build core again: see the
workspace's Cargo.toml.
"""

import subprocess

from tree import Finding

ALONE = ("shmarray-python", "shmarray-ruby")  # are built by themselves
MANIFEST = "Cargo.toml"


def check(tree):
    names = {line.split()[0] for line in features(tree.root, "shmarray")}
    together = features(tree.root, "shmarray-ffi", "shmarray-cli")
    below = {line for line in together if line.split()[0] in names}
    for package in ALONE:
        there = features(tree.root, package)
        for line in sorted(below):
            says = f"{package} has other features than ffi and the command line of {line}"
            what = f"{package}: {line.split()[0]}"
            yield None if line in there else Finding(MANIFEST, 0, what, says)


def features(root, *packages):
    """Each crate that the packages are built from, with its features."""
    chosen = [word for package in packages for word in ("-p", package)]
    form = ["--edges", "normal,build", "--prefix", "none", "--format", "{p} [{f}]"]
    command = ["cargo", "tree", *chosen, *form]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return {line.removesuffix(" (*)") for line in said.splitlines() if line.strip()}
