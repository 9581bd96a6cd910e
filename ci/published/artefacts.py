"""Installs each package of a folder from nothing but itself, and uses it.

    python ci/published/artefacts.py target/release-artefacts

Whoever installs has no clone: everything runs in new folders elsewhere. The C library, the command,
the wheel and the gem then meet at one array. Wheels for other machines are looked at, not run.
"""

import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

PACKAGING = Path(__file__).resolve().parents[1] / "packaging"
HERE = platform.machine()

HOLD = """
import shmarray
a = shmarray.full((2, 3), 7, "i4", name="met")
print(shmarray.__version__, flush=True)
input()
"""
READ = 'require "shmarray"; puts Shmarray::Array.attach("met").to_a.inspect, Shmarray::VERSION'


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    print("$", *command, "\n" + done.stdout, flush=True)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed")
    return done.stdout


class Installed:
    """The packages in a folder, each installed below another one."""

    def __init__(self, packages, folder):
        self.packages = packages
        self.folder = folder
        self.segments = folder / "segments"
        self.segments.mkdir()
        self.environment = os.environ | {
            "SHMARRAY_DIR": str(self.segments),
            "GEM_HOME": str(folder / "gems"),
            "CARGO_TARGET_DIR": str(folder / "target"),
        }
        self.run = lambda *command: run(*command, cwd=folder, env=self.environment)

    def one(self, pattern):
        (path,) = self.packages.glob(pattern)
        return path

    def python(self, name, package):
        """A Python with the package and what that needs."""
        venv.create(self.folder / name, with_pip=True)
        python = self.folder / name / "bin/python"
        self.run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", package)
        return python

    def gem(self):
        self.run("gem", "install", "--local", "--no-document", self.one("*.gem"))

    def c_library(self):
        """The folder with the C library of this machine."""
        with tarfile.open(self.one(f"shmarray-*-{HERE}-linux-gnu.tar.gz")) as archive:
            archive.extractall(self.folder, filter="data")
        (prefix,) = self.folder.glob(f"shmarray-*-{HERE}-linux-gnu")
        self.environment["PKG_CONFIG_PATH"] = str(prefix / "lib/pkgconfig")
        flags = self.run("pkg-config", "--cflags", "--libs", "shmarray").split()
        for source, compiler in ((PACKAGING / "use.c", "cc"), (PACKAGING / "use.cpp", "c++")):
            program = self.folder / f"uses-{compiler}"
            self.run(compiler, source, "-o", program, *flags, f"-Wl,-rpath,{prefix}/lib")
            self.run(program)
        return prefix

    def crates(self):
        """Builds the command of the crates alone, which are no one's members here."""
        for crate in self.packages.glob("*.crate"):
            with tarfile.open(crate) as archive:
                archive.extractall(self.folder / "crates", filter="data")
        (core,) = (self.folder / "crates").glob("shmarray-[0-9]*")
        (command,) = (self.folder / "crates").glob("shmarray-cli-*")
        patch = f'patch.crates-io.shmarray.path="{core}"'
        manifest = command / "Cargo.toml"
        self.run("cargo", "run", "-q", "--config", patch, "--manifest-path", manifest, "--", "ls")

    def wheels_keep_their_policy(self):
        """Those for glibc: auditwheel reads the libraries of this machine, which has no musl."""
        for wheel in self.packages.glob("*manylinux*.whl"):
            shown = self.run(sys.executable, "-m", "auditwheel", "show", "--json", wheel)
            tag = json.loads(shown[shown.index("{") :])["overall_tag"]
            assert tag in wheel.name, f"{wheel.name} is {tag}"

    def meet(self, python, prefix):
        """The wheel's array, seen by the command and by the gem."""
        holder = subprocess.Popen(
            [python, "-c", HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        version = holder.stdout.readline().strip()
        listed = json.loads(self.run(prefix / "bin/shmarray", "ls", "--json"))
        assert [one["name"] for one in listed["segments"] if one["name"]] == ["met"]
        read = self.run("ruby", "-e", READ).splitlines()
        assert read == ["[[7, 7, 7], [7, 7, 7]]", version], read
        holder.communicate("")
        assert version == self.run(prefix / "bin/shmarray", "--version").split()[-1]


def main():
    packages = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        installed = Installed(packages, Path(folder))
        installed.run("sh", "-c", f"cd {packages} && sha256sum --quiet -c SHA256SUMS")
        installed.wheels_keep_their_policy()
        prefix = installed.c_library()
        installed.gem()
        installed.meet(installed.python("wheel", installed.one(f"*manylinux*{HERE}.whl")), prefix)
        source = installed.python("sdist", installed.one("shmarray_numpy-*.tar.gz"))
        installed.run(source, "-c", "import shmarray; print(shmarray.zeros(3).sum())")
        installed.crates()


if __name__ == "__main__":
    main()
