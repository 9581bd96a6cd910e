"""Start methods, workers, and programs that find the modules here."""

import os
import sys
import types

import pytest

import shmarray.multiprocessing as mp
from tasks import Gate
from working import METHODS, sweep_after_deaths


@pytest.fixture(params=METHODS)
def context(request):
    """The context of a start method."""
    return mp.get_context(request.param)


@pytest.fixture
def no_main(monkeypatch):
    """Workers need not import the program that runs the tests."""
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))


@pytest.fixture
def pool(context):
    """Two workers, under each start method."""
    with context.Pool(2) as pool:
        yield pool
    pool.join()
    sweep_after_deaths()  # reclaims what killed workers held


@pytest.fixture
def one():
    """A pool with one worker."""
    with mp.get_context("fork").Pool(1) as pool:
        yield pool
    pool.join()
    sweep_after_deaths()


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


@pytest.fixture
def path(monkeypatch):
    """Programs find the modules here."""
    before = os.environ.get("PYTHONPATH")
    here = os.path.dirname(__file__)
    monkeypatch.setenv("PYTHONPATH", here if before is None else f"{before}{os.pathsep}{here}")
