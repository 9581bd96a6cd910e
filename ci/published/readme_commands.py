"""Follows the README's commands to install from a clone, and runs its first example of each
language.

    python ci/published/readme_commands.py LANGUAGE …

It runs in a clean clone, where nothing is compiled, and in a clean environment: an empty home, and
nothing of ci/env on the paths.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci/checks/runner"))
import junit  # noqa: E402 (of a folder that is no package)

README = (ROOT / "README.md").read_text()
OF_CI_ENV = (
    "CARGO_TARGET_DIR",
    "PKG_CONFIG_PATH",
    "CMAKE_PREFIX_PATH",
    "LD_LIBRARY_PATH",
    "GEM_PATH",
    "VIRTUAL_ENV",
    "PYTHONPATH",
)
NOT_PUBLISHED = (
    r"pip install shmarray|gem install numo-shared|cargo (?:add|install) shmarray|^shmarray = \""
)
FLAGS = "$(pkg-config --cflags --libs shmarray)"
# For each section: the language of its example, the commands that prepare a user's environment, the
# folder in which the README's commands run, and the commands that run the example afterwards.
SECTIONS = {
    "Python": (
        "python",
        f"{sys._base_executable} -m venv ~/venv; . ~/venv/bin/activate",
        "~/shmarray",
        "python ~/example.python; shmarray ls; python -m shmarray ls",
    ),
    "Ruby": ("ruby", "export GEM_HOME=~/gems", "~/shmarray", "ruby ~/example.ruby"),
    "C++": (
        "cpp",
        "",
        "~/shmarray",
        f"c++ -std=c++17 ~/example.cpp -o ~/cpp {FLAGS}; ~/cpp; ~/.local/bin/shmarray ls",
    ),
    "C": ("c", "", "~/shmarray", f"cc ~/example.c -o ~/c {FLAGS}; ~/c"),
    "Rust": (
        "rust",
        "cargo init -q --name example ~/example",
        "~/example",
        "cp ~/example.rust src/main.rs; cargo run -q",
    ),
}
# The README gives C the commands of C++.
SAME_COMMANDS = {"C": "C++"}
WITHOUT_NUMO = (
    'require "shmarray"\nraise unless Shmarray::Array.create(:float32, [2, 3]).shape == [2, 3]\n'
)


def section(title):
    return re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.M | re.S)[1]


def blocks(title, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", section(title), re.M | re.S)


def example(title, language):
    text = blocks(title, language)[0]
    if language == "rust":  # in a main function, as rustdoc puts it
        return (
            "fn main() -> Result<(), shmarray::Error> {\n"
            + re.sub(r"^# Ok.*", "Ok(())", text, flags=re.M)
            + "}\n"
        )
    if (
        language == "ruby"
        and subprocess.run(
            ["ruby", "-e", 'require "numo/narray"'], stderr=subprocess.DEVNULL
        ).returncode
    ):
        return WITHOUT_NUMO
    return text


def environment(home):
    made = str(ROOT / "target/ci")
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if not path.startswith(made)]
    real = pathlib.Path.home()
    tools = {"CARGO_HOME": str(real / ".cargo"), "RUSTUP_HOME": str(real / ".rustup")}
    clean = {name: value for name, value in os.environ.items() if name not in OF_CI_ENV}
    return tools | clean | {"HOME": str(home), "PATH": os.pathsep.join(paths)}


def clone(to):
    """Copies the files that git tracks or would track."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, text=True
    )
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def script(title, home):
    language, before, folder, then = SECTIONS[title]
    (home / f"example.{language}").write_text(example(title, language))
    commands = blocks(SAME_COMMANDS.get(title, title), "sh")
    assert commands, f"the README says no command to install for {title}"
    return "\n".join(["set -euo pipefail", before, f"cd {folder}", *commands, then])


def follow(title, home):
    """Runs a section's commands and example. Returns whether they succeed."""
    text = script(title, home)
    done = subprocess.run(
        ["bash", "-c", text],
        env=environment(home),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    print(f"{title}: {'well' if done.returncode == 0 else 'FAILED'}", flush=True)
    if done.returncode:
        print(text, done.stdout[-6000:], sep="\n")
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("language", nargs="+", choices=SECTIONS)
    languages = parser.parse_args().language
    promised = "Nothing is published yet" not in README or re.findall(
        NOT_PUBLISHED,
        "\n".join(path.read_text() for path in ROOT.glob("bindings/*/README.md")),
        re.M,
    )
    if promised:
        print(f"FAILED: nothing is published, but a README says {promised}")
    with tempfile.TemporaryDirectory(prefix="shmarray-home-") as home:
        home = pathlib.Path(home)
        clone(home / "shmarray")
        done = {title: follow(title, home) for title in languages}
    done["nothing is promised that is not published"] = not promised
    outcomes = ((name, "passed" if well else "failed") for name, well in done.items())
    sys.exit(junit.close("README's commands", outcomes))


if __name__ == "__main__":
    main()
