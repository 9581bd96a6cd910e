"""Runs every suite of tests and checks, and ends with what was skipped, a table, and one line of
counts.

    . ci/env; python ci/suites.py [--long] [WORD …]      only the suites whose names contain one of the words

SHORT has them all, in the form that a newcomer has time for. LONG has what those forms leave out,
under the same names: neither does again what the other has done. CONTRIBUTING.md has the list.

More run at a time than there are cores, since some of them mostly wait. Those that take longest
begin first, so that no core is idle in the end; the others follow in the order of the list.
running.py says when a suite has failed.
"""

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from counting import counted_line, doctest_like, minitest_line, one_check, pytest_line, rust_tests
from running import ROOT, expect_children, run

AT_ONCE = len(os.sched_getaffinity(0)) + 1
LONGEST = {
    "short": (
        "Miri",
        "Python",
        "sanitizers: threads in core",
        "core",
        "core, crashes",
        "lint: Rust",
        "valgrind: C and Ruby",
        "Python: joblib's own tests",
        "Python: CPython's tests of multiprocessing",
        "loom",
        "Ruby",
        "C ABI and command line",
        "core, musl",
        "C and C++",
        "sanitizers: C and C++",
    ),
    "long": (
        "core, crashes",
        "core, faults",
        "Miri",
        "soak: workers killed",
        "fuzzing",
        "valgrind: C and Ruby",
        "Python",
        "sanitizers: threads in core",
    ),
}
BINDINGS = ["-p", "shmarray-ffi", "-p", "shmarray-cli"]
EVERY_CRATE = ["-p", "shmarray", *BINDINGS, "-p", "shmarray-python", "-p", "shmarray-ruby"]
# The same for all tests of core, so that what it is built from is compiled once for them.
FEATURES = "half,num-complex,ndarray"
# What a test prints that finds that it cannot run here.
SAYING = ["--", "--show-output"]
MUSL = "x86_64-unknown-linux-musl"
MUSL_SHORT = ("arrays", "leases", "messages", "linux")
MUSL_LONG = sorted({path.stem for path in ROOT.glob("core/tests/*.rs")} - {*MUSL_SHORT})
TARGETS = ("x86_64-pc-windows-gnu", "x86_64-apple-darwin", "aarch64-unknown-linux-gnu")
SCRIPTS = "ci/{demo,test,bench,env,setup.sh,cases.sh,install,loom,instructions,soak,test-c,fuzz,inject,miri,sanitize,thread-sanitizer,valgrind} ci/conformance/run .ci/run"
CRASH_SHORT = [
    "a_crash_at_any_step_costs_no_survivor_anything_and_leaves_nothing",
    "a_store_that_is_not_announced_is_found",
]
FAULTS_SHORT = [
    "a_system_call_that_fails_breaks_nothing_and_leaves_nothing",
    "a_child_forked_at_any_step_of_another_threads_operation_goes_on",
    "a_signal_handler_that_forks_at_any_step_of_its_threads_operation_hangs_nobody",
]
CRASH_LONG = [
    "a_crash_at_any_step_beside_another_operation_costs_nobody_anything",
    "every_store_to_a_header_is_announced",
]
PYTHON_LONG = " or ".join(
    (
        "(test_mp_kills and (spawn or forkserver))",
        "test_a_queue_without_a_size_goes_on",
        "test_a_pipe_tells_of_a_death_after_the_last_whole_message",
        "test_threads_may_use_arrays_to_the_end",
        "(test_an_interpreter_ends_quietly_with_a_pool_that_lives and (spawn or forkserver))",
        "test_kills_at_random_moments",
    )
)
"""Of the tests of Python, those that kill many processes or start many interpreters."""
RAKE_TEST = ["rake", "--rakefile", "bindings/ruby/Rakefile", "test"]
LOKY_SHORT, LOKY_LONG = "TestExecutor", ("TestShutdown", "TestWait", "TestAsCompleted")
OTHER_SHORT = ("mp_surface", "sharing", "refusals", "remedies", "pickling")
OTHER_LONG = (
    "mp_process",
    "mp_connection",
    "mp_listener",
    "mp_queues",
    "mp_managers",
    "pool",
    "pool_end",
    "executor",
    "shutdown",
    "starts",
)
"""Of those, the files about what changes from one Python to the next."""


def cargo(*arguments):
    return ["cargo", *arguments]


def bash(script, *arguments):
    return ["bash", script, *arguments]


def python(script, *arguments):
    return ["python", script, *arguments]


def crashes(*tests):
    return cargo(
        "test",
        "-p",
        "shmarray",
        "--features",
        f"steps,{FEATURES}",
        "--test",
        "crashes",
        "--",
        *tests,
    )


def portable(*tests):
    """Without the examples: the driver of the conformance tests lies where they are put."""
    return cargo("test", "-p", "shmarray", "--features", f"portable,{FEATURES}", *tests)


def musl(files, *others):
    """The files of core/tests with these names, and what `others` choose of the rest."""
    return cargo(
        "test",
        "-p",
        "shmarray",
        "--features",
        FEATURES,
        "--target",
        MUSL,
        *(f"--test={name}" for name in files),
        *others,
    )


def one_after_the_other(*commands):
    return ["bash", "-c", "set -e; " + "; ".join(map(shlex.join, commands))]


def other_pythons(words):
    """For each further Python that ci/test found."""
    files = [f"bindings/python/tests/test_{word}.py" for word in words]
    for venv in sorted(ROOT.glob("target/ci/venv-3.*")):
        command = [str(venv / "bin/python"), "-m", "pytest", "-q", "-rs", *files]
        yield f"Python {venv.name.removeprefix('venv-')}", command, pytest_line


def numo_examples():
    """Only where there is a Numo: ci/setup.sh says so when there is none."""
    asked = subprocess.run(
        ["ruby", "-e", 'require "numo/narray"'], stderr=subprocess.DEVNULL, check=False
    )
    if asked.returncode == 0:
        yield (
            "examples: Ruby",
            ["ruby", "examples/ruby/compare.rb", "--small", "--rounds", "1"],
            counted_line,
        )


SHORT = [
    ("house rules", python("ci/tidy.py"), counted_line),
    ("suites and watch", ["pytest", "-q", "-rs", "ci/test_running.py", "ci/benchmarks/test_leftovers.py"], pytest_line),
    ("format: Rust", cargo("fmt", "--all", "--check"), one_check),
    ("format: Python", ["ruff", "format", "--check", "bindings/python", "ci", "core/fuzz", "examples"], one_check),
    ("format: C and C++", ["bash", "-c", "git ls-files '*.c' '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror"], one_check),
    ("lint: Python", ["ruff", "check", "bindings/python", "ci", "core/fuzz", "examples"], one_check),
    ("lint: shell", ["bash", "-c", f"shellcheck {SCRIPTS}"], one_check),
    ("lint: Rust", cargo("clippy", "-q", *EVERY_CRATE, "--all-targets", "--features", "shmarray/ndarray,shmarray/steps", "--", "-D", "warnings"), one_check),
    ("documentation: Rust", ["env", "RUSTDOCFLAGS=-D warnings", *cargo("doc", "-q", "--no-deps", "-p", "shmarray", "-p", "shmarray-ffi")], one_check),
    ("core", cargo("test", "-p", "shmarray", "--features", FEATURES, *SAYING), rust_tests),
    ("core, crashes", crashes(*CRASH_SHORT), rust_tests),
    ("core, faults", crashes(*FAULTS_SHORT), rust_tests),
    ("core, portable backend", one_after_the_other(portable("--lib", "--tests", *SAYING), portable("--doc")), rust_tests),
    ("core, musl", musl(MUSL_SHORT, *SAYING), rust_tests),
    *[(f"core compiles for {target}", cargo("check", "-q", "-p", "shmarray", "--target", target), one_check) for target in TARGETS],
    ("C ABI and command line", cargo("test", *BINDINGS, *SAYING), rust_tests),
    ("C and C++", bash("ci/test-c", "--short"), counted_line),
    ("sanitizers: C and C++", bash("ci/sanitize", "--short"), counted_line),
    ("sanitizers: threads in core", bash("ci/thread-sanitizer", "--short"), counted_line),
    ("Miri", bash("ci/miri", "--short"), counted_line),
    ("loom", bash("ci/loom", "--short"), counted_line),
    ("fuzzing", bash("ci/fuzz", "--short"), counted_line),
    ("Python", ["pytest", "-q", "-rs", "bindings/python/tests", "-k", f"not ({PYTHON_LONG})"], pytest_line),
    *other_pythons(OTHER_SHORT),
    ("Python: NumPy's tests of pickling", python("bindings/python/foreign/numpy_pickling.py"), counted_line),
    ("Python: pandas' tests of pickling", python("bindings/python/foreign/pandas_pickling.py"), counted_line),
    ("Python: xarray's tests of pickling", python("bindings/python/foreign/xarray_pickling.py"), counted_line),
    ("Python: CPython's tests of multiprocessing", python("bindings/python/foreign/cpython_multiprocessing.py"), counted_line),
    ("Python: CPython's tests of futures", python("bindings/python/foreign/cpython_futures.py"), counted_line),
    ("Python: joblib's own tests", python("bindings/python/foreign/joblib_suite.py"), counted_line),
    ("Python: loky's tests of executors", python("bindings/python/foreign/loky_executor.py", LOKY_SHORT), counted_line),
    ("Python: little shared memory", python("bindings/python/foreign/small_memory.py", "64m", "xarray_pickling.py"), counted_line),
    ("Python stubs", ["python", "-m", "mypy.stubtest", "shmarray", "--mypy-config-file", "bindings/python/pyproject.toml"], doctest_like(r"no issues found in (\d+) module")),
    ("Ruby", [*RAKE_TEST, "ARGS=--verbose"], minitest_line),
    ("valgrind: C and Ruby", bash("ci/valgrind", "--short"), counted_line),
    ("soak: workers killed", bash("ci/soak", "300"), counted_line),
    ("packages: licences and sources", python("ci/packages.py"), counted_line),
    ("golden files", python("ci/conformance/golden/make.py", "--check"), doctest_like(r"^(\d+) golden files")),
    ("conformance", bash("ci/conformance/run"), counted_line),
    ("README examples", python("ci/readme.py"), counted_line),
    ("README's commands to install", python("ci/installing.py", "--short"), counted_line),
    ("benchmarks: what is published", python("ci/benchmarks/check.py"), counted_line),
    ("example: pipeline", bash("examples/pipeline/run", "--quick"), one_check),
    ("examples: Python", python("examples/python/compare.py", "--small", "--rounds", "1"), counted_line),
    *numo_examples(),
]  # fmt: skip

LONG = [
    ("core, crashes", ["env", "SHMARRAY_LONG=1", *crashes(*CRASH_LONG)], rust_tests),
    ("core, faults", bash("ci/inject"), counted_line),
    ("core, musl", one_after_the_other(musl(MUSL_LONG, "--lib", *SAYING), musl((), "--doc")), rust_tests),
    ("C and C++", bash("ci/test-c", "--long"), counted_line),
    ("sanitizers: C and C++", bash("ci/sanitize", "--long"), counted_line),
    ("sanitizers: threads in core", bash("ci/thread-sanitizer", "--long"), counted_line),
    ("Miri", bash("ci/miri", "--long"), counted_line),
    ("loom", bash("ci/loom", "--long"), counted_line),
    ("fuzzing", bash("ci/fuzz", "60"), counted_line),
    ("Python", ["pytest", "-q", "-rs", "bindings/python/tests", "-k", PYTHON_LONG], pytest_line),
    *other_pythons(OTHER_LONG),
    ("Python: loky's tests of executors", python("bindings/python/foreign/loky_executor.py", *LOKY_LONG), counted_line),
    ("Python: little shared memory", python("bindings/python/foreign/small_memory.py"), counted_line),
    ("Ruby", ["env", "SHMARRAY_LONG=1", *RAKE_TEST, "TEST=test/numo_interrupts_test.rb"], minitest_line),
    ("valgrind: C and Ruby", bash("ci/valgrind", "--long"), counted_line),
    ("soak: workers killed", bash("ci/soak", "12000"), counted_line),
    ("README's commands to install", python("ci/installing.py"), counted_line),
]  # fmt: skip


def chosen(words):
    """The suites that the words name, and the order in which they begin."""
    form = "long" if words[:1] == ["--long"] else "short"
    words = words[form == "long" :] or [""]
    suites = [
        suite
        for suite in (LONG if form == "long" else SHORT)
        if any(word in suite[0] for word in words)
    ]
    first = LONGEST[form]
    return suites, sorted(
        suites, key=lambda suite: first.index(suite[0]) if suite[0] in first else len(first)
    )


def main():
    expect_children()
    suites, longest_first = chosen(sys.argv[1:])
    with ThreadPoolExecutor(AT_ONCE) as runners:
        running = {suite[0]: runners.submit(run, *suite) for suite in longest_first}
    report([(suite[0], *running[suite[0]].result()) for suite in suites])


def report(results):
    """What was skipped and why, what was flaky, the table, the line of counts; exits with 0 when
    nothing has failed.
    """
    counts = [count for _, count, _ in results]
    reasons = [f"{name}: {reason}" for name, count, _ in results for reason in count.reasons]
    print("\nSkipped:" if reasons else "\nNothing was skipped.")
    for reason in dict.fromkeys(reasons):
        print(f"  {reasons.count(reason)} × {reason}")
    flaky = [f"{name}: {test}" for name, count, _ in results for test in count.flaky]
    print(*(["\nFlaky, failed and then passed alone:", *flaky] if flaky else []), sep="\n  ")
    print(
        f"\n{'suite':44} {'passed':>7} {'failed':>7} {'skipped':>8} {'flaky':>6} {'seconds':>8} {'of processors':>14}"
    )
    for name, count, (seconds, used) in results:
        print(
            f"{name:44} {count.passed:7} {count.failed:7} {count.skipped:8} {len(count.flaky):6} {seconds:8.0f} {used:14.0f}"
        )
    total = [
        sum(getattr(count, kind) for count in counts) for kind in ("passed", "failed", "skipped")
    ]
    processors = sum(used for _, _, (_, used) in results)
    print(
        f"{'together':44} {total[0]:7} {total[1]:7} {total[2]:8} {len(flaky):6} {'':8} {processors:14.0f}"
    )
    counts = f"{total[0]} passed, {total[1]} failed, {total[2]} skipped"
    print(f"\n{counts}, {len(flaky)} flaky" if flaky else f"\n{counts}")
    sys.exit(bool(total[1]) or not total[0])


if __name__ == "__main__":
    main()
