"""The errors of common mistakes say what helps."""

import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor
from shmarray.multiprocessing.pool import Pool

FRACTIONS = {"a float": 3.0, "a float in a tuple": (2, 3.0), "one of NumPy's": np.float64(3)}


@pytest.mark.parametrize("shape", FRACTIONS.values(), ids=FRACTIONS)
def test_a_float_as_a_shape_is_told_to_be_made_an_integer(shape):
    for make in (
        shmarray.zeros,
        shmarray.empty,
        shmarray.ones,
        lambda shape: shmarray.full(shape, 1),
    ):
        with pytest.raises(
            TypeError, match=r"invalid shape: .*3\.0\)? is a float.*: use int\(.*3\.0"
        ):
            make(shape)


def test_a_text_as_a_shape_is_told_what_a_shape_is():
    with pytest.raises(
        TypeError, match=r"invalid shape: 'ab' is a str.*give an int or a tuple of ints"
    ):
        shmarray.zeros("ab")


def test_unlink_of_an_array_says_that_it_takes_a_name_and_that_the_array_needs_none():
    a = shmarray.zeros(3)
    for thing in (a, shmarray.handle(a), None):
        with pytest.raises(
            TypeError, match=rf"takes the name .* not {type(thing).__name__}: .* needs no unlink"
        ):
            shmarray.unlink(thing)
    assert a.sum() == 0


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_the_name_of_a_start_method_instead_of_a_context_is_told_the_call_that_makes_one(
    method,
):
    remedy = rf'shmarray\.multiprocessing\.get_context\("{method}"\)'
    with pytest.raises(
        TypeError,
        match=f"mp_context must be a context, not '{method}': mp_context={remedy}",
    ):
        ProcessPoolExecutor(1, mp_context=method)
    with pytest.raises(TypeError, match=f"context={remedy}"):
        Pool(1, context=method)


@pytest.mark.parametrize("options", ["ro", "mode=555"])
def test_a_directory_where_nothing_can_be_made_is_told_with_the_variable_that_names_another(
    options, small_tmpfs
):
    small_tmpfs(f"size=1m,{options}")
    code = "import os, shmarray; os.geteuid() == 0 and os.seteuid(65534); shmarray.zeros(3)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(
        r"(Read-only file system|Permission denied).*; set the environment variable SHMARRAY_DIR",
        done.stderr,
    )


def test_pickle_loads_of_dumps_says_what_loads_it(tmp_path):
    data = shmarray.dumps({"a": np.arange(3)})
    (tmp_path / "data").write_bytes(data)
    with open(tmp_path / "data", "rb") as file:
        for load in (
            lambda: pickle.loads(data),
            lambda: pickle._loads(data),
            lambda: pickle.load(file),
        ):
            with pytest.raises(
                pickle.UnpicklingError, match=r"not a pickle: load them with shmarray\.loads"
            ):
                load()
    assert shmarray.loads(data)["a"].tolist() == [0, 1, 2]


# A notebook: its module lacks names that the parent's has.
NOTEBOOK = """
import sys
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor

def f(number):
    return number

way, method = sys.argv[1:]
context = mp.get_context(method)
try:
    if way == "process":
        process = context.Process(target=f, args=(1,))
        process.start()
        process.join()
    elif way == "pool":
        with context.Pool(1) as pool:
            pool.map(f, [1])
    else:
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            executor.submit(f, 1).result()
except AttributeError as error:
    print(error, file=sys.stderr)
"""


@pytest.mark.parametrize("way", ["process", "pool", "executor"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_function_of_a_notebook_in_a_started_process_is_told_to_be_put_into_a_module(way, method):
    command = [sys.executable, "-c", NOTEBOOK, way, method]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    (line,) = [line for line in said.splitlines() if "%%writefile" in line]
    assert re.search(r"'f'.*__main__.* Put it into a module .*get_context\(\"fork\"\)", line)


def test_another_attribute_that_is_not_there_is_told_as_ever():
    with mp.get_context("fork").Pool(1) as pool, pytest.raises(AttributeError) as caught:
        pool.apply(getattr, (5, "absent"))
    assert str(caught.value) == "'int' object has no attribute 'absent'"
