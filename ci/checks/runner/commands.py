"""The commands of the suites: one function for each kind of command."""

import os
import shlex
import subprocess

from suite import ROOT, Suite

BINDINGS = ["-p", "shmarray-ffi", "-p", "shmarray-cli"]
EVERY_CRATE = ["-p", "shmarray", *BINDINGS, "-p", "shmarray-python", "-p", "shmarray-ruby"]
# Cargo is always given all three crates, also for the tests of one of them. It then chooses the
# same features for their dependencies each time, and compiles each dependency once.
FEATURES = "shmarray/ndarray"
CRATES = ["-p", "shmarray", *BINDINGS, "--features", FEATURES]
# For tests that compute little: core compiles in a third of the time if it is not optimised.
UNOPTIMISED = ["--config", "profile.dev.package.shmarray.opt-level=0"]
MUSL = "x86_64-unknown-linux-musl"
ARM64 = "aarch64-unknown-linux-gnu"
TARGETS = ("x86_64-pc-windows-gnu", "x86_64-apple-darwin", ARM64)
RAKE_TEST = ["rake", "--rakefile", "bindings/ruby/Rakefile", "test"]
PYTHON_SOURCES = (
    "bindings/python",
    "ci",
    "core/fuzz",
    "core/tests/behaviour/npy_corpus",
    "examples",
    "ffi/abi",
)
# For tests that mostly wait: one process more than there are cores.
IN_PROCESSES = ("-n", str(len(os.sched_getaffinity(0)) + 1), "--dist", "worksteal")
JUNIT_XML = "--junitxml={junit}/pytest.xml"
PUBLISHED_CRATES = ("-p", "shmarray", "-p", "shmarray-ffi")
BUILT = os.environ.get("CARGO_TARGET_DIR", "target")


def one_check(name, command):
    """A suite whose command is its only test."""
    return Suite(name, command, is_one_check=True)


def cargo(*arguments):
    return ["cargo", *arguments]


def nextest(*arguments):
    """Runs Rust's tests, each in a process of its own, and writes a JUnit file."""
    return ["ci/checks/runner/nextest", *arguments]


def skipping(names):
    return [word for name in names for word in ("--skip", name)]


def with_cfg(name, *command):
    """A command with one of core's cfgs.

    Its target directory is its own: other flags there would build everything again.
    """
    flags = (f"{variable}=--cfg shmarray_{name}" for variable in ("RUSTFLAGS", "RUSTDOCFLAGS"))
    built = f"CARGO_TARGET_DIR={BUILT}/{name}"
    return ["env", *flags, built, *command]


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
    return ["pytest", "-q", "-rs", JUNIT_XML, *arguments]


def with_drivers(command):
    """The command, after the drivers of all languages are built."""
    return one_after_the_other(bash("ci/checks/drivers/build"), command)


def python_tests(expression, *options):
    return pytest(*options, "bindings/python/tests", "-k", expression)


def rust(*arguments):
    """Tests of core, of the C ABI and of the command line."""
    return nextest(*CRATES, *arguments)


def rust_examples():
    """The examples in core's documentation, and in that of the C ABI and the command line."""
    return cargo("test", *CRATES, "--doc")


def each_test(names):
    """The arguments that choose these integration tests."""
    return [f"--test={name}" for name in names]


def of_modules(*names):
    """The filter that chooses the tests in these modules of integration tests."""
    return f"test(/^({'|'.join(names)})::/)"


def crashes(*tests):
    return with_cfg("steps", *nextest("-p", "shmarray", "--test", "crashes", *tests))


def portable(*tests):
    """Tests of core over the portable backend. The examples and the command line are left out: they
    need messages and channels.
    """
    return with_cfg("portable", *nextest("-p", "shmarray", "--features", FEATURES, *tests))


def next_version():
    """An invented next version of core beside what is installed."""
    return with_cfg("next", *nextest("-p", "shmarray", *UNOPTIMISED, "--test=next"))


def portable_examples():
    tests = cargo("test", "-p", "shmarray", "--features", FEATURES, "--doc")
    return with_cfg("portable", *tests)


def compiles_for(target):
    """Core and the C ABI, without what is written in C: there may be no C compiler for it."""
    crates = ["-p", "shmarray", "-p", "shmarray-ffi", "--no-default-features"]
    return cargo("check", "-q", *crates, "--target", target)


OF_MUSL = ("-p", "shmarray", "--features", FEATURES, "--target", MUSL)


def in_root(system, target, *arguments):
    """Tests of core and of the command line, compiled here and run in a root of ci/systems."""
    prefix = f"CARGO_TARGET_{target.upper().replace('-', '_')}"
    runner = f"{prefix}_RUNNER={ROOT}/ci/systems {system} --"
    linker = f"{prefix}_LINKER=aarch64-linux-gnu-gcc" if system == "arm64" else ""
    tests = nextest(*CRATES, "--target", target, *arguments)
    return ["env", runner, *filter(None, [linker]), *tests]


def clippy():
    """Every crate with all features, and core's tests of crashes."""
    strict = ("--", "-D", "warnings")
    return one_after_the_other(
        cargo("clippy", "-q", *EVERY_CRATE, "--all-targets", "--all-features", *strict),
        with_cfg("steps", *cargo("clippy", "-q", "-p", "shmarray", "--test", "crashes", *strict)),
    )


def rustdoc():
    doc = cargo("doc", "-q", "--no-deps", "--all-features", *PUBLISHED_CRATES)
    return ["env", "RUSTDOCFLAGS=-D warnings", *doc]


def stubtest():
    config = ["--mypy-config-file", "bindings/python/pyproject.toml"]
    return ["python", "-m", "mypy.stubtest", "shmarray", *config]


def release_form(command):
    """The command with the variable that asks tests for their exhaustive form."""
    return ["env", "SHMARRAY_TESTS=release", *command]


def one_after_the_other(*commands):
    return bash_line("set -e; " + "; ".join(map(shlex.join, commands)))


def other_pythons(what, arguments, module=None):
    """A suite for each further Python that ci/test found, which runs it with these arguments.

    Without the module the command is a text, the reason to skip the suite.
    """
    for venv in sorted(ROOT.glob("target/ci/venv-3.*")):
        python = str(venv / "bin/python")
        version = venv.name.removeprefix("venv-")
        command = [python, *arguments]
        if module is not None and not has_module(python, module):
            command = f"Python {version} was installed without {module}"
        yield Suite(f"Python {version}{what}", command)


def has_module(python, module):
    code = f"import importlib.util as util, sys; sys.exit(util.find_spec({module!r}) is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0


def files_of(words):
    """The files of Python's tests that are so named."""
    found = {path.stem: path for path in ROOT.glob("bindings/python/tests/**/test_*.py")}
    return [str(found[f"test_{word}"].relative_to(ROOT)) for word in words]


def only_with_numo(suite):
    """Yields the suite if a Numo is installed. If none is, ci/shell/setup.sh says so."""
    asked = subprocess.run(
        ["ruby", "-e", 'require "numo/narray"'], stderr=subprocess.DEVNULL, check=False
    )
    if asked.returncode == 0:
        yield suite
