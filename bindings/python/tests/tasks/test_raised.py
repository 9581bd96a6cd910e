"""What a task raises is told with its place, also if the exception cannot be unpickled."""

import pickle
import traceback

import joblib
import pytest

import shmarray.joblib
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor


class TwoArgumentsError(Exception):
    """As most libraries' exceptions of several arguments: pickle calls the class with one."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


def fail_here(_):
    raise TwoArgumentsError("this", "that")


def by_pool():
    with mp.get_context("fork").Pool(1) as pool:
        pool.map(fail_here, [1])


def by_executor():
    with ProcessPoolExecutor(1, mp.get_context("fork")) as executor:
        executor.submit(fail_here, 1).result()


def by_joblib():
    shmarray.joblib.register()
    with joblib.parallel_config(backend="shmarray", n_jobs=2):
        joblib.Parallel()(joblib.delayed(fail_here)(number) for number in range(2))


@pytest.mark.parametrize("way", [by_pool, by_executor, by_joblib])
def test_an_exception_that_cannot_be_unpickled_says_what_was_raised_and_where(way):
    with pytest.raises(pickle.UnpicklingError, match=r"TwoArgumentsError: this and that") as raised:
        way()
    printed = "".join(traceback.format_exception(raised.value))
    assert "in fail_here" in printed
    assert 'raise TwoArgumentsError("this", "that")' in printed
