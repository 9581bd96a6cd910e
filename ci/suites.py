"""Runs every suite of tests and checks, and ends with what was skipped, a table, and one line of counts.

    . ci/env; python ci/suites.py [WORD …]      only the suites whose names contain one of the words

A suite fails when its command fails, when a test in it fails, and when it ran no test. None has a
time limit; what takes very long is shown at its work. Two run at a time, since half of them use
one core. Those that take longest begin first, so that no core is idle in the end; the others follow
in the order of the list.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import processes

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS = ROOT / "target/ci/logs"
AT_ONCE = 2
LONGEST = (
    "Python",
    "Miri",
    "sanitizers: threads in core",
    "C and C++",
    "valgrind: C and Ruby",
    "core, crashes",
    "core",
    "loom",
    "Python: CPython's tests of multiprocessing",
    "sanitizers: C and C++",
    "Ruby",
)
LONG_SECONDS = 900
RUST_FILES = ["-p", "shmarray", "-p", "shmarray-ffi", "-p", "shmarray-cli"]
EVERY_CRATE = [*RUST_FILES, "-p", "shmarray-python", "-p", "shmarray-ruby"]
FEATURES = "half,num-complex,ndarray"
PORTABLE = f"""set -e
portable() {{ cargo test -p shmarray --features portable,{FEATURES} "$@"; }}
portable --lib --tests
portable --doc
"""
"""Without the examples: the driver of the conformance tests lies where they are put."""
MUSL = "x86_64-unknown-linux-musl"
TARGETS = ("x86_64-pc-windows-gnu", "x86_64-apple-darwin", "aarch64-unknown-linux-gnu")


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reasons: list = field(default_factory=list)


def one_check(log, succeeded):
    """A command that is one check."""
    return Count(passed=int(succeeded), failed=int(not succeeded))


def rust_tests(log, _):
    """A test that finds that it cannot run here passes, and says so in a line: it counts as skipped."""
    found = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", log, re.M)
    passed, failed, ignored = (sum(int(row[column]) for row in found) for column in range(3))
    reasons = re.findall(r"^skipped (.+)$", log, re.M)
    return Count(passed - len(reasons), failed, ignored + len(reasons), reasons)


def counted_line(log, _):
    """The last `… N passed, N failed[, N skipped]`, and lines that say why something was skipped."""
    found = re.findall(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", log)
    passed, failed, skipped = found[-1] if found else (0, 0, 0)
    return Count(int(passed), int(failed), int(skipped or 0), re.findall(r"^skipped (.+)$", log, re.M))


def pytest_line(log, _):
    last = (log.strip().splitlines() or [""])[-1]
    number = lambda word: sum(int(n) for n in re.findall(rf"(\d+) {word}", last))
    reasons = re.findall(r"^SKIPPED \[\d+\] \S+ (.+)$", log, re.M)
    return Count(number("passed"), number("failed") + number("error"), number("skipped"), reasons)


def minitest_line(log, _):
    found = re.findall(r"(\d+) runs, \d+ assertions, (\d+) failures, (\d+) errors, (\d+) skips", log)
    runs, failures, errors, skips = (
        (sum(map(int, column)) for column in zip(*found, strict=True)) if found else (0, 0, 0, 0)
    )
    reasons = re.findall(r"Skipped:\n.*\n(.+)$", log, re.M)
    return Count(runs - failures - errors - skips, failures + errors, skips, reasons)


def doctest_like(words):
    """A checker whose closing line says how much it looked at."""

    def count(log, succeeded):
        looked = sum(int(n) for n in re.findall(words, log))
        return Count(passed=looked if succeeded else 0, failed=int(not succeeded))

    return count


def cargo(*arguments):
    return ["cargo", *arguments]


def other_pythons():
    """For each further Python that ci/test found: the tests of what changes from one Python to the next."""
    words = "mp_surface", "mp_process", "mp_connection", "mp_queues", "mp_managers", "pool", "executor", "shutdown"
    files = [f"bindings/python/tests/test_{word}.py" for word in (*words, "starts", "sharing", "refusals", "pickling")]
    for venv in sorted(ROOT.glob("target/ci/venv-3.*")):
        command = [str(venv / "bin/python"), "-m", "pytest", "-q", "-rs", *files]
        yield f"Python {venv.name.removeprefix('venv-')}", command, pytest_line


def numo_examples():
    """Only where there is a Numo: ci/setup.sh says so when there is none."""
    asked = subprocess.run(["ruby", "-e", 'require "numo/narray"'], stderr=subprocess.DEVNULL, check=False)
    if asked.returncode == 0:
        yield "examples: Ruby", ["ruby", "examples/ruby/compare.rb", "--small", "--rounds", "1"], counted_line


def conformance():
    return ["bash", "ci/conformance/run"]


SUITES = [
    ("house rules", ["python", "ci/tidy.py"], counted_line),
    ("format: Rust", cargo("fmt", "--all", "--check"), one_check),
    ("format: Python", ["ruff", "format", "--check", "bindings/python", "ci", "core/fuzz", "examples"], one_check),
    (
        "format: C and C++",
        ["bash", "-c", "git ls-files '*.c' '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror"],
        one_check,
    ),
    ("lint: Python", ["ruff", "check", "bindings/python", "ci", "core/fuzz", "examples"], one_check),
    ("lint: shell", ["bash", "-c", "shellcheck ci/{demo,test,bench,env,setup.sh,cases.sh,install,loom,instructions,soak,test-c,fuzz,miri,sanitize,thread-sanitizer,valgrind} ci/conformance/run .ci/run"], one_check),
    ("lint: Rust", cargo("clippy", "-q", *EVERY_CRATE, "--all-targets", "--features", "shmarray/half,shmarray/num-complex,shmarray/ndarray,shmarray/steps", "--", "-D", "warnings"), one_check),
    ("documentation: Rust", ["env", "RUSTDOCFLAGS=-D warnings", *cargo("doc", "-q", "--no-deps", "-p", "shmarray", "-p", "shmarray-ffi")], one_check),
    ("core", cargo("test", "-p", "shmarray", "--features", FEATURES), rust_tests),
    ("core, crashes", cargo("test", "-p", "shmarray", "--features", "steps", "--test", "crashes"), rust_tests),
    ("core, portable backend", ["bash", "-c", PORTABLE], rust_tests),
    ("core, musl", cargo("test", "-p", "shmarray", "--features", FEATURES, "--target", MUSL), rust_tests),
    *[(f"core compiles for {target}", cargo("check", "-q", "-p", "shmarray", "--target", target), one_check) for target in TARGETS],
    ("C ABI", cargo("test", "-p", "shmarray-ffi"), rust_tests),
    ("command line", cargo("test", "-p", "shmarray-cli"), rust_tests),
    ("C and C++", ["bash", "ci/test-c"], counted_line),
    ("sanitizers: C and C++", ["bash", "ci/sanitize"], counted_line),
    ("sanitizers: threads in core", ["bash", "ci/thread-sanitizer"], counted_line),
    ("Miri", ["bash", "ci/miri"], counted_line),
    ("loom", ["bash", "ci/loom"], counted_line),
    ("fuzzing", ["bash", "ci/fuzz"], counted_line),
    ("Python", ["pytest", "-q", "-rs", "bindings/python/tests"], pytest_line),
    *other_pythons(),
    ("Python: NumPy's tests of pickling", ["python", "bindings/python/foreign/numpy_pickling.py"], counted_line),
    ("Python: CPython's tests of multiprocessing", ["python", "bindings/python/foreign/cpython_multiprocessing.py"], counted_line),
    ("Python: CPython's tests of futures", ["python", "bindings/python/foreign/cpython_futures.py"], counted_line),
    ("Python: joblib's own tests", ["python", "bindings/python/foreign/joblib_suite.py"], counted_line),
    ("Python stubs", ["python", "-m", "mypy.stubtest", "shmarray", "--mypy-config-file", "bindings/python/pyproject.toml"], doctest_like(r"no issues found in (\d+) module")),
    ("Ruby", ["rake", "--rakefile", "bindings/ruby/Rakefile", "test", "ARGS=--verbose"], minitest_line),
    ("valgrind: C and Ruby", ["bash", "ci/valgrind"], counted_line),
    ("soak: workers killed", ["bash", "ci/soak", "300"], counted_line),
    ("golden files", ["python", "ci/conformance/golden/make.py", "--check"], doctest_like(r"^(\d+) golden files")),
    ("conformance", conformance(), counted_line),
    ("README examples", ["python", "ci/readme.py"], counted_line),
    ("example: pipeline", ["bash", "examples/pipeline/run", "--quick"], one_check),
    ("examples: Python", ["python", "examples/python/compare.py", "--small", "--rounds", "1"], counted_line),
    *numo_examples(),
]  # fmt: skip


def run(name, command, count):
    log_path = LOGS / (re.sub(r"\W+", "-", name) + ".log")
    began = time.monotonic()
    environment = os.environ | {"CARGO_TERM_COLOR": "never"}
    with open(log_path, "w") as log:
        running = subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
    code = ended(running, name, log_path)
    text = log_path.read_text(errors="replace")
    counted = count(text, code == 0)
    if counted.failed == 0 and code != 0:
        counted.failed = 1  # it did not get so far as to count
    if counted.passed + counted.failed == 0:
        counted.failed, text = 1, text + "\nThis suite ran no test.\n"
    with one_speaks:
        say(name, counted, time.monotonic() - began, text, log_path)
    return counted


def ended(running, name, log_path):
    """Waits as long as it takes. Of what takes long it says what it does, so that who hangs is known."""
    while True:
        try:
            return running.wait(LONG_SECONDS)
        except subprocess.TimeoutExpired:
            with one_speaks:
                print(f"{name} is still running:", *processes.under(running.pid), sep="\n  ")
                print("\n".join(log_path.read_text(errors="replace").splitlines()[-10:]), flush=True)


def say(name, counted, seconds, text, log_path):
    counts = f"{counted.passed:6} passed {counted.failed:4} failed {counted.skipped:4} skipped"
    print(f"{name:44} {counts} {seconds:7.0f} s", flush=True)
    if counted.failed:
        print("\n".join(text.splitlines()[-60:]))
        print(f"The whole output is in {log_path.relative_to(ROOT)}.", flush=True)


one_speaks = threading.Lock()


def main():
    # Who is started in the background ignores SIGINT, and so would all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    words = sys.argv[1:] or [""]
    chosen = [suite for suite in SUITES if any(word in suite[0] for word in words)]
    longest_first = sorted(chosen, key=lambda suite: LONGEST.index(suite[0]) if suite[0] in LONGEST else len(LONGEST))
    with ThreadPoolExecutor(AT_ONCE) as runners:
        running = {suite[0]: runners.submit(run, *suite) for suite in longest_first}
    counts = [(suite[0], running[suite[0]].result()) for suite in chosen]
    reasons = [f"{name}: {reason}" for name, count in counts for reason in count.reasons]
    print("\nSkipped:" if reasons else "\nNothing was skipped.")
    for reason in dict.fromkeys(reasons):
        print(f"  {reasons.count(reason)} × {reason}")
    print(f"\n{'suite':44} {'passed':>7} {'failed':>7} {'skipped':>8}")
    for name, count in counts:
        print(f"{name:44} {count.passed:7} {count.failed:7} {count.skipped:8}")
    total = [sum(getattr(count, kind) for _, count in counts) for kind in ("passed", "failed", "skipped")]
    print(f"\n{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    sys.exit(bool(total[1]) or not total[0])


if __name__ == "__main__":
    main()
