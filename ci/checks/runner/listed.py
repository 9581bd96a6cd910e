"""The list of suites: QUICK is what `ci/test` runs, CI what `ci/test --ci` runs, and RELEASE
what `ci/test --release` runs.

A suite is a name, a command, and the function that counts its tests in what it prints. A text in
the place of the command is the reason to skip the suite. QUICK runs after each change. Continuous
integration runs QUICK and CI; RELEASE takes too long for it. A suite may have a form in each of
them, under the same name; no form repeats another. CONTRIBUTING.md has the list in words, and a
house rule compares the two.
"""

from commands import (
    ARM64,
    MUSL,
    PYTHON_SOURCES,
    RAKE_TEST,
    SAYING,
    TARGETS,
    UNOPTIMISED,
    bash,
    bash_line,
    cargo,
    clippy,
    compiles_for,
    crashes,
    each_test,
    files_of,
    foreign,
    in_root,
    musl,
    one_after_the_other,
    only_with_numo,
    other_pythons,
    portable,
    pytest,
    python,
    python_tests,
    release_form,
    rust,
    rustdoc,
    stubtest,
)
from counting import (
    counted_line,
    doctest_like,
    minitest_line,
    one_check,
    pytest_line,
    rust_tests,
)
from running import ROOT

# The suites that take longest, longest first: they begin first, so that no core is idle at the end.
LONGEST = {
    "quick": (
        "Python",
        "core",
        "core, crashes",
        "Ruby",
        "lint: Rust",
        "C and C++",
        "C ABI and command line",
        "conformance",
        "Python: CPython's tests of multiprocessing",
        "Python: CPython's tests of futures",
    ),
    "ci": (
        "Python",
        "Miri",
        "core",
        "loom",
        "Python: joblib's own tests",
        "the crate as published",
        "core, portable backend",
        "core, musl",
    ),
    "release": (
        "Debian 12",
        "Debian 13",
        "Debian sid",
        "soak: workers killed",
        "C and C++",
        "Miri",
        "valgrind: C and Ruby",
        "a new dtype",
        "core, faults",
        "core, musl",
        "core, arm64",
        "installing",
        "sanitizers: threads in core",
        "core, crashes",
    ),
}


def rust_tests_in(folder):
    """The tests in a folder, each a file or a folder."""
    files = {path.stem for path in ROOT.glob(f"{folder}/*.rs")}
    return files | {path.parent.name for path in ROOT.glob(f"{folder}/*/main.rs")}


# Without crashes, which is built with a cfg of its own.
CORE_TESTS = rust_tests_in("core/tests") - {"crashes"}
# Those that take longest, to compile or to run.
CORE_CI = (
    "cells_model",
    "channel_model",
    "cleaners",
    "fork_moments",
    "large_numbers",
    "npy_attacks",
    "npy_properties",
    "stranger_files",
)
CORE_QUICK = sorted(CORE_TESTS.difference(CORE_CI))
FFI_AND_CLI = sorted(rust_tests_in("ffi/tests") | rust_tests_in("bindings/cli/tests"))
PORTABLE_CI = ("arrays", "elsewhere")
PORTABLE_RELEASE = sorted(CORE_TESTS - {"arrays"})
MUSL_CI = ("arrays", "leases", "messages", "linux")
# Tests that an emulator does in minutes, and that reach no limit of the process, whose memory and
# mappings are the emulator's, too.
ARM64_RELEASE = (
    "arrays",
    "cells",
    "channels",
    "leases",
    "linux",
    "listings",
    "messages",
    "names",
    "npy",
    "npy_corpus",
    "pipes",
    "pool",
    "queue_slots",
    "reductions",
    "threads",
)
ARM64_PYTHON = ("sharing", "refusals")
# The emulator has neither MADV_POPULATE_WRITE nor MADV_DONTFORK.
ARM64_LACKS = ("--skip=huge::tests", "--skip=a_killed_parent_is_dead_though_its_child_lives")
# The programs without which a suite is skipped, since not every system has packages of them.
NEEDS = {
    "lint: shell": "shellcheck",
    "valgrind: C and Ruby": "valgrind",
    "sanitizers: C and C++": "clang",
}
SHELL_SCRIPTS = " ".join(
    (
        "ci/{bench,demo,env,fuzz,inject,install,instructions,loom,miri,sanitize,soak,test,test-c}",
        "ci/{systems,test-install,thread-sanitizer,tidy,valgrind} ci/shell/*.sh "
        "ci/checks/scenarios/run",
        "ci/packaging/wheel-on-arm64 ci/checks/layers .ci/run",
    )
)
CLANG_FORMAT = "git ls-files '*.c' '*.cpp' '*.hpp' | xargs clang-format --dry-run --Werror"
CRASH_QUICK = (
    "a_crash_at_any_step_costs_no_survivor_anything_and_leaves_nothing",
    "a_store_that_is_not_announced_is_found",
)
CRASH_RELEASE = (
    "a_crash_at_any_step_beside_another_operation_costs_nobody_anything",
    "every_store_to_a_header_is_announced",
)
FAULTS_QUICK = (
    "a_system_call_that_fails_breaks_nothing_and_leaves_nothing",
    "a_child_forked_at_any_step_of_another_threads_operation_goes_on",
    "a_signal_handler_that_forks_at_any_step_of_its_threads_operation_hangs_nobody",
)
# The tests of Python that kill many processes, start many interpreters, or fill memory.
PYTHON_RELEASE = " or ".join(
    (
        "(test_mp_kills and (spawn or forkserver))",
        "(test_a_cluster_lives_on_while_its_workers_are_killed and 10000)",
    )
)
PYTHON_CI = " or ".join(
    (
        "test_mp_kills",
        "test_dead_workers",
        "test_small_memory",
        "test_dask_clusters",
        "test_dask_hosts",
        "test_a_queue_without_a_size_goes_on",
        "test_one_process_may_put_a_lot_before_anybody_gets",
        "test_a_pipe_tells_of_a_death_after_the_last_whole_message",
        "test_threads_may_use_arrays_to_the_end",
        "(test_an_interpreter_ends_quietly_with_a_pool_that_lives and (spawn or forkserver))",
        "test_kills_at_random_moments",
    )
)
# The files of tests about what changes from one Python to the next.
OTHER_QUICK = ("mp_surface", "sharing", "refusals", "remedies", "pickling")
OTHER_CI = (
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
CPYTHON_MULTIPROCESSING = "bindings/python/foreign/cpython_multiprocessing.py"
CPYTHON_FUTURES = "bindings/python/foreign/cpython_futures.py"
LOKY_QUICK = ("TestExecutor",)
LOKY_CI = ("TestShutdown", "TestWait", "TestAsCompleted")
WATCH_TESTS = (
    "ci/checks/runner/test_running.py",
    "ci/measurements/test_leftovers.py",
    "ci/measurements/test_npy_corpus.py",
)
OTHER_LANGUAGES = ("Python", "Ruby", "C++", "C")
INTERRUPTS = "TEST=test/numo_interrupts_test.rb"

HOUSE = [
    ("house rules", bash("ci/tidy"), counted_line),
    ("house rules: what they refuse", pytest("ci/checks/test_rules.py"), pytest_line),
    ("suites and watch", pytest(*WATCH_TESTS), pytest_line),
    ("format: Rust", cargo("fmt", "--all", "--check"), one_check),
    ("format: Python", ["ruff", "format", "--check", *PYTHON_SOURCES], one_check),
    ("format: C and C++", bash_line(CLANG_FORMAT), one_check),
    ("lint: Python", ["ruff", "check", *PYTHON_SOURCES], one_check),
    ("lint: Python's layers", bash("ci/checks/layers"), one_check),
    ("lint: shell", bash_line(f"shellcheck {SHELL_SCRIPTS}"), one_check),
    ("lint: Rust", clippy(), one_check),
    ("documentation: Rust", rustdoc(), one_check),
]

CORE = [
    (
        "core",
        one_after_the_other(rust("--lib", *each_test(CORE_QUICK), *SAYING), rust("--doc")),
        rust_tests,
    ),
    ("core, crashes", crashes(*CRASH_QUICK), rust_tests),
    ("core, faults", crashes(*FAULTS_QUICK), rust_tests),
]

C = [
    ("C ABI and command line", rust("--bins", *each_test(FFI_AND_CLI), *SAYING), rust_tests),
    ("C and C++", bash("ci/test-c", "--quick"), counted_line),
    ("recorded ABI", pytest("ci/abi"), pytest_line),
    ("installing", bash("ci/test-install", "--quick"), counted_line),
    ("sanitizers: C and C++", bash("ci/sanitize", "--quick"), counted_line),
]

PYTHON = [
    ("Python", python_tests(f"not ({PYTHON_CI})"), pytest_line),
    *other_pythons("", ["-m", *pytest(*files_of(OTHER_QUICK))], pytest_line),
    ("Python: NumPy's tests of pickling", foreign("numpy_pickling.py"), counted_line),
    ("Python: NumPy's tests of files", foreign("numpy_files.py"), counted_line),
    ("Python: pandas' tests of pickling", foreign("pandas_pickling.py"), counted_line),
    ("Python: xarray's tests of pickling", foreign("xarray_pickling.py"), counted_line),
    (
        "Python: CPython's tests of multiprocessing",
        python(CPYTHON_MULTIPROCESSING),
        counted_line,
    ),
    ("Python: CPython's tests of futures", python(CPYTHON_FUTURES), counted_line),
    ("Python: loky's tests of executors", foreign("loky_executor.py", *LOKY_QUICK), counted_line),
    (
        "Python: little shared memory",
        foreign("small_memory.py", "64m", "xarray_pickling.py"),
        counted_line,
    ),
    ("Python stubs", stubtest(), doctest_like(r"no issues found in (\d+) module")),
]

EVERYTHING = [
    ("Ruby", [*RAKE_TEST, "ARGS=--verbose"], minitest_line),
    ("valgrind: C and Ruby", bash("ci/valgrind", "--quick"), counted_line),
    ("soak: workers killed", bash("ci/soak", "300"), counted_line),
    ("packages: licences and sources", python("ci/published/packages.py"), counted_line),
    (
        "golden files",
        python("ci/checks/golden/make.py", "--check"),
        doctest_like(r"^(\d+) golden files"),
    ),
    ("conformance", bash("ci/checks/scenarios/run"), counted_line),
    ("README examples", python("ci/published/readme_examples.py"), counted_line),
    ("benchmarks: what is published", python("ci/measurements/check.py"), counted_line),
    ("example: pipeline", bash("examples/pipeline/run", "--quick"), one_check),
    ("example: channels", bash("examples/channels/run", "--quick"), one_check),
    (
        "examples: Python",
        python("examples/python/compare.py", "--small", "--rounds", "1"),
        counted_line,
    ),
    *only_with_numo(
        "examples: Ruby",
        ["ruby", "examples/ruby/compare.rb", "--small", "--rounds", "1"],
        counted_line,
    ),
]

QUICK = [*HOUSE, *CORE, *C, *PYTHON, *EVERYTHING]

CI = [
    ("core", rust(*each_test(CORE_CI), *SAYING), rust_tests),
    (
        "core, portable backend",
        portable("-p", "shmarray-ffi", *UNOPTIMISED, *each_test(PORTABLE_CI), *SAYING),
        rust_tests,
    ),
    ("core, musl", musl(*UNOPTIMISED, *each_test(MUSL_CI), *SAYING), rust_tests),
    *[
        (
            f"core and the C ABI compile for {target}",
            compiles_for(target),
            one_check,
        )
        for target in TARGETS
    ],
    ("C and C++", bash("ci/test-c", "--ci"), counted_line),
    ("Miri", bash("ci/miri", "--ci"), counted_line),
    ("loom", bash("ci/loom", "--ci"), counted_line),
    ("fuzzing", bash("ci/fuzz", "--ci"), counted_line),
    ("Python", python_tests(f"({PYTHON_CI}) and not ({PYTHON_RELEASE})"), pytest_line),
    *other_pythons("", ["-m", *pytest(*files_of(OTHER_CI))], pytest_line),
    *other_pythons(
        ": CPython's tests of multiprocessing",
        [CPYTHON_MULTIPROCESSING],
        counted_line,
        "test._test_multiprocessing",
    ),
    *other_pythons(
        ": CPython's tests of futures",
        [CPYTHON_FUTURES],
        counted_line,
        "test.test_concurrent_futures",
    ),
    ("Python: joblib's own tests", foreign("joblib_suite.py"), counted_line),
    ("Python: loky's tests of executors", foreign("loky_executor.py", *LOKY_CI), counted_line),
    ("the crate as published", python("ci/published/crate.py"), counted_line),
    (
        "README's commands to install",
        python("ci/published/readme_commands.py", "Rust"),
        counted_line,
    ),
]

RELEASE = [
    ("a new dtype", pytest("ci/new_dtype"), pytest_line),
    ("core, crashes", release_form(crashes(*CRASH_RELEASE)), rust_tests),
    ("core, faults", bash("ci/inject", "--release"), counted_line),
    (
        "core, portable backend",
        one_after_the_other(
            portable("--lib", *each_test(PORTABLE_RELEASE), *SAYING), portable("--doc")
        ),
        rust_tests,
    ),
    *[
        (f"Debian {system}", bash("ci/systems", system), counted_line)
        for system in ("12", "13", "sid")
    ],
    (
        "core, musl",
        one_after_the_other(in_root("musl", MUSL, "--tests", *SAYING), musl("--doc")),
        rust_tests,
    ),
    (
        "core, arm64",
        in_root("arm64", ARM64, "--lib", *each_test(ARM64_RELEASE), *SAYING, *ARM64_LACKS),
        rust_tests,
    ),
    ("Python, arm64", bash("ci/packaging/wheel-on-arm64", *files_of(ARM64_PYTHON)), pytest_line),
    ("targets that core refuses", python("ci/published/targets.py"), counted_line),
    ("C and C++", bash("ci/test-c", "--release"), counted_line),
    ("installing", bash("ci/test-install", "--release"), counted_line),
    ("sanitizers: C and C++", bash("ci/sanitize", "--release"), counted_line),
    ("sanitizers: threads in core", bash("ci/thread-sanitizer"), counted_line),
    ("Miri", bash("ci/miri", "--release"), counted_line),
    ("loom", bash("ci/loom", "--release"), counted_line),
    ("Python", python_tests(PYTHON_RELEASE), pytest_line),
    ("Python: little shared memory", foreign("small_memory.py"), counted_line),
    *only_with_numo("Ruby", release_form([*RAKE_TEST, INTERRUPTS]), minitest_line),
    ("valgrind: C and Ruby", bash("ci/valgrind", "--release"), counted_line),
    ("soak: workers killed", bash("ci/soak"), counted_line),
    ("the crate as published", python("ci/published/crate.py", "--oldest"), counted_line),
    (
        "README's commands to install",
        python("ci/published/readme_commands.py", *OTHER_LANGUAGES),
        counted_line,
    ),
]

FORMS = {"quick": QUICK, "ci": CI, "release": RELEASE}
