"""Whoever builds the package without a Rust that serves is told what to do, before any download."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

BACKEND = Path(__file__).parents[1]
HOOK = "import build_backend; print(build_backend.get_requires_for_build_wheel())"


def asked(path):
    """Asks the hook that pip calls first, with programs of this folder alone."""
    return subprocess.run(
        [sys.executable, "-c", HOOK],
        cwd=BACKEND,
        env=os.environ | {"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )


def cargo(folder, says):
    program = folder / "cargo"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(stat.S_IRWXU)
    return folder


@pytest.mark.parametrize(
    ("says", "found"),
    [
        (None, "no cargo was found"),
        ("echo cargo 1.63.0", "cargo 1.63.0 was found"),
        ("echo no toolchain >&2; exit 1", "no toolchain"),
    ],
    ids=["none", "old", "broken"],
)
def test_a_lack_of_rust_is_said_with_its_remedy(tmp_path, says, found):
    pytest.importorskip("maturin")
    done = asked(cargo(tmp_path, says) if says else tmp_path)
    assert done.returncode == 1
    assert found in done.stderr
    assert "takes Rust 1.88 or later" in done.stderr
    assert "rustup" in done.stderr


def test_with_rust_nothing_else_is_asked_for(tmp_path):
    pytest.importorskip("maturin")
    done = asked(cargo(tmp_path, "echo 'cargo 1.88.0 (873a06493 2025-05-10)'"))
    assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
