"""The list of suites: QUICK is what `ci/test` runs, CI what `ci/test --ci` runs, and RELEASE
what `ci/test --release` runs.

QUICK runs after each change. Continuous integration runs QUICK and CI; RELEASE takes too long for
it. A suite may have a form in each of them, under the same name; no form repeats another.
CONTRIBUTING.md has the list in words, and a house rule compares the two.
"""

import dataclasses

from commands import (
    ARM64,
    IN_PROCESSES,
    JUNIT_XML,
    MUSL,
    OF_MUSL,
    PYTHON_SOURCES,
    RAKE_TEST,
    TARGETS,
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
    next_version,
    of_modules,
    one_after_the_other,
    one_check,
    only_with_numo,
    other_pythons,
    portable,
    portable_examples,
    pytest,
    python,
    python_tests,
    release_form,
    rust,
    rust_examples,
    rustdoc,
    skipping,
    stubtest,
    with_drivers,
)
from suite import ROOT, Suite

# The suites that take longest, longest first: they begin first, so that no core is idle at the end.
LONGEST = (
    "Python",
    "Python --ci",
    "Miri --ci",
    "core",
    "loom --ci",
    "core --ci",
    "core, crashes",
    "Python: joblib's own tests --ci",
    "Ruby",
    "lint: Rust",
    "C and C++",
    "scenarios",
    "Debian 12 --release",
    "Debian 13 --release",
    "Debian sid --release",
)


def rust_tests_in(folder):
    """The tests in a folder, each a file or a folder."""
    files = {path.stem for path in ROOT.glob(f"{folder}/*.rs")}
    return files | {path.parent.name for path in ROOT.glob(f"{folder}/*/main.rs")}


# The modules of core's tests of behaviour that take longest.
CORE_CI = of_modules(
    "cleaners",
    "fork_moments",
    "large_numbers",
    "npy_attacks",
    "npy_properties",
    "stranger_files",
)
FFI_AND_CLI = sorted(rust_tests_in("ffi/tests") | rust_tests_in("bindings/cli/tests"))
# Tests that an emulator does in minutes, and that reach no limit of the process, whose memory and
# mappings are the emulator's, too.
ARM64_RELEASE = of_modules(
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
    "queue_tasks",
    "reductions",
    "threads",
)
ARM64_PYTHON = ("sharing", "refusals")
# The emulator has neither MADV_POPULATE_WRITE nor MADV_DONTFORK.
ARM64_LACKS = ("huge::tests", "a_killed_parent_is_dead_though_its_child_lives")
# The programs without which a suite is skipped, since not every system has packages of them.
NEEDS = {
    "lint: shell": "shellcheck",
    "valgrind: C and Ruby": "valgrind",
    "sanitizers: C and C++": "clang",
}
SHELL_SCRIPTS = " ".join(
    (
        "ci/{bench,deb,demo,docs,env,fuzz,inject,install,instructions,licences,loom,miri,release}",
        "ci/{sanitize,soak,systems,test,test-c,test-install,thread-sanitizer,tidy,valgrind}",
        "ci/shell/*.sh ci/checks/drivers/build ci/packaging/{use_debs,wheel-on-arm64}",
        "ci/checks/layers ci/checks/runner/nextest .ci/run",
    )
)
WORKFLOWS = (
    "zizmor --quiet --offline .github/workflows && "
    "check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml"
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
# The tests of Python that kill many processes, start many interpreters or type checkers, or fill
# memory.
PYTHON_RELEASE = " or ".join(
    (
        "(test_mp_kills and (spawn or forkserver))",
        "(test_a_cluster_lives_on_while_its_workers_are_killed and 10000)",
        "test_dask_hosts",
        "(test_programs_of_the_standard_library_work and (spawn or forkserver))",
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
        "test_types",
        "test_arrays_of_one_process_after_the_other_fit",
        "(test_a_child_forked_at_each_step and (locks or manager or process))",
        "test_forks_beside_threads_that_make_and_drop",
        "test_forty_generations",
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
LANGUAGES = ("Python", "Ruby", "C++", "C", "Rust")
WATCH_TESTS = (
    "ci/checks/runner/test_running.py",
    "ci/measurements/test_leftovers.py",
    "ci/measurements/test_npy_corpus.py",
)
# The tests of Ruby that collect garbage all the time, or drop gigabytes of arrays.
RUBY_CI = "/gc_stress|collector_that_always_runs|that_are_dropped_take_a_few/"
INTERRUPTS = "TEST=test/parallel/interrupts_test.rb"

HOUSE = [
    one_check("house rules", bash("ci/tidy")),
    Suite("house rules: what they refuse", pytest("ci/checks/test_rules.py")),
    Suite("suites and watch", pytest(*WATCH_TESTS)),
    one_check("format: Rust", cargo("fmt", "--all", "--check")),
    one_check("format: Python", ["ruff", "format", "--check", *PYTHON_SOURCES]),
    one_check("format: C and C++", bash_line(CLANG_FORMAT)),
    one_check("lint: Python", ["ruff", "check", *PYTHON_SOURCES]),
    one_check("lint: Python's layers", bash("ci/checks/layers")),
    one_check("lint: workflows", bash_line(WORKFLOWS)),
    one_check("lint: shell", bash_line(f"shellcheck {SHELL_SCRIPTS}")),
    one_check("lint: Rust", clippy()),
    one_check("documentation: Rust", rustdoc()),
    one_check("documentation: the site", python("ci/published/site.py", "target/docs/pages")),
]

CORE = [
    Suite(
        "core",
        rust("--lib", "--test=behaviour", "--test=interposed", "-E", f"not {CORE_CI}"),
    ),
    one_check("documentation: Rust's examples", rust_examples()),
    Suite("core, crashes", crashes(*CRASH_QUICK)),
    Suite("core, faults", crashes(*FAULTS_QUICK)),
]

C = [
    Suite("C ABI and command line", rust("--bins", *each_test(FFI_AND_CLI))),
    Suite("C and C++", bash("ci/test-c", "--quick")),
    Suite("recorded ABI", pytest("ci/abi")),
    Suite("installing", bash("ci/test-install", "--quick")),
    Suite("sanitizers: C and C++", bash("ci/sanitize", "--quick")),
]

PYTHON = [
    Suite("Python", python_tests(f"not ({PYTHON_CI})", *IN_PROCESSES)),
    *other_pythons("", ["-m", *pytest(*files_of(OTHER_QUICK))]),
    Suite("Python: NumPy's tests of pickling", foreign("pickling.py", "numpy")),
    Suite("Python: NumPy's tests of files", foreign("numpy_files.py")),
    Suite("Python: pandas' tests of pickling", foreign("pickling.py", "pandas")),
    Suite("Python: xarray's tests of pickling", foreign("pickling.py", "xarray")),
    Suite("Python: CPython's tests of multiprocessing", python(CPYTHON_MULTIPROCESSING, "--quick")),
    Suite("Python: CPython's tests of futures", python(CPYTHON_FUTURES)),
    Suite("Python: loky's tests of executors", foreign("loky_executor.py", *LOKY_QUICK)),
    Suite(
        "Python: little shared memory",
        foreign("small_memory.py", "64m", "pickling.py", "xarray"),
    ),
    one_check("Python stubs", stubtest()),
]

EVERYTHING = [
    Suite("Ruby", [*RAKE_TEST, f"ARGS=--verbose --exclude {RUBY_CI}"]),
    Suite("valgrind: C and Ruby", bash("ci/valgrind", "--quick")),
    Suite("soak: workers killed", bash("ci/soak", "300")),
    Suite("packages: licences and sources", python("ci/published/packages.py")),
    Suite("crates: licences, versions, advisories", python("ci/published/crates.py")),
    one_check("golden files", python("ci/checks/golden/make.py", "--check")),
    Suite("conformance", with_drivers(python("ci/checks/scenarios/conformance.py"))),
    Suite("scenarios", with_drivers(pytest("ci/checks/scenarios"))),
    Suite("examples of the pages", python("ci/published/page_examples.py")),
    Suite("benchmarks: what is published", python("ci/measurements/check.py")),
    one_check("example: pipeline", bash("examples/pipeline/run", "--quick")),
    one_check("example: channels", bash("examples/channels/run", "--quick")),
    one_check("example: Rust", bash("examples/rust/run")),
    one_check(
        "examples: Python",
        python("examples/python/compare.py", "--small", "--rounds", "1"),
    ),
    *only_with_numo(
        one_check(
            "examples: Ruby",
            ["ruby", "examples/ruby/compare.rb", "--small", "--rounds", "1"],
        )
    ),
]

QUICK = [*HOUSE, *CORE, *C, *PYTHON, *EVERYTHING]

CPYTHON_SUITES = sorted(
    [
        *other_pythons(
            ": CPython's tests of multiprocessing",
            [CPYTHON_MULTIPROCESSING],
            "test._test_multiprocessing",
        ),
        *other_pythons(
            ": CPython's tests of futures",
            [CPYTHON_FUTURES],
            "test.test_concurrent_futures",
        ),
    ],
    key=lambda suite: suite.name,
)
CPYTHON_OLDER, CPYTHON_NEWEST = CPYTHON_SUITES[:-2], CPYTHON_SUITES[-2:]

BORN_CI = [
    f"_core/tests/test_{name}.py"
    for name in ("mem_overlap", "mem_policy", "indexing", "item_selection", "dlpack")
]
"""Those of NumPy's tests that have most to do with memory."""

CI = [
    Suite(
        "core",
        rust("--test=behaviour", "--test=models", "-E", f"binary(models) or {CORE_CI}"),
    ),
    *[
        one_check(f"core and the C ABI compile for {target}", compiles_for(target))
        for target in TARGETS
    ],
    Suite("C and C++", bash("ci/test-c", "--ci")),
    Suite("Miri", bash("ci/miri", "--ci")),
    Suite("loom", bash("ci/loom", "--ci")),
    Suite("Python", python_tests(f"({PYTHON_CI}) and not ({PYTHON_RELEASE})")),
    *other_pythons("", ["-m", *pytest(*files_of(OTHER_CI))]),
    *CPYTHON_NEWEST,
    Suite("Python: CPython's tests of multiprocessing", python(CPYTHON_MULTIPROCESSING, "--ci")),
    Suite("Python: joblib's own tests", foreign("joblib_suite.py")),
    Suite("Python: NumPy's tests, born shared", foreign("allocator.py", "numpy", *BORN_CI)),
    Suite("Ruby", [*RAKE_TEST, f"ARGS=--verbose --name {RUBY_CI}"]),
    Suite("Python: loky's tests of executors", foreign("loky_executor.py", *LOKY_CI)),
]

RELEASE = [
    Suite("a new dtype", pytest("ci/new_dtype")),
    Suite("core, crashes", release_form(crashes(*CRASH_RELEASE))),
    Suite("core, faults", bash("ci/inject", "--release")),
    Suite("core, portable backend", portable("--lib", "--test=behaviour")),
    Suite("core, the next version", next_version()),
    one_check(
        "documentation: Rust's examples",
        one_after_the_other(portable_examples(), cargo("test", *OF_MUSL, "--doc")),
    ),
    *[one_check(f"Debian {system}", bash("ci/systems", system)) for system in ("12", "13", "sid")],
    Suite("core, musl", in_root("musl", MUSL, "--tests")),
    Suite(
        "core, arm64",
        in_root(
            "arm64",
            ARM64,
            *("--lib", "--test=behaviour", "-E", f"kind(lib) or {ARM64_RELEASE}"),
            "--",
            *skipping(ARM64_LACKS),
        ),
    ),
    Suite("Python, arm64", bash("ci/packaging/wheel-on-arm64", JUNIT_XML, *files_of(ARM64_PYTHON))),
    Suite("targets that core refuses", python("ci/published/targets.py")),
    Suite("C and C++", bash("ci/test-c", "--release")),
    Suite("installing", bash("ci/test-install", "--release")),
    Suite("sanitizers: C and C++", bash("ci/sanitize", "--release")),
    Suite("sanitizers: threads in core", bash("ci/thread-sanitizer")),
    Suite("Miri", bash("ci/miri", "--release")),
    Suite("fuzzing", bash("ci/fuzz", "--seeds")),
    Suite("loom", bash("ci/loom", "--release")),
    Suite("Python", python_tests(PYTHON_RELEASE)),
    *CPYTHON_OLDER,
    Suite("Python: little shared memory", foreign("small_memory.py")),
    Suite("Python: NumPy's tests, born shared", foreign("allocator.py", "numpy")),
    Suite(
        "Python: SciPy's tests, born shared",
        foreign("allocator.py", "scipy", "linalg", "ndimage"),
    ),
    *only_with_numo(Suite("Ruby", release_form([*RAKE_TEST, INTERRUPTS]))),
    Suite("valgrind: C and Ruby", bash("ci/valgrind", "--release")),
    Suite("soak: workers killed", bash("ci/soak")),
    Suite("the crate as published", python("ci/published/crate.py")),
    Suite("the oldest Rust", python("ci/published/crate.py", "--oldest")),
    one_check("documentation: the site", bash("ci/docs")),
    Suite("README's commands to install", python("ci/published/readme_commands.py", *LANGUAGES)),
]

FORMS = {
    form: [dataclasses.replace(suite, form=form) for suite in suites]
    for form, suites in (("quick", QUICK), ("ci", CI), ("release", RELEASE))
}
