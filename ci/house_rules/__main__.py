"""House rules as tests: the line of modules, the size of functions and files, words that are not
ours.

python ci/tidy
"""

import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci/suites"))
import listed  # noqa: E402

MOST_LINES = {"file": 500, "function": 60}
MEDIAN_BELOW, NINE_OF_TEN_BELOW = 9, 25
# Words that the names of INTERFACE have one of their own for.
SYNONYMS = re.compile(r"\b(shared memory block|memory region|shm_block|shm_region)\b", re.I)
HOSTS = re.compile(
    r"(https?://(?:index\.)?(?:crates\.io|pypi\.org|rubygems\.org|registry\.npmjs\.org|deb\.debian\.org))"
)
PROSE = {"CHANGELOG.md"}
# Suites that a machine may lack what is needed for.
ABSENT_HERE = {"Python 3.x", "examples: Ruby"}

passed, failures = 0, []


def check(holds, what):
    global passed
    if holds:
        passed += 1
    else:
        failures.append(what)


def tracked(*endings):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listed.stdout.splitlines()]
    return [path for path in paths if path.suffix in endings and path.is_file()]


def without_tests(text):
    return text.split("#[cfg(test)]\nmod tests")[0]


def modules_form_a_line():
    """Each module of core uses only those before it in lib.rs."""
    source = ROOT / "core/src"
    order = re.findall(r"^(?:pub\(crate\) |pub )?mod (\w+);", (source / "lib.rs").read_text(), re.M)
    check(len(order) > 8, "core/src/lib.rs lists no modules")
    for place, module in enumerate(order):
        files = [source / f"{module}.rs", *sorted((source / module).rglob("*.rs"))]
        for path in filter(pathlib.Path.exists, files):
            used = set(re.findall(r"\bcrate::(\w+)", without_tests(path.read_text()))) & set(order)
            later = used - set(order[: place + 1])
            check(not later, f"{path.relative_to(ROOT)} uses {sorted(later)}, which come after it")


def functions(text):
    """Lengths of the functions of a Rust file, by braces, signature and closing brace included."""
    lines, lengths = text.splitlines(), []
    for start, line in enumerate(lines):
        if not re.match(
            r"\s*(?:pub(?:\([^)]*\))? )?(?:const )?(?:unsafe )?(?:extern \"C\" )?fn \w+", line
        ):
            continue
        indent = len(line) - len(line.lstrip())
        for end in range(start, len(lines)):
            if (
                lines[end].rstrip().endswith(";")
                and end == start
                or lines[end] == " " * indent + "}"
                or re.search(r"\{.*\}$", line)
                and end == start
            ):
                lengths.append((end - start + 1, line.strip()))
                break
    return lengths


def functions_are_short():
    lengths = []
    for path in tracked(".rs"):
        if "tests" in path.parts or "drivers" in path.parts:
            continue
        for length, name in functions(without_tests(path.read_text())):
            lengths.append(length)
            check(
                length <= MOST_LINES["function"],
                f"{path.relative_to(ROOT)}: {name} has {length} lines",
            )
    lengths.sort()
    check(len(lengths) > 100, f"only {len(lengths)} functions were found")
    median, ninth = statistics.median(lengths), lengths[len(lengths) * 9 // 10]
    print(
        f"{len(lengths)} functions of Rust: median {median} lines, nine of ten at most {ninth}, longest {lengths[-1]}"
    )
    check(median < MEDIAN_BELOW, f"the median function has {median} lines")
    check(ninth < NINE_OF_TEN_BELOW, f"nine of ten functions have at most {ninth} lines")


def files_are_rooms():
    for path in tracked(".rs", ".py", ".rb", ".hpp", ".c", ".cpp", ".h"):
        if path.name == "shmarray.h":
            continue  # generated
        lines = len(without_tests(path.read_text()).splitlines())
        check(lines <= MOST_LINES["file"], f"{path.relative_to(ROOT)} has {lines} lines")


def modules_say_what_they_are():
    for path in tracked(".rs"):
        first = path.read_text().split("\n", 1)[0]
        check(first.startswith("//! "), f"{path.relative_to(ROOT)} does not begin with what it is")


def no_words_that_are_not_ours():
    for path in tracked(".rs", ".py", ".rb", ".hpp", ".c", ".cpp", ".h", ".md", ".toml", ".sh"):
        if path == pathlib.Path(__file__).resolve() or path.name in PROSE:
            continue
        text = path.read_text()
        check(not SYNONYMS.search(text), f"{path.relative_to(ROOT)} says {SYNONYMS.search(text)}")
        check(
            not HOSTS.search(text),
            f"{path.relative_to(ROOT)} names a registry's host: {HOSTS.search(text)}",
        )


def every_suite_is_in_the_table():
    """CONTRIBUTING says of each suite what ci/test and ci/test --long run of it, and names no
    other.
    """
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", (ROOT / "CONTRIBUTING.md").read_text(), re.M
    )
    table = {name: long != "–" for name, _, long in rows}
    short, long = (
        {re.sub(r"^Python 3\.\d+$", "Python 3.x", suite[0]) for suite in form}
        for form in (listed.SHORT, listed.LONG)
    )
    check(len(short) > 30, "suites.py lists no suites")
    for name in sorted(short | long):
        check(name in short, f"{name} has no form in ci/test")
        check(
            table.get(name) == (name in long),
            f"CONTRIBUTING's table of suites is wrong about {name}",
        )
    for name in table.keys() - short - ABSENT_HERE - {"suite", "---"}:
        check(False, f"CONTRIBUTING's table names a suite that is not there: {name}")


def features(*packages):
    """Each crate that they are built from, with its features."""
    chosen = [word for package in packages for word in ("-p", package)]
    command = [
        "cargo",
        "tree",
        *chosen,
        "--edges",
        "normal,build",
        "--prefix",
        "none",
        "--format",
        "{p} [{f}]",
    ]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {line.removesuffix(" (*)") for line in said.splitlines() if line.strip()}


def core_is_built_once():
    """Another set of features anywhere below core, and a binding builds core again:

    see the workspace's Cargo.toml.
    """
    names = {line.split()[0] for line in features("shmarray")}
    below = {line for line in features("shmarray-ffi", "shmarray-cli") if line.split()[0] in names}
    check(len(below) > 20, "cargo names nothing that core is built from")
    for package in ("shmarray-python", "shmarray-ruby"):
        for line in sorted(below - features(package)):
            check(False, f"{package} has other features than ffi and the command line of {line}")


def main():
    for rule in (
        modules_form_a_line,
        functions_are_short,
        files_are_rooms,
        modules_say_what_they_are,
        no_words_that_are_not_ours,
        every_suite_is_in_the_table,
        core_is_built_once,
    ):
        rule()
    for line in failures:
        print("FAILED", line)
    print(f"house rules: {passed} passed, {len(failures)} failed")
    sys.exit(bool(failures) or passed < 100)


if __name__ == "__main__":
    main()
