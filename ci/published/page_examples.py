"""Runs the README's examples as they are: each fenced piece of Python, Ruby, C and C++.

The first two pieces of text are what two terminals show: Python's lines are given to an interactive
Python, and the other command runs while it lives.

. ci/env; python ci/published/readme_examples.py
"""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

LANGUAGES = ("python", "ruby", "cpp", "c")
NUMO_ABSENT = "neither numo-narray nor numo-narray-alt is installed, and no gem source answers"


def compiled(source, compiler, *flags):
    program = source.with_suffix("")
    libraries = shlex.split(
        subprocess.check_output(["pkg-config", "--cflags", "--libs", "shmarray"], text=True)
    )
    subprocess.run(
        [compiler, *flags, "-Wall", "-Wextra", "-Werror", source, "-o", program, *libraries],
        check=True,
    )
    return [program]


def command(language, source):
    match language:
        case "python":
            return [sys.executable, source]
        case "ruby":
            return ["ruby", source]
        case "cpp":
            return compiled(source, os.environ.get("CXX", "c++"), "-std=c++17")
        case "c":
            return compiled(source, os.environ.get("CC", "cc"), "-std=c11")


def expectations(language, text):
    """The output that Ruby lines such as `p … # => this` promise."""
    return re.findall(r"^p .*# => (.+)$", text, re.M) if language == "ruby" else []


def two_terminals(first, second):
    """Runs what the terminals show. Returns what was missing from their output."""
    lines = [line.removeprefix(">>> ") for line in first.splitlines() if line.startswith(">>> ")]
    shown, *expected = second.splitlines()
    one = subprocess.Popen(
        [sys.executable, "-i", "-q"],
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        one.stdin.write("\n".join(lines) + "\n")
        one.stdin.flush()
        handle = one.stdout.readline()
        other = shlex.split(shown.removeprefix("$ "))
        printed = subprocess.run(other, capture_output=True, text=True).stdout
    finally:
        one.stdin.close()
        one.wait()
    beginning = first.splitlines()[-1].partition("…")[0].rpartition('"')[0]
    found = [line.rstrip() for line in printed.splitlines()]
    missing = [line for line in expected if line not in found]
    return missing if handle.startswith(beginning) else [beginning, *missing]


def outcome_of_terminals(pieces):
    if not has_numo():
        return f"skipped: {NUMO_ABSENT}"
    missing = two_terminals(*[text for language, text in pieces if language == "text"][:2])
    if missing:
        print(f"FAILED the two terminals: nothing printed {missing}")
    return "failed" if missing else "passed"


def outcome_of(language, text):
    if "numo" in text and not has_numo():
        return f"skipped: {NUMO_ABSENT}"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"example.{language}"
        source.write_text(text)
        done = subprocess.run(command(language, source), capture_output=True, text=True, cwd=folder)
    printed = done.stdout.splitlines()
    if done.returncode == 0 and all(line in printed for line in expectations(language, text)):
        return "passed"
    print(f"FAILED {language}:\n{text}\n{done.stdout}{done.stderr}")
    return "failed"


@functools.cache
def has_numo():
    asked = ["ruby", "-e", "require 'numo/narray'"]
    return subprocess.run(asked, stderr=subprocess.DEVNULL).returncode == 0


def main():
    pieces = re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    outcomes = [("the two terminals", outcome_of_terminals(pieces))]
    outcomes += [
        (f"{language} example {number}", outcome_of(language, text))
        for number, (language, text) in enumerate(pieces)
        if language in LANGUAGES
    ]
    sys.exit(junit.close("README", outcomes))


if __name__ == "__main__":
    main()
