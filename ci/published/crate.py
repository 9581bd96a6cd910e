"""Checks the crate as it would be published, or the oldest Rust that it says it needs.

    python ci/published/crate.py
    python ci/published/crate.py --oldest

The package is tried where nothing of the repository is beside it. --oldest builds the workspace
and its tests with exactly the rust-version of Cargo.toml.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

BUILT = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
WORKSPACE = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
TEXTS = (
    *("README.md", "LICENSE-APACHE", "LICENSE-MIT"),
    *("FORMAT.md", "PROTOCOL.md", "CHANNELS.md", "LISTS.md"),
)
FACTS = ("description", "license", "repository", "rust-version", "keywords", "categories")
PASSED = re.compile(r"^test result: ok\. (\d+) passed", re.M)


def cargo(*arguments, cwd=ROOT, built=BUILT, **variables):
    """Runs cargo. Returns whether it succeeded, and what it printed."""
    done = subprocess.run(
        ["cargo", *arguments],
        cwd=cwd,
        env=os.environ | {"CARGO_TARGET_DIR": str(built), "CARGO_TERM_COLOR": "never"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stdout


def packed():
    """Packs the crate and builds what was packed, if possible without asking a registry."""
    package = ("package", "-p", "shmarray", "--allow-dirty")
    done, said = cargo(*package, "--offline")
    return (done, said) if done else cargo(*package)


def unpacked(folder):
    name = f"shmarray-{WORKSPACE['version']}"
    with tarfile.open(BUILT / f"package/{name}.crate") as archive:
        # Python before 3.11.4 has no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    package = folder / name
    for file in package.rglob("*"):
        os.utime(file)  # cargo writes 2006, and would take what it built of another version
    return package


def texts(package):
    """The texts are the repository's, whole."""
    differ = [name for name in TEXTS if not is_the_same(package / name, ROOT / "core" / name)]
    return not differ, f"differs or is missing: {differ}"


def is_the_same(file, original):
    return file.is_file() and file.stat().st_size and file.read_bytes() == original.read_bytes()


def facts(package):
    """Cargo.toml has what a registry shows and what its builder of documentation needs."""
    manifest = tomllib.loads((package / "Cargo.toml").read_text())["package"]
    absent = [name for name in FACTS if not manifest.get(name)]
    with_all = manifest.get("metadata", {}).get("docs", {}).get("rs", {}).get("all-features")
    return not absent and with_all is True, f"without {absent}; docs.rs all-features: {with_all}"


def doctests(package):
    """The examples compile and pass, among them the README's."""
    done, said = cargo("test", "--doc", "--all-features", "--locked", cwd=package)
    ran = sum(map(int, PASSED.findall(said)))
    return done and ran > 1 and bool(re.search(r"^test .*Readme.* ok$", said, re.M)), said


def documentation(package):
    doc = ("doc", "--no-deps", "--all-features", "--locked")
    return cargo(*doc, cwd=package, RUSTDOCFLAGS="-D warnings")


def checked(*features):
    return lambda package: cargo("check", "--locked", *features, cwd=package)


def of_the_package():
    yield "cargo packs the crate, and builds what it packed", packed()
    with tempfile.TemporaryDirectory() as folder:
        package = unpacked(Path(folder))
        for name, check in (
            ("README, licences and documents are in the package", texts),
            ("keywords, categories and all features in the documentation", facts),
            ("the examples pass from the package", doctests),
            ("the documentation builds from the package", documentation),
            ("the package builds with all features", checked("--all-features")),
            ("the package builds without features", checked("--no-default-features")),
        ):
            yield name, check(package)


def of_the_oldest():
    oldest = WORKSPACE["rust-version"]
    major, minor = map(int, oldest.split("."))
    before = f"{major}.{minor - 1}"
    check = ("check", "--workspace", "--all-targets", "--locked")
    yield f"Rust {oldest} builds the workspace and its tests", with_rust(oldest, *check)
    core = ("check", "-p", "shmarray", "--locked")
    done, said = with_rust(before, *core)
    refused = not done and f"requires rustc {oldest}" in said
    yield f"with Rust {before} cargo says which version is needed", (refused, said)
    done, said = with_rust(before, *core, "--ignore-rust-version")
    # A dependency that needs the same version is compiled first, and core is not reached.
    fails = not done and bool(re.search(r"^error\[E\d+\]", said, re.M))
    name = f"Rust {before} does not compile core and what it needs: the version is not too high"
    yield name, (fails and "could not compile `" in said, said)


def with_rust(version, *arguments):
    """Runs cargo of a toolchain, which is installed if it is not there."""
    there, _ = cargo(f"+{version}", "--version")
    if not there:
        install = ["rustup", "toolchain", "install", version, "--profile", "minimal"]
        subprocess.run(install, check=True, stdout=sys.stderr)
    return cargo(f"+{version}", *arguments, built=BUILT / "oldest")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--oldest", action="store_true")
    checks = of_the_oldest if arguments.parse_args().oldest else of_the_package
    outcomes = []
    for name, (holds, said) in checks():
        outcomes.append((name, "passed" if holds else "failed"))
        print(f"{name}: {'ok' if holds else 'FAILED'}", flush=True)
        if not holds:
            print(said)
    sys.exit(junit.close("crate", outcomes))


if __name__ == "__main__":
    main()
