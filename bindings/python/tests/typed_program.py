"""Uses every public name with its types: read by a checker and run by a test."""

import pickle
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import shmarray

a: NDArray[Any] = shmarray.empty((2, 3), np.int32, "F", name="typed", persist=False, mode=0o640)
shmarray.zeros(3)
shmarray.ones([2, 3], "f4", name="ones")
shmarray.full((2,), 7, order="C", mode=0o600)
shmarray.array([[1, 2]], dtype="i8", order="A")
shmarray.empty_like(a, shape=(4,), name="like")
shmarray.zeros_like([1, 2], "f8")
shmarray.ones_like(a, order="K", mode=0o600)
shmarray.full_like(a, 2.5, float)

assert_type(shmarray.share(np.zeros(3, np.float32)).dtype, np.dtype[np.float32])
assert_type(shmarray.share({"a": np.zeros(3)})["a"].dtype, np.dtype[np.float64])
assert_type(shmarray.is_shared(None), bool)

h = shmarray.handle(a)
assert_type(h, shmarray.Handle)
assert_type((h.shape, h.strides), tuple[tuple[int, ...], tuple[int, ...]])
assert_type((h.offset, h.generation, h.segment), tuple[int, int, str])
assert_type(h.dtype, np.dtype[Any])
copies: set[shmarray.Handle] = {h, shmarray.Handle(str(h)), pickle.loads(pickle.dumps(h))}

shmarray.attach(h)
shmarray.attach(str(h), readonly=True)
shmarray.attach("typed")
shmarray.unlink("typed")
shmarray.discard(h)
shmarray.discard(str(h))

data = shmarray.dumps([a, "text"])
assert_type(data, bytes)
loaded: list[Any] = shmarray.loads(memoryview(data))
shmarray.discard(bytearray(data))

swept: shmarray.Swept = shmarray.sweep()
assert_type((swept.segments, swept.bytes), tuple[int, int])
names: list[str | None] = [info.name for info in shmarray.segments()]
info: shmarray.SegmentInfo = shmarray.segments()[0]
assert_type((info.holders, info.tickets, info.persists), tuple[tuple[int, ...], int, bool])
copied: int = shmarray.copied_bytes()
version: str = shmarray.__version__
try:
    shmarray.attach("nobody")
except (shmarray.StaleHandleError, shmarray.Error, FileNotFoundError) as error:
    assert_type(error, shmarray.StaleHandleError | shmarray.Error | FileNotFoundError)
