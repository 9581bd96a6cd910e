"""The first use of anything by one thread, and a fork by another: the child is no worse off.

Everything that is made once is made when the package is imported, or survives a fork at any step of
its making.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import first_use_program
from working import sweep_after_deaths

PROGRAM = Path(first_use_program.__file__)

NEW_MODULES = """
import sys
from first_use_program import OPERATIONS

for name, operation in OPERATIONS.items():
    before = {*sys.modules}
    operation()
    print(name, sorted({*sys.modules} - before))
"""


@pytest.mark.parametrize("operation", first_use_program.OPERATIONS)
def test_a_child_forked_at_each_step_of_a_first_use_does_the_same(operation):
    command = [sys.executable, PROGRAM, operation]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    name, forks, failed = json.loads(done.stdout)
    assert name == operation
    assert forks >= len(first_use_program.STRIDES)
    assert failed == [], done.stderr  # which says where the children waited
    sweep_after_deaths()  # the children end without the library's own end


def test_no_first_use_imports_a_module(run_python, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM.parent))
    said = run_python(NEW_MODULES).splitlines()
    assert said == [f"{name} []" for name in first_use_program.OPERATIONS]
