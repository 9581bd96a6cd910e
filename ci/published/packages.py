"""Checks that every package for users has the licences' texts and all its sources.

    . ci/env; python ci/published/packages.py

What is compiled, for machines or as sources, says which crates are inside. The wheel is the
installed one, the library is installed again; the sdist, the gem and the crates are packed for
this.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)
import sbom  # noqa: E402 (which needs the folder, too)

LICENCES = {path.name: path.read_bytes() for path in sorted(ROOT.glob("LICENSE*"))}
# Of the crates that are compiled in: a package of sources alone has none.
THIRD_PARTY = "THIRD-PARTY-LICENSES"
CRATES = {"shmarray": "core", "shmarray-ffi": "ffi", "shmarray-cli": "bindings/cli"}
SOURCES = ("core/src/lib.rs", "bindings/cli/src/lib.rs", "bindings/python/src/lib.rs")


def run(*command, cwd):
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def wheel(_):
    """The texts that pip has installed with the wheel."""
    files = metadata.files("shmarray-numpy")
    folders = "licenses", "sboms"
    return {path.name: path.read_binary() for path in files if path.parent.name in folders}


def library(folder):
    run(ROOT / "ci/install", "--sbom", f"prefix={folder}", cwd=ROOT)
    return {path.name: path.read_bytes() for path in (folder / "share/doc/shmarray").iterdir()}


def sdist(folder):
    run("maturin", "sdist", "--out", folder, cwd=ROOT / "bindings/python")
    (path,) = folder.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        return contents(archive, lambda name: name.partition("/")[2])


def gem(folder):
    run(ROOT / "bindings/ruby/stage", folder, cwd=ROOT)
    shutil.copy(sbom.MADE / "shmarray-ruby.cdx.json", folder)
    run("gem", "build", "numo-shared.gemspec", "--output", "it.gem", cwd=folder)
    with (
        tarfile.open(folder / "it.gem") as outer,
        tarfile.open(fileobj=outer.extractfile("data.tar.gz")) as archive,
    ):
        return contents(archive, lambda name: name)


def contents(archive, named):
    """The bytes of the archive's regular files, by name. A symbolic link to a text is no text."""
    return {
        named(member.name): archive.extractfile(member).read()
        for member in archive
        if member.isreg()
    }


def crate(name):
    """The files that cargo packs; of a symbolic link it packs the target."""
    listed = run("cargo", "package", "--list", "--allow-dirty", "-p", name, cwd=ROOT).splitlines()
    folder = ROOT / CRATES[name]
    return {file: (folder / file).read_bytes() for file in listed if (folder / file).is_file()}


def missing(files, wanted=()):
    """The names of the texts and sources that a package lacks."""
    texts = [name for name, text in LICENCES.items() if files.get(name) != text]
    return texts + [name for name in wanted if name not in files]


def each():
    """Yields each package with the names that it lacks."""
    for pack, wanted in (
        (wheel, (THIRD_PARTY, "shmarray-python.cyclonedx.json")),
        (library, (THIRD_PARTY, "shmarray-ffi.cdx.json", "shmarray-cli.cdx.json")),
        (sdist, (THIRD_PARTY, *SOURCES)),
        (gem, (THIRD_PARTY, "shmarray-ruby.cdx.json", "ext/core/src/lib.rs", "ext/core/LICENSE")),
    ):
        with tempfile.TemporaryDirectory() as folder:
            yield pack.__name__, missing(pack(Path(folder)), wanted)
    for name in CRATES:
        yield f"crate {name}", missing(crate(name), ("src/lib.rs",))


def main():
    assert len(LICENCES) == 3, LICENCES.keys()
    sbom.main()
    outcomes = []
    for package, names in each():
        outcomes.append((package, "failed" if names else "passed"))
        print(f"{package}: {'FAILED: without ' + ', '.join(names) if names else 'whole'}")
    sys.exit(junit.close("packages", outcomes))


if __name__ == "__main__":
    main()
