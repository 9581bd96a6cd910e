"""Builds the package by maturin, after a look whether the Rust that it needs is there.

Without Rust maturin would download one, and fail without a word of this package where it cannot.
"""

import os
import re
import shutil
import subprocess

from maturin import (  # noqa: F401 (hooks that need no Rust, or are asked after the look)
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

NEEDED = (1, 88)
REMEDY = (
    "shmarray-numpy is built from its sources here, which takes Rust 1.88 or later and some"
    " three minutes of one core. Install Rust by rustup (https://rustup.rs), or `rustup update"
    " stable`, and try again. The wheels of a release need no Rust."
)


def _lack():
    """Returns what is wrong with the Rust of this machine; None if nothing is."""
    cargo = shutil.which(os.environ.get("CARGO", "cargo"))
    if cargo is None:
        return "no cargo was found"
    said = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"cargo (\d+)\.(\d+)", said.stdout)
    if found is None:
        return f"{cargo} --version fails: {said.stderr.strip()}"
    if tuple(map(int, found.groups())) < NEEDED:
        return f"{said.stdout.strip()} was found"
    return None


def _look():
    if lack := _lack():
        raise SystemExit(f"\n{lack}. {REMEDY}\n")


def get_requires_for_build_wheel(config_settings=None):  # noqa: ARG001 (a hook's arguments)
    _look()
    return []


def get_requires_for_build_editable(config_settings=None):  # noqa: ARG001
    _look()
    return []
