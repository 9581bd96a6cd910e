"""Checks the crates that are compiled in: their licences, versions, sources and advisories.

    . ci/env; python ci/published/crates.py

`deny.toml`, beside this file, says what cargo-deny allows. THIRD-PARTY-LICENSES has to name each
crate.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

DENY = ("cargo-deny", "--config", ROOT / "ci/published/deny.toml")
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
PACKAGES = ("shmarray-ffi", "shmarray-cli", "shmarray-python", "shmarray-ruby")
CRATE = re.compile(r"^(\S+) v(\S+)(?: \(\*\))?$", re.M)
NAMED = re.compile(r"^  (\S+) (\S+)$", re.M)


def run(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def deny(*checks):
    status, said = run(*DENY, "check", *checks)
    if status:
        print(said)
    return "failed" if status else "passed"


def advisories():
    """The database is no crate, and not every network leads to it."""
    status, said = run(*DENY, "fetch", "db")
    if status:
        return f"skipped: no advisories: {said.strip().splitlines()[-1]}"
    return deny("advisories")


def compiled_in(*packages):
    """The name and version of each crate that is in these packages, without ours and without
    macros.
    """
    crates = set()
    for target in TARGETS:
        options = ("-e", "normal,no-proc-macro", "--prefix", "none", "--locked", "--target", target)
        named = [word for package in packages for word in ("-p", package)]
        status, said = run("cargo", "tree", *options, *named)
        if status:
            raise SystemExit(said)
        crates.update(CRATE.findall(said))
    return crates


def licences():
    named = set(NAMED.findall((ROOT / "THIRD-PARTY-LICENSES").read_text("utf-8")))
    crates = compiled_in(*PACKAGES)
    assert len(crates) > 20, crates
    for name, version in sorted(crates - named):
        print(f"THIRD-PARTY-LICENSES lacks {name} {version}: run ci/licences")
    return "passed" if crates <= named else "failed"


def main():
    outcomes = [
        ("licences, duplicates, sources", deny("licenses", "bans", "sources")),
        ("advisories", advisories()),
        ("THIRD-PARTY-LICENSES", licences()),
    ]
    for name, outcome in outcomes:
        print(f"{name}: {outcome}")
    sys.exit(junit.close("crates", outcomes))


if __name__ == "__main__":
    main()
