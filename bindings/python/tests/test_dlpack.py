"""Tensors of other frameworks: those of NumPy, of JAX where it is installed, and of any types."""

import ctypes
import gc
import importlib.util
import itertools

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


class Earlier(Foreign):
    """The same, before DLPack 1.0."""

    def __dlpack__(self):
        of_tensor = Tensor.data.offset
        tensor = ctypes.string_at(ctypes.addressof(self.tensor) + of_tensor, 48)
        context = bytes(8)
        deleter = ctypes.string_at(ctypes.byref(self.deleter), 8)
        self.bytes = ctypes.create_string_buffer(tensor + context + deleter)
        return new_capsule(ctypes.addressof(self.bytes), b"dltensor", None)


class Table(ctypes.Structure):
    """DLPackExchangeAPI of dlpack.h."""


Export = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.POINTER(Tensor)))
Table._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("earlier", ctypes.POINTER(Table)),
    ("allocator", ctypes.c_void_p),
    ("from_py_object", Export),
    ("others", ctypes.c_void_p * 3),
]


@Export
def export(foreign, tensor):
    tensor[0] = ctypes.pointer(foreign.tensor)
    return 0


@Export
def export_fails(_foreign, _tensor):
    return -1


def table_type(*tables):
    """A type whose table is the first of these, which leads to the others."""

    class Exchanged(Foreign):
        def __dlpack__(self, **_):
            raise BufferError("this way is not for it")

        kept = tables
        __dlpack_c_exchange_api__ = new_capsule(
            ctypes.addressof(tables[0]), b"dlpack_exchange_api", None
        )

    for table, other in itertools.pairwise(tables):
        table.earlier = ctypes.pointer(other)
    return Exchanged


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


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)])
def test_arrays_of_any_shape_are_the_same(shape):
    seen = shmarray.from_dlpack(np.zeros(shape, "f4"))
    assert (seen.shape, seen.dtype, seen.sum()) == (shape, np.dtype("f4"), 0)


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
    foreign = Earlier(halves())
    seen = shmarray.from_dlpack(foreign)
    assert seen.tolist() == foreign.array.tolist()
    assert not seen.flags.writeable
    before = foreign.given_back
    del seen
    gc.collect()
    assert foreign.given_back == before + 1


def test_a_types_own_functions_come_before_its_capsule():
    first = Table(major=1, minor=3, from_py_object=export)
    later = Table(major=2, minor=0, from_py_object=export_fails)
    for tables in ((first,), (later, first)):
        foreign = table_type(*tables)(halves())
        seen = shmarray.from_dlpack(foreign)
        assert seen.dtype == ml_dtypes.bfloat16
        assert seen.tolist() == foreign.array.tolist()
        del seen
        gc.collect()
        assert foreign.given_back == 1


def test_what_a_types_own_functions_refuse_is_refused():
    fails = Table(major=1, minor=3, from_py_object=export_fails)
    with pytest.raises(TypeError, match="has given no tensor"):
        shmarray.from_dlpack(table_type(fails)(halves()))
    later = Table(major=2, minor=0, from_py_object=export)
    with pytest.raises(BufferError, match="this way is not for it"):
        shmarray.from_dlpack(table_type(later)(halves()))
    wrong = type("Wrong", (Foreign,), {"__dlpack_c_exchange_api__": 3})
    with pytest.raises(ValueError, match="PyCapsule"):
        shmarray.from_dlpack(wrong(halves()))


def test_tvms_tensors_are_the_same_memory():
    ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")
    for array in (np.arange(6.0).reshape(2, 3), halves()):
        tensor = ffi.from_dlpack(Earlier(array) if array.dtype == ml_dtypes.bfloat16 else array)
        seen = shmarray.from_dlpack(tensor)
        assert seen.dtype == array.dtype
        seen[1, 2] = 77
        assert array[1, 2] == 77


# In a process of its own: JAX starts threads, and warns at every fork after that.
JAX = """
import jax.numpy
import numpy as np
import shmarray

for dtype in (jax.numpy.float32, jax.numpy.bfloat16, jax.numpy.float8_e4m3fn, jax.numpy.int8):
    array = jax.numpy.arange(6, dtype=dtype).reshape(2, 3)
    seen = shmarray.from_dlpack(array)
    assert seen.dtype == np.asarray(array).dtype
    assert shmarray.share(seen).tolist() == np.asarray(array).tolist()
    del seen
"""


def test_jaxs_arrays_are_the_same_values(run_python, monkeypatch):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    run_python(JAX)


def test_torchs_tensors_of_bfloat16_are_the_same_memory_in_both_directions():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: it takes 6 GB")
    weights = shmarray.share(halves())
    for tensor in (
        torch.from_dlpack(weights.view("i2")).view(torch.bfloat16),
        torch.frombuffer(weights.view("u1"), dtype=torch.bfloat16).reshape(weights.shape),
    ):
        assert tensor.float().tolist() == weights.tolist()
        tensor[1, 2] = 77
        assert weights[1, 2] == 77
        seen = shmarray.from_dlpack(tensor)
        assert seen.dtype == ml_dtypes.bfloat16
        assert seen.tolist() == weights.tolist()
        weights[1, 2] = 2
        assert seen[1, 2] == 2
