"""Reducers that a program registers are used, also for arrays."""

import multiprocessing.reduction

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from shmarray.multiprocessing.reduction import ForkingPickler


class Plain:
    pass


REGISTERED = {
    np.ndarray: [np.arange(3), np.arange(100_000), shmarray.array(np.arange(5))],
    complex: [1j],
    Plain: [Plain()],
}


@pytest.mark.parametrize(
    "pickler", [ForkingPickler, multiprocessing.reduction.ForkingPickler], ids=["ours", "standard"]
)
@pytest.mark.parametrize("kind", REGISTERED)
def test_reducers_that_a_program_registers_are_asked(kind, pickler, monkeypatch):
    monkeypatch.setitem(
        pickler._extra_reducers, kind, lambda obj: (str, (f"one {type(obj).__name__}",))
    )
    here, there = mp.Pipe()
    for obj in REGISTERED[kind]:
        for sent, got in [(obj, f"one {kind.__name__}"), ([obj, 7], [f"one {kind.__name__}", 7])]:
            here.send(sent)
            assert there.recv() == got
