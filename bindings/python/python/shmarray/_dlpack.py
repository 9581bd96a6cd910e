"""Tensors of other frameworks as ndarrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._core import ForeignTensor
from ._dtypes import decode

_VERSION = (1, 1)


def from_dlpack(x: Any) -> NDArray[Any]:
    """Returns the memory of another framework's tensor on the CPU as an array.

    ``x`` has ``__dlpack__``: a tensor of torch, an array of JAX, CuPy or NumPy. Nothing is copied:
    ``share`` and messages copy the elements once. Besides NumPy's dtypes the array has those of
    ``ml_dtypes``, such as bfloat16, which ``numpy.from_dlpack`` refuses. It is read-only if the
    tensor is, or if that is of DLPack before 1.0, which does not say.

    Raises BufferError or ValueError if the tensor is on another device, TypeError if ``x`` has no
    ``__dlpack__`` or there is no such dtype.

    >>> import numpy as np
    >>> import shmarray
    >>> shmarray.from_dlpack(np.arange(3.0))
    array([0., 1., 2.])
    """
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"{type(x).__name__} has no __dlpack__")
    tensor = ForeignTensor.exchanged(x)
    if tensor is None:
        try:
            capsule = x.__dlpack__(max_version=_VERSION)
        except TypeError:  # a framework with DLPack before 1.0
            capsule = x.__dlpack__()
        tensor = ForeignTensor(capsule)
    return np.asarray(tensor).view(decode(tensor.dtype))
