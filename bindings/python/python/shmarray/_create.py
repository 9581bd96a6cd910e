"""Creates arrays in shared memory: NumPy's functions under NumPy's names.

All take the keywords ``name``, ``persist`` and ``mode``, which ``empty`` explains.

All raise MemoryError if shared memory is full, FileExistsError if the name is taken, ValueError for
an impossible shape, order or name, and TypeError for a dtype that cannot be shared, such as one of
Python objects.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import _core

Shape = SupportsIndex | Sequence[SupportsIndex]


class _Mode(int):
    """Permission bits. Their ``repr`` is octal, so that ``help`` prints the default in octal."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"0o{self:o}"


_OURS_ALONE = _Mode(0o600)


def empty(
    shape: Shape,
    dtype: DTypeLike | None = float,
    order: Literal["C", "F"] = "C",
    *,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a new array in shared memory, as ``numpy.empty``. Its contents are undefined.

    The memory is reserved now, so that writing to it never fails.

    Parameters
    ----------
    shape : int or sequence of int
        The number of elements along each dimension.
    dtype : anything that ``numpy.dtype`` takes, default float
        The type of an element, without Python objects in it. The array takes its ``itemsize``,
        which is in bytes, times the number of elements. A segment of its own adds a page of 4096
        bytes.
    order : "C" or "F", default "C"
        The index that changes fastest from one element in memory to the next: the last, as in C, or
        the first, as in Fortran. The array's strides are in bytes.
    name : str, optional
        The name by which other processes may ``attach`` it, instead of its handle: 1 to 64 of the
        characters ``A-Z a-z 0-9 . _ -``. In a directory of segments (``SHMARRAY_DIR``) one array
        at a time has a name.
    persist : bool, default False
        Whether it outlives every process that holds it, until ``unlink(name)``. It needs a name. It
        does not outlive the machine's memory: a reboot ends it.
    mode : int, default 0o600
        Who may attach it, as permission bits of a file (``chmod``): 0o600 this user alone, 0o640
        the group may read, 0o660 the group may write, 0o666 everybody. The user's own bits, 0o600,
        must be among them.

    Raises MemoryError if shared memory is full, FileExistsError if the name is taken, ValueError
    for a bad shape, order, name or mode, TypeError for a dtype with objects.

    >>> a = empty((2, 3, 3), "i4", name="frames")
    >>> a.shape, a.strides, str(a.dtype)
    ((2, 3, 3), (36, 12, 4), 'int32')
    """
    return _new(shape, dtype, order, False, name, persist, mode)


def zeros(
    shape: Shape,
    dtype: DTypeLike | None = float,
    order: Literal["C", "F"] = "C",
    *,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a new array of zeros in shared memory, as ``numpy.zeros``.

    Takes and raises what ``empty`` does.

    >>> zeros(3).tolist()
    [0.0, 0.0, 0.0]
    """
    return _new(shape, dtype, order, True, name, persist, mode)


def ones(
    shape: Shape,
    dtype: DTypeLike | None = float,
    order: Literal["C", "F"] = "C",
    *,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a new array of ones in shared memory, as ``numpy.ones``.

    Takes and raises what ``empty`` does.

    >>> ones(3, "u1").tolist()
    [1, 1, 1]
    """
    return _filled(_new(shape, dtype, order, False, name, persist, mode), 1, name)


def full(
    shape: Shape,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Literal["C", "F"] = "C",
    *,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a new array filled with a value, or with an array that broadcasts, as ``numpy.full``.

    The dtype is that of the value unless given. Takes and raises what ``empty`` does.

    >>> full((2, 2), [1, 2]).tolist()
    [[1, 2], [1, 2]]
    """
    dtype = np.asarray(fill_value).dtype if dtype is None else dtype
    return _filled(_new(shape, dtype, order, False, name, persist, mode), fill_value, name)


def array(
    object: ArrayLike,  # NumPy's name for it
    dtype: DTypeLike | None = None,
    order: Literal["C", "F", "A", "K"] = "K",
    *,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a copy of any array-like object in shared memory, as ``numpy.array``.

    It always copies, even an array that is shared already. With order "K" or "A" an array in
    Fortran order stays in it, and any other gets C order. Raises what ``empty`` does.

    >>> array([[1, 2], [3, 4]], "f4").tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    source = np.asarray(object, dtype)
    return _core.share_copy(source, _plain_order(source, order), name, persist, mode)


def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Literal["C", "F", "A", "K"] = "K",
    *,
    shape: Shape | None = None,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a new array with the shape, dtype and order of another, as ``numpy.empty_like``.

    Order "K" keeps the order of the prototype's dimensions in memory. An array with a name keeps C
    or Fortran order, and gets C order otherwise. Raises what ``empty`` does.

    >>> empty_like(np.zeros((2, 3, 4), "i2").transpose(1, 0, 2)).strides
    (8, 24, 2)
    """
    return _new_like(prototype, dtype, order, shape, False, name, persist, mode)


def zeros_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Literal["C", "F", "A", "K"] = "K",
    *,
    shape: Shape | None = None,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns zeros in the shape, dtype and order of another array, as ``numpy.zeros_like``.

    Takes and raises what ``empty_like`` does.

    >>> zeros_like([1, 2, 3]).tolist()
    [0, 0, 0]
    """
    return _new_like(prototype, dtype, order, shape, True, name, persist, mode)


def ones_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Literal["C", "F", "A", "K"] = "K",
    *,
    shape: Shape | None = None,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns ones in the shape, dtype and order of another array, as ``numpy.ones_like``.

    Takes and raises what ``empty_like`` does.

    >>> ones_like([1, 2, 3]).tolist()
    [1, 1, 1]
    """
    return _filled(_new_like(prototype, dtype, order, shape, False, name, persist, mode), 1, name)


def full_like(
    prototype: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    order: Literal["C", "F", "A", "K"] = "K",
    *,
    shape: Shape | None = None,
    name: str | None = None,
    persist: bool = False,
    mode: int = _OURS_ALONE,
) -> NDArray[Any]:
    """Returns a value in the shape, dtype and order of another array, as ``numpy.full_like``.

    Takes and raises what ``empty_like`` does.

    >>> full_like([1, 2, 3], 7).tolist()
    [7, 7, 7]
    """
    return _filled(
        _new_like(prototype, dtype, order, shape, False, name, persist, mode), fill_value, name
    )


def _new(
    shape: Shape,
    dtype: DTypeLike | None,
    order: str,
    is_zero: bool,
    name: str | None,
    persist: bool,
    mode: int,
) -> NDArray[Any]:
    # NumPy decides what a dtype means: "S" is "S1", and a sub-array adds dimensions.
    model = np.empty(0, dtype)
    return _core.create(
        (*_dimensions(shape), *model.shape[1:]), model.dtype, order, is_zero, name, persist, mode
    )


def _new_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None,
    order: str,
    shape: Shape | None,
    is_zero: bool,
    name: str | None,
    persist: bool,
    mode: int,
) -> NDArray[Any]:
    source = np.asarray(prototype)
    model = source if dtype is None else np.empty(0, dtype)
    inner = () if dtype is None else model.shape[1:]
    dimensions = (*(source.shape if shape is None else _dimensions(shape)), *inner)
    if name is None and order == "K" and _is_permuted(source, dimensions):
        return _permuted(source.strides, dimensions, model.dtype, is_zero, mode)
    if len(dimensions) != source.ndim and order == "K":
        order = "C"
    return _core.create(
        dimensions, model.dtype, _plain_order(source, order), is_zero, name, persist, mode
    )


def _dimensions(shape: Shape) -> tuple[SupportsIndex, ...]:
    try:
        return (operator.index(shape),)  # type: ignore[arg-type]
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, shape))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(_no_shape(shape)) from None


def _no_shape(shape: Any) -> str:
    """Returns the text of an error that says what is wrong with a shape and what helps."""
    parts = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else [shape]
    wrong = next((part for part in parts if not isinstance(part, SupportsIndex)), shape)
    remedy = (
        f"use int({wrong!r}), or // in place of /"
        if isinstance(wrong, float)
        else "give an int or a tuple of ints"
    )
    kind = type(wrong).__name__
    return f"invalid shape: {wrong!r} is a {kind}, and a shape counts elements: {remedy}"


def _filled(new: NDArray[Any], value: ArrayLike, name: str | None) -> NDArray[Any]:
    try:
        np.copyto(new, value, casting="unsafe")
    except BaseException:
        if name is not None:
            _core.unlink(name)  # it may persist, half filled
        raise
    return new


def _plain_order(source: NDArray[Any], order: str) -> str:
    """Returns the order that "K" and "A" stand for, if it is that of C or Fortran."""
    return ("F" if source.flags.fnc else "C") if order in ("K", "A") else order


def _is_permuted(source: NDArray[Any], dimensions: tuple[SupportsIndex, ...]) -> bool:
    return len(dimensions) == source.ndim and not source.flags.forc


def _permuted(
    strides: tuple[int, ...],
    dimensions: tuple[SupportsIndex, ...],
    dtype: np.dtype[Any],
    is_zero: bool,
    mode: int,
) -> NDArray[Any]:
    """Creates an array whose dimensions lie in memory in the order of these strides, as NumPy
    does.
    """
    outermost_first = sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))
    in_memory = tuple(dimensions[axis] for axis in outermost_first)
    axes = [outermost_first.index(axis) for axis in range(len(strides))]
    return _core.create_permuted(in_memory, dtype, axes, is_zero, mode)
