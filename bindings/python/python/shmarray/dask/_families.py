"""Dask's families of serializers, which send arrays by handle where the receiver has the memory."""

import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from distributed.protocol.serialize import families, register_serialization_family

from . import _frames, _handshakes

_Serialized: TypeAlias = tuple[dict[str, Any], Sequence[Any]]
_Dumps: TypeAlias = Callable[..., _Serialized]
_Array: TypeAlias = np.ndarray[Any, Any]

_NAMES = ("dask", "pickle")


class _State:
    is_installed: typing.ClassVar[bool] = False


def install() -> None:
    """Replaces Dask's own families by ones that call them. Names and order stay, so this applies to
    whatever a program asks of serializers.
    """
    if _State.is_installed:
        return
    _State.is_installed = True
    for name in _NAMES:
        dumps, loads, _ = families[name]
        register_serialization_family(name, _dumps(dumps), _loads(loads))


def _dumps(standard: _Dumps) -> _Dumps:
    @functools.wraps(standard)
    def dumps(x: object, context: Mapping[str, Any] | None = None) -> _Serialized:
        under_way = _handshakes.reached(context)
        if under_way is None:
            header, frames = standard(x, context=context)
            if context and "recipient" in context and _frames.count_wire(frames):
                _handshakes.tell_why(context)
            return header, frames
        is_copy = False
        if type(x) is np.ndarray and _is_scattered(x):
            if (in_place := _strided(x, standard, context)) is not None:
                return _frames.by_handle(*in_place, under_way, False)
            if (copy := _frames.copied(x)) is not None:
                copy.flags.writeable = x.flags.writeable
                x = copy
                is_copy = True
        header, frames = standard(x, context=context)
        return _frames.by_handle(header, frames, under_way, is_copy)

    return dumps


def _loads(standard: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(standard)
    def loads(header: Mapping[str, Any], frames: Sequence[Any]) -> Any:
        if _frames.KEY in header:
            header, frames = _frames.arrived(header, frames)
        return standard(header, frames)

    return loads


def _is_scattered(array: _Array) -> bool:
    """Returns whether Dask would first copy the elements of this array together."""
    return not array.flags.forc and 0 not in array.strides and _frames.can_be_copied(array)


def _strided(array: _Array, standard: _Dumps, context: Any) -> _Serialized | None:
    """Serializes an array with gaps that is in shared memory and a sizeable part of it, without a
    copy. Returns None for any other. What Dask loads may have any positive strides.
    """
    location = None if min(array.strides) < 0 else _frames.part_of_shared(array)
    if location is None:
        return None
    segment_memory: Any
    segment_memory, _, _, offset = location
    steps = zip(array.shape, array.strides, strict=True)
    span = sum((count - 1) * stride for count, stride in steps) + array.itemsize
    memory = memoryview(segment_memory)[offset : offset + span]
    header, _ = standard(np.empty(1, array.dtype), context=context)
    layout = {
        "shape": array.shape,
        "strides": array.strides,
        "writeable": [array.flags.writeable],
    }
    return {**header, "sub-header": {**header["sub-header"], **layout}}, [memory]
