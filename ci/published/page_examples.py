"""Runs the examples of README.md and of the guide: every fenced piece of a language and `console`.

    . ci/env; python ci/published/page_examples.py [PAGE …]

The pieces of a page run in one folder, in order. A piece whose first line is a comment with a
file's name is written there under that name, for the `console` pieces after it, whose lines with
`$ ` are given to bash. What it prints must be the lines that follow, where … stands for anything.
Two pieces of `text` that begin with `$ ` are two terminals: the first command lives while the
second runs.
"""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

PAGES = ("README.md", *sorted(path.relative_to(ROOT) for path in ROOT.glob("examples/guide/*.md")))
LANGUAGES = ("python", "ruby", "cpp", "c", "rust", "console", "text")
NAMED = re.compile(r"(?:#|//) ([\w-]+\.(?:py|rb|cpp|c))\n")
NUMO_ABSENT = "neither numo-narray nor numo-narray-alt is installed, and no gem source answers"
CHANGE_OF_RUST = ("# Ok::<(), shmarray::Error>(())", "Ok::<(), shmarray::Error>(())")


def compiled(source, compiler, *flags):
    program = source.with_suffix("")
    libraries = shlex.split(
        subprocess.check_output(["pkg-config", "--cflags", "--libs", "shmarray"], text=True)
    )
    warnings = ("-Wall", "-Wextra", "-Werror")
    subprocess.run([compiler, *flags, *warnings, source, "-o", program, *libraries], check=True)
    return [program]


def rust(source):
    """A package with the text in its main function, as rustdoc puts it."""
    package = source.parent / "rust"
    (package / "src").mkdir(parents=True, exist_ok=True)
    body = source.read_text().replace(*CHANGE_OF_RUST)
    body = re.sub(r"^# ", "", body, flags=re.M)
    main = f"fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{body}\n; Ok(()) }}\n"
    (package / "src/main.rs").write_text(main)
    (package / "Cargo.toml").write_text(
        '[package]\nname = "page-example"\nedition = "2024"\n[workspace]\n'
        f'[dependencies]\nshmarray = {{ path = "{ROOT}/core" }}\n'
    )
    shutil.copy(ROOT / "Cargo.lock", package)
    target = ROOT / "target/ci/page-examples"
    manifest = package / "Cargo.toml"
    return ["cargo", "run", "-q", "--manifest-path", manifest, "--target-dir", target]


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
        case "rust":
            return rust(source)


def expectations(language, text):
    """The output that Ruby lines such as `p … # => this` promise."""
    return re.findall(r"^p .*# => (.+)$", text, re.M) if language == "ruby" else []


def is_shown(expected, printed):
    """Returns whether the printed lines are the expected ones, in which … stands for anything."""
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    lines = "\n".join(line.rstrip() for line in printed.strip().splitlines())
    return re.fullmatch(pattern, lines, re.S) is not None


def outcome_of_console(text, folder):
    """Runs each command of a terminal, and compares what it prints."""
    for shown in re.split(r"^\$ ", text, flags=re.M)[1:]:
        lines = shown.splitlines()
        count = 1 + next(number for number, line in enumerate(lines) if not line.endswith("\\"))
        script, expected = "\n".join(lines[:count]), "\n".join(lines[count:])
        done = bash(script, folder)
        if done.returncode or not is_shown(expected, done.stdout):
            print(f"FAILED $ {script}\n{done.stdout}\nexpected:\n{expected}")
            return "failed"
    return "passed"


def bash(script, folder):
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outcome_of_terminals(first, second, folder):
    """Runs the second terminal's command while the program of the first one lives."""
    begun, *lines = first.replace("\\\n", " ").splitlines()
    entered = [line.removeprefix(">>> ") for line in lines if line.startswith(">>> ")]
    screen, its_end = os.openpty()  # programs write each line at once to a terminal
    one = subprocess.Popen(
        ["bash", "-c", "exec " + begun.removeprefix("$ ") + (" -i -q" if entered else "")],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=its_end,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    os.close(its_end)
    try:
        one.stdin.write("\n".join(entered) + "\n")
        one.stdin.flush()
        with open(screen) as shown:
            printed = shown.readline()
            outcome = outcome_of_console(second, folder)
    finally:
        one.kill()
        one.communicate()
    expected = lines[-1] if lines else ""
    if outcome == "passed" and not is_shown(expected, printed):
        print(f"FAILED {begun}: printed {printed!r}, not {expected!r}")
        return "failed"
    return outcome


def outcome_of(language, text, folder):
    """Runs a piece as a program of its own."""
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


def pieces_of(page):
    return re.findall(r"^```(\w+)\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S)


def outcomes_of(page):
    """Yields the name and the outcome of each example of a page."""
    waiting = None  # the first of two terminals
    needs_numo = False
    with tempfile.TemporaryDirectory() as folder:
        for number, (language, text) in enumerate(pieces_of(page)):
            name = f"{page}: {language} example {number}"
            needs_numo |= "numo" in text.lower()
            runs = language == "console" or language == "text" and waiting
            if language not in LANGUAGES or language == "text" and not text.startswith("$ "):
                continue
            if named := NAMED.match(text):
                (pathlib.Path(folder) / named[1]).write_text(text)
            elif language == "text" and not waiting:
                waiting = text
            elif needs_numo and (runs or language == "ruby") and not has_numo():
                waiting = None
                yield name, f"skipped: {NUMO_ABSENT}"
            elif language == "console":
                yield name, outcome_of_console(text, folder)
            elif language == "text":
                yield name, outcome_of_terminals(waiting, text, folder)
                waiting = None
            else:
                yield name, outcome_of(language, text, folder)


def main():
    outcomes = [outcome for page in sys.argv[1:] or PAGES for outcome in outcomes_of(page)]
    sys.exit(junit.close("pages", outcomes))


if __name__ == "__main__":
    main()
