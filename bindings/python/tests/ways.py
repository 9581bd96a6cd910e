"""The ways that an object can take, within one process. The tests run through each."""

import numpy as np
import pytest

import shmarray

LARGE = 1 << 16


def through_bytes(obj):
    return shmarray.loads(shmarray.dumps(obj))


def through_bytes_beside_something_large(obj):
    """Small arrays travel in shared memory, too, if they are enough."""
    return shmarray.loads(shmarray.dumps([obj, np.zeros(LARGE, "u1")]))[0]


def shared(obj):
    return shmarray.share([obj])[0]


WAYS = [through_bytes, through_bytes_beside_something_large, shared]
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
