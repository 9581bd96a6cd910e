"""Type checkers see shmarray.multiprocessing as they see the standard package."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = (Path(__file__).parent / "typed_multiprocessing.py").read_text()
MODULE = re.compile(r"\bmultiprocessing\b")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The same program over the standard package and over ours."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "standard.py").write_text(TEXT)
    (folder / "ours.py").write_text(MODULE.sub("shmarray.multiprocessing", TEXT))
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    return folder


def run(folder, *command):
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


def by_file(said):
    """Returns the reports on each line of the standard program and of ours, without the package."""
    lines = {"standard.py": [], "ours.py": []}
    for file, line, text in said:
        lines[file].append((line, text.replace("shmarray.", "")))
    return lines["standard.py"], lines["ours.py"]


def pyright(folder):
    said = json.loads(run(folder, "pyright", "--pythonpath", sys.executable, "--outputjson"))
    for one in said["generalDiagnostics"]:
        text = f"{one['severity']}: {one['message']}"
        yield Path(one["file"]).name, one["range"]["start"]["line"] + 1, text


def mypy(folder):
    for file in ("standard.py", "ours.py"):
        said = run(folder, "mypy", "--strict", "--cache-dir", str(folder / "cache"), file)
        for line, text in re.findall(r"^\w+\.py:(\d+): (.*)$", said, re.M):
            yield file, int(line), text


@pytest.mark.parametrize("checker", [pyright, mypy], ids=lambda checker: checker.__name__)
def test_a_strict_checker_reveals_the_types_of_the_standard_package(checker, programs):
    standard, ours = by_file(checker(programs))
    assert [line for line in standard if "error" in line[1].partition(":")[0]] == []
    assert len(standard) >= TEXT.count("reveal_type(") >= 100
    assert ours == standard


WRONG = """
import shmarray.multiprocessing as mp
queue: "mp.Queue[int]" = mp.Queue()
queue.put("text")
mp.get_context("fork").Pool("two")
mp.Process(target=5)
"""


def test_a_mistake_is_found_by_each_checker(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = re.findall(
        r"wrong\.py:(\d+):\d+ - error", run(tmp_path, "pyright", "--pythonpath", sys.executable)
    )
    assert set(found) == {"4", "5", "6"}
    found = re.findall(r"wrong\.py:(\d+): error", run(tmp_path, "mypy", "--strict", "wrong.py"))
    assert set(found) == {"4", "5", "6"}
