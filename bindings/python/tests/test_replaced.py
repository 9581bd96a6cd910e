"""Another project's ``shmarray`` on the package index has one file, which pip installs over this
package's ``__init__.py`` without a word.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import shmarray

THEIRS = 'import numpy\n\n__version__ = "0.0.3"\n\n\ndef zeros(shape): ...\n'


@pytest.fixture
def replaced(tmp_path):
    """A folder with a copy of the package in which that file has been replaced."""
    copy = tmp_path / "shmarray"
    shutil.copytree(Path(shmarray.__file__).parent, copy)
    (copy / "__init__.py").write_text(THEIRS)
    return tmp_path


def ended(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment
    )


@pytest.mark.parametrize("name", ["multiprocessing", "concurrent", "joblib", "dask"])
def test_what_was_replaced_is_said_by_whatever_is_imported_next(replaced, name):
    done = ended(replaced, "-c", f"import shmarray.{name}")
    said = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert said.startswith(f"ImportError: {replaced}/shmarray/__init__.py is another project's")
    assert said.endswith("pip install --force-reinstall --no-deps shmarray-numpy")


def test_the_command_says_it(replaced):
    done = ended(replaced, "-m", "shmarray", "ls")
    assert done.returncode == 1
    assert "__init__.py is another project's" in done.stderr.splitlines()[-1]
