"""The examples of the documents run, and every public name is documented."""

import doctest
import inspect
import pydoc
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import shmarray
from shmarray import _create, _dumps, _share
from shmarray._files import _batch, _npy, _npz

KINDS = ("empty", "zeros", "ones", "full")
README = Path(__file__).parent.parent / "README.md"


MODULES = [shmarray, _create, _dumps, _share, _npy, _npz, _batch]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_in_docstrings_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    globs = {**vars(shmarray), **vars(module), "np": __import__("numpy")}
    result = doctest.testmod(
        module, globs=globs, optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert result.failed == 0
    assert result.attempted > 0


def test_the_examples_in_the_readme_run():
    result = doctest.testfile(str(README), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert result.failed == 0
    assert result.attempted > 0


def test_every_public_function_has_a_docstring_with_an_example():
    functions = [
        getattr(shmarray, name)
        for name in shmarray.__all__
        if inspect.isfunction(getattr(shmarray, name))
    ]
    assert len(functions) >= 19
    assert [
        function.__name__ for function in functions if ">>> " not in (function.__doc__ or "")
    ] == []


@pytest.mark.parametrize(
    "name", ["empty", "zeros", "ones", "full", "array", *(f"{w}_like" for w in KINDS)]
)
def test_help_shows_every_keyword_and_the_mode_in_octal(name):
    text = pydoc.render_doc(getattr(shmarray, name), renderer=pydoc.plaintext)
    for keyword in ("name: 'str | None' = None", "persist: 'bool' = False", "mode: 'int' = 0o600"):
        assert keyword in text
    assert not re.search(r"typing\.|numpy\._", text), "types by the names that people know"


def test_help_explains_every_parameter_of_empty_with_its_unit():
    text = inspect.getdoc(shmarray.empty)
    explained = re.findall(r"^(\w+) : .*\n    \S", text, re.M)
    assert explained == list(inspect.signature(shmarray.empty).parameters)
    for unit in ("elements along each dimension", "in bytes", "permission bits", "default 0o600"):
        assert unit in text


def test_every_public_name_is_documented():
    documented = [name for name in shmarray.__all__ if name != "__version__"]
    assert [name for name in documented if not inspect.getdoc(getattr(shmarray, name))] == []


def test_the_package_says_its_version():
    assert shmarray.__version__ == metadata.version("shmarray-numpy")


def check(*command):
    """Runs a checker from another directory, so that it checks the installed package."""
    done = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, cwd="/", check=False
    )
    return done.returncode, done.stdout + done.stderr


# That the stubs say what the modules have is checked by a suite of its own in ci/checks/runner.
@pytest.fixture(scope="module")
def mypy_config(tmp_path_factory):
    """One for all, since its cache has NumPy's stubs."""
    folder = tmp_path_factory.mktemp("mypy")
    config = folder / "mypy.ini"
    untyped = "[mypy-joblib.*,cloudpickle.*]\nignore_missing_imports = True\n"
    config.write_text(f"[mypy]\ncache_dir = {folder / 'cache'}\n{untyped}")
    return config


def test_a_program_that_uses_everything_passes_the_strictest_check(mypy_config):
    program = Path(__file__).parent / "typed_program.py"
    status, output = check("mypy", "--strict", "--config-file", str(mypy_config), str(program))
    assert status == 0, output


def test_a_program_that_uses_everything_runs(run_python):
    program = Path(__file__).parent / "typed_program.py"
    assert run_python(program) == ""


def test_a_program_that_misuses_it_does_not_pass(mypy_config, tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import shmarray\nshmarray.attach(5)\nshmarray.zeros(3, nam='x')\nshmarray.handle([1])\n"
    )
    status, output = check("mypy", "--strict", "--config-file", str(mypy_config), str(wrong))
    assert status == 1
    assert {int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line} == {
        2,
        3,
        4,
    }


def test_it_needs_numpy_and_nothing_else(run_python):
    said = run_python(
        """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "numpy", "shmarray"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NotInstalled())
import shmarray, shmarray.concurrent, shmarray.multiprocessing
print(shmarray.loads(shmarray.dumps(shmarray.ones(3))).sum())
"""
    )
    assert said == "3.0\n"
