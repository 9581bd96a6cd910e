"""The commands of the suites: one function for each kind of command."""

import shlex
import subprocess

from counting import counted_line, pytest_line
from running import ROOT

BINDINGS = ["-p", "shmarray-ffi", "-p", "shmarray-cli"]
EVERY_CRATE = ["-p", "shmarray", *BINDINGS, "-p", "shmarray-python", "-p", "shmarray-ruby"]
# All tests of core are built with the same features, so that its dependencies are compiled once.
FEATURES = "ndarray"
# Shows what a test prints when it finds that it cannot run here.
SAYING = ["--", "--show-output"]
MUSL = "x86_64-unknown-linux-musl"
TARGETS = ("x86_64-pc-windows-gnu", "x86_64-apple-darwin", "aarch64-unknown-linux-gnu")
RAKE_TEST = ["rake", "--rakefile", "bindings/ruby/Rakefile", "test"]
PYTHON_SOURCES = ("bindings/python", "ci", "core/fuzz", "examples", "ffi/abi")
PUBLISHED_CRATES = ("-p", "shmarray", "-p", "shmarray-ffi")


def cargo(*arguments):
    return ["cargo", *arguments]


def bash(script, *arguments):
    return ["bash", script, *arguments]


def bash_line(line):
    return ["bash", "-c", line]


def python(script, *arguments):
    return ["python", script, *arguments]


def foreign(script, *arguments):
    """Another project's tests, run with shmarray in place of what they test."""
    return python(f"bindings/python/foreign/{script}", *arguments)


def pytest(*arguments):
    return ["pytest", "-q", "-rs", *arguments]


def python_tests(expression):
    return pytest("bindings/python/tests", "-k", expression)


def core(*arguments):
    return cargo("test", "-p", "shmarray", "--features", FEATURES, *arguments)


def crashes(*tests):
    features = f"steps,{FEATURES}"
    return cargo(
        "test", "-p", "shmarray", "--features", features, "--test", "crashes", "--", *tests
    )


def portable(*tests):
    """Core with the portable backend.

    The examples are left out: the conformance tests' driver lies where they would be put.
    """
    return cargo("test", "-p", "shmarray", "--features", f"portable,{FEATURES}", *tests)


def musl(tests, *others):
    """These of core/tests under musl, and what `others` choose of the rest."""
    return core("--target", MUSL, *(f"--test={name}" for name in tests), *others)


def clippy():
    features = ["--features", "shmarray/ndarray,shmarray/steps"]
    return cargo("clippy", "-q", *EVERY_CRATE, "--all-targets", *features, "--", "-D", "warnings")


def rustdoc():
    doc = cargo("doc", "-q", "--no-deps", *PUBLISHED_CRATES)
    return ["env", "RUSTDOCFLAGS=-D warnings", *doc]


def stubtest():
    config = ["--mypy-config-file", "bindings/python/pyproject.toml"]
    return ["python", "-m", "mypy.stubtest", "shmarray", *config]


def long_form(command):
    """The command with the variable that asks tests for their exhaustive form."""
    return ["env", "SHMARRAY_LONG=1", *command]


def one_after_the_other(*commands):
    return bash_line("set -e; " + "; ".join(map(shlex.join, commands)))


def other_pythons(words):
    """A suite for each further Python that ci/test found, with the files of tests so named."""
    files = [f"bindings/python/tests/test_{word}.py" for word in words]
    for venv in sorted(ROOT.glob("target/ci/venv-3.*")):
        command = [str(venv / "bin/python"), "-m", "pytest", "-q", "-rs", *files]
        yield f"Python {venv.name.removeprefix('venv-')}", command, pytest_line


def numo_examples():
    """The suite of Ruby's examples where a Numo is installed.

    ci/shell/setup.sh says so where there is none.
    """
    asked = subprocess.run(
        ["ruby", "-e", 'require "numo/narray"'], stderr=subprocess.DEVNULL, check=False
    )
    if asked.returncode == 0:
        compare = ["ruby", "examples/ruby/compare.rb", "--small", "--rounds", "1"]
        yield "examples: Ruby", compare, counted_line
