"""Writes SHA256SUMS and manifest.json for the packages in a folder: which files there are, of what
kind and for which machine, and the C library that each needs at least.

    python ci/published/manifest.py FOLDER --version VERSION --commit COMMIT
"""

import argparse
import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

MADE_HERE = ("SHA256SUMS", "manifest.json")
KINDS = {".whl": "wheel", ".gem": "gem", ".crate": "crate", ".json": "sbom"}
ARCHITECTURE = re.compile("x86_64|aarch64")


def kind(path):
    if path.name.startswith("shmarray_numpy") and path.name.endswith(".tar.gz"):
        return "sdist"
    return KINDS.get(path.suffix, "C library and command")


def members(path):
    """Yields the bytes of each file in a wheel or a .tar.gz."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield archive.read(name)
    elif path.name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes())) as archive:
            for member in archive:
                if member.isreg():
                    yield archive.extractfile(member).read()


def glibc(path):
    """The newest version of glibc that a program or library inside asks for, or None."""
    newest = ()
    for content in members(path):
        if content.startswith(b"\x7fELF"):
            with tempfile.NamedTemporaryFile() as file:
                file.write(content)
                file.flush()
                symbols = subprocess.run(
                    ["objdump", "-T", file.name], capture_output=True, text=True, check=False
                ).stdout
            for found in re.findall(r"GLIBC_(\d+)\.(\d+)", symbols):
                newest = max(newest, tuple(map(int, found)))
    return ".".join(map(str, newest)) or None


def described(path):
    content = path.read_bytes()
    facts = {
        "file": path.name,
        "kind": kind(path),
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    if found := ARCHITECTURE.search(path.name):
        facts["architecture"] = found[0]
        facts["c_library"] = f"glibc {needed}" if (needed := glibc(path)) else "musl"
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--commit", required=True)
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.folder.iterdir() if path.name not in MADE_HERE)
    if not paths:
        raise SystemExit(f"nothing is in {arguments.folder}")
    files = [described(path) for path in paths]
    manifest = {"version": arguments.version, "commit": arguments.commit, "files": files}
    (arguments.folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    sums = "".join(f"{one['sha256']}  {one['file']}\n" for one in files)
    (arguments.folder / "SHA256SUMS").write_text(sums)


if __name__ == "__main__":
    main()
