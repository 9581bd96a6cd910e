"""Tensors of other frameworks: those of NumPy, of JAX where it is installed, and of any types."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest

import shmarray
from shmarray._core import ForeignTensor

CPU, BFLOAT, READ_ONLY = 1, 4, 1


class Tensor(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h."""


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Tensor))
Tensor._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", Deleter),
    ("flags", ctypes.c_uint64),
    ("data", ctypes.c_void_p),
    ("device_type", ctypes.c_int32),
    ("device_id", ctypes.c_int32),
    ("ndim", ctypes.c_int32),
    ("code", ctypes.c_uint8),
    ("bits", ctypes.c_uint8),
    ("lanes", ctypes.c_uint16),
    ("shape", ctypes.POINTER(ctypes.c_int64)),
    ("strides", ctypes.POINTER(ctypes.c_int64)),
    ("byte_offset", ctypes.c_uint64),
]
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Foreign:
    """An array as another framework's tensor, of a type that NumPy need not have."""

    def __init__(self, array, code=BFLOAT, bits=16, device_type=CPU, flags=0):
        self.array = array
        self.given_back = 0
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        steps = [stride // array.itemsize for stride in array.strides]
        self.strides = (ctypes.c_int64 * array.ndim)(*steps)
        self.deleter = Deleter(self.give_back)
        self.device_type = device_type
        self.tensor = Tensor(
            1, 1, None, self.deleter, flags, array.ctypes.data, device_type, 0, array.ndim,
            code, bits, 1, self.shape, self.strides, 0,
        )  # fmt: skip

    def give_back(self, _tensor):
        self.given_back += 1

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.tensor), b"dltensor_versioned", None)

    def __dlpack_device__(self):
        return self.device_type, 0


def halves(shape=(2, 3)):
    count = int(np.prod(shape))
    return (np.arange(count) / 2).astype(ml_dtypes.bfloat16).reshape(shape)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "c16"])
def test_numpys_arrays_are_the_same_memory(dtype):
    array = np.arange(6).astype(dtype).reshape(2, 3)[:, ::-1]
    seen = shmarray.from_dlpack(array)
    assert seen.dtype == array.dtype
    assert seen.tolist() == array.tolist()
    seen[1, 2] = 1
    assert array[1, 2] == 1


def test_a_dtype_that_numpy_lacks_is_one_of_ml_dtypes():
    array = halves()
    foreign = Foreign(array)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(foreign)
    before = foreign.given_back
    seen = shmarray.from_dlpack(foreign)
    assert seen.dtype == ml_dtypes.bfloat16
    assert seen.tolist() == array.tolist()
    seen[0, 1] = 9
    assert array[0, 1] == 9
    view = seen[1:]
    del seen
    gc.collect()
    assert foreign.given_back == before
    shared = shmarray.share(view)
    assert shared.dtype == ml_dtypes.bfloat16
    assert shared.tolist() == array[1:].tolist()
    del view
    gc.collect()
    assert foreign.given_back == before + 1


def test_strides_and_a_flag_are_kept():
    array = halves((4, 6))[::-2, 1::2]
    seen = shmarray.from_dlpack(Foreign(array, flags=READ_ONLY))
    assert seen.tolist() == array.tolist()
    assert seen.strides == array.strides
    assert not seen.flags.writeable


@pytest.mark.parametrize(
    ("changed", "error", "says"),
    [
        ({"device_type": 2}, ValueError, "it is on device 2:0"),
        ({"code": 99}, TypeError, "code 99, 16 bits"),
        ({"code": 17, "bits": 4}, ValueError, "its elements of 4 bits are packed"),
    ],
)
def test_what_cannot_be_seen_is_refused_and_given_back(changed, error, says):
    foreign = Foreign(halves(), **changed)
    with pytest.raises(error, match=says):
        shmarray.from_dlpack(foreign)
    assert foreign.given_back >= 1


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="list has no __dlpack__"):
        shmarray.from_dlpack([1, 2])

    for other in (3, new_capsule(1, b"something else", None)):
        with pytest.raises(TypeError, match="__dlpack__ has returned no tensor"):
            ForeignTensor(other)


def test_a_tensor_from_before_dlpack_1_is_seen_and_given_back():
    class Earlier(Foreign):
        def __dlpack__(self):
            of_tensor = Tensor.data.offset
            tensor = ctypes.string_at(ctypes.addressof(self.tensor) + of_tensor, 48)
            context = bytes(8)
            deleter = ctypes.string_at(ctypes.byref(self.deleter), 8)
            self.bytes = ctypes.create_string_buffer(tensor + context + deleter)
            return new_capsule(ctypes.addressof(self.bytes), b"dltensor", None)

    foreign = Earlier(halves())
    seen = shmarray.from_dlpack(foreign)
    assert seen.tolist() == foreign.array.tolist()
    assert not seen.flags.writeable
    before = foreign.given_back
    del seen
    gc.collect()
    assert foreign.given_back == before + 1


def test_jaxs_arrays_are_the_same_values():
    numpy = pytest.importorskip("jax.numpy", reason="JAX is not installed")
    for dtype in (numpy.float32, numpy.bfloat16, numpy.float8_e4m3fn, numpy.int8):
        array = numpy.arange(6, dtype=dtype).reshape(2, 3)
        seen = shmarray.from_dlpack(array)
        assert seen.dtype == np.asarray(array).dtype
        assert shmarray.share(seen).tolist() == np.asarray(array).tolist()
