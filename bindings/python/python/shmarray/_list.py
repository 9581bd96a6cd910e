"""What `List` does in Python: which objects are records, and when items are equal."""

from __future__ import annotations

import copyreg
import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._core import Dict as Dict
from ._core import List as List

Mapping.register(Dict)
Sequence.register(List)

_OWN_PICKLING = (
    "__reduce_ex__",
    "__reduce__",
    "__getstate__",
    "__setstate__",
    "__getnewargs_ex__",
    "__getnewargs__",
)


def iterator(iterable: Iterable[Any]) -> Iterator[Any]:
    """Returns an iterator, also of a data set that has ``__len__`` and ``__getitem__`` alone."""
    kind = type(iterable)
    if not hasattr(kind, "__iter__") and hasattr(kind, "__len__"):
        return (iterable[index] for index in range(len(iterable)))  # type: ignore[index, arg-type]
    return iter(iterable)


def pairs(mapping: Any) -> Iterable[tuple[Any, Any]]:
    """Returns the keys with their values, as ``dict`` takes them."""
    found: Iterable[tuple[Any, Any]] = mapping
    if hasattr(mapping, "items"):
        found = mapping.items()
    elif hasattr(mapping, "keys"):
        found = ((key, mapping[key]) for key in mapping.keys())  # noqa: SIM118 (no __iter__)
    return found


def equal_mappings(one: Dict[Any, Any], other: object) -> Any:
    """Returns what ``==`` says of a dictionary and anything, as for a dict."""
    if one is other:
        return True
    if not isinstance(other, Mapping):
        return NotImplemented
    return len(one) == len(other) and all(
        key in other and is_equal(value, other[key]) for key, value in one.items()
    )


def identity(path: str | PathLike[str]) -> tuple[int, int, int]:
    """Returns what says that a file still is the same one."""
    facts = os.stat(path)
    return facts.st_size, facts.st_ino, facts.st_mtime_ns


def record_class(kind: type) -> tuple[str, bool, tuple[str, ...]] | None:
    """Returns the text, whether it is a named tuple, and the fields of a class whose objects are
    records. None for any other class.
    """
    if issubclass(kind, tuple):
        fields = getattr(kind, "_fields", None)
        is_record = isinstance(fields, tuple) and hasattr(kind, "_make") and not _is_pickled(kind)
    elif dataclasses.is_dataclass(kind):
        fields = tuple(field.name for field in dataclasses.fields(kind))
        is_record = (
            kind.__bases__ == (object,)
            and not _is_pickled(kind)
            and _has_slots_for(kind, fields)
            and not _is_described(kind, fields)
        )
    else:
        return None
    text = f"{kind.__module__}\n{kind.__qualname__}"
    if not is_record or _found(text) is not kind:
        return None
    return text, issubclass(kind, tuple), tuple(fields or ())


def _has_slots_for(kind: type, fields: tuple[str, ...]) -> bool:
    """Whether a class has no slots, or one for each field and no others."""
    slots = vars(kind).get("__slots__")
    return slots is None or sorted([slots] if isinstance(slots, str) else slots) == sorted(fields)


def _is_described(kind: type, fields: tuple[str, ...]) -> bool:
    """Whether the class itself says what becomes of a field that is set."""
    if "__slots__" in vars(kind):
        return False
    return any(hasattr(type(vars(kind).get(name)), "__set__") for name in fields)


def _is_pickled(kind: type) -> bool:
    """Whether a class says itself how its objects are pickled."""
    if kind in copyreg.dispatch_table:
        return True
    # A dataclass with slots gets methods that do what `maker` does.
    ours = getattr(dataclasses, "_dataclass_getstate", None)
    theirs = {name for name in _OWN_PICKLING if name in vars(kind)}
    if vars(kind).get("__getstate__") is ours:
        theirs -= {"__getstate__", "__setstate__"}
    if issubclass(kind, tuple):
        theirs -= {"__getnewargs__"}
        return (
            bool(theirs) or kind.__bases__ != (tuple,) or kind.__new__.__module__ != _module(kind)
        )
    return bool(theirs)


def _module(kind: type) -> str:
    """Returns the module that a named tuple's own ``__new__`` says."""
    return f"namedtuple_{kind.__name__}"


def _found(text: str) -> object:
    """Returns the object of a module and a qualified name, or None."""
    module, _, name = text.partition("\n")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def maker(text: str, names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], object]:
    """Returns a function that makes an object of a class of the values of its fields, as unpickling
    does: without a call of ``__init__``.
    """
    module, _, name = text.partition("\n")
    importlib.import_module(module)
    kind: Any = _found(text)
    if not isinstance(kind, type):
        raise AttributeError(f"module {module!r} has no class {name!r}, of which the records are")
    if issubclass(kind, tuple):
        return kind._make  # type: ignore[attr-defined, no-any-return]

    def make(values: tuple[Any, ...]) -> object:
        made = object.__new__(kind)
        for field, value in zip(names, values, strict=True):
            object.__setattr__(made, field, value)
        return made

    return make


def is_equal(one: Any, other: Any) -> bool:
    """Returns whether two items are equal. Arrays are if their shapes and elements are."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        are_arrays = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
        return are_arrays and bool(np.array_equal(one, other))
    if type(one) is dict and type(other) is dict:
        return one.keys() == other.keys() and all(is_equal(one[key], other[key]) for key in one)
    if type(one) is type(other) and type(one) in (list, tuple):
        return len(one) == len(other) and all(map(is_equal, one, other))
    try:
        return bool(one == other)
    except ValueError:
        # Arrays in a dataclass, which its own comparison cannot compare.
        if type(one) is not type(other) or not dataclasses.is_dataclass(one):
            raise
        fields = [field.name for field in dataclasses.fields(one) if field.compare]
        return all(is_equal(getattr(one, name), getattr(other, name)) for name in fields)
    except TypeError:
        return False  # NumPy has no comparison of structures and numbers


def equal_items(one: List[Any], other: List[Any]) -> bool:
    return all(map(is_equal, one, other))


def contains(items: List[Any], value: object) -> bool:
    return any(is_equal(item, value) for item in items)


def count(items: List[Any], value: object) -> int:
    return sum(is_equal(item, value) for item in items)


def index(
    items: List[Any], value: object, start: SupportsIndex | None, stop: SupportsIndex | None
) -> int:
    for place in range(*slice(start, stop).indices(len(items))):
        if is_equal(items[place], value):
            return place
    raise ValueError(f"{value!r} is not in the list")


def as_array(
    items: List[Any], array: NDArray[Any] | None, dtype: DTypeLike | None, copy: bool | None
) -> NDArray[Any]:
    """Returns what ``numpy.asarray`` makes of a list, of which ``array`` is the memory."""
    if array is not None:
        return np.array(array, dtype, copy=copy)
    if copy is False:
        raise ValueError("the list is no array: numpy.asarray has to copy it")
    return np.array(list(items), dtype)


def to_arrow(items: List[Any]) -> Any:
    """Returns a list as an array of pyarrow of the same memory."""
    return _pyarrow("List.to_arrow needs it").array(items)


def decoded(capsules: object) -> Any:
    """Returns a stream of the same items without dictionaries, run ends and views of lists."""
    pyarrow = _pyarrow("it decodes dictionaries, run ends and views of lists")
    if isinstance(capsules, tuple):
        arrays = [pyarrow.array(_Capsules(__arrow_c_array__=capsules))]
    else:
        chunked = pyarrow.chunked_array(_Capsules(__arrow_c_stream__=capsules))
        arrays = chunked.chunks or [pyarrow.nulls(0, chunked.type)]
    return pyarrow.chunked_array([_decoded(pyarrow, array) for array in arrays])


class _Capsules:
    """An object whose method returns capsules of Arrow that there are already."""

    def __init__(self, **methods: object) -> None:
        for name, capsules in methods.items():
            setattr(self, name, lambda _=None, capsules=capsules: capsules)


def _pyarrow(reason: str) -> Any:
    try:
        importlib.import_module("pyarrow.compute")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"pyarrow is not installed: {reason} (pip install pyarrow)") from error


def _is_encoded(types: Any, kind: Any) -> bool:
    is_view = types.is_list_view(kind) or types.is_large_list_view(kind)
    if is_view or types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return True
    return any(_is_encoded(types, kind.field(number).type) for number in range(kind.num_fields))


def _decoded(pyarrow: Any, array: Any) -> Any:
    kind, types = array.type, pyarrow.types
    if types.is_dictionary(kind):
        values = array.dictionary
        # No function of pyarrow takes items of views.
        if types.is_string_view(values.type):
            values = values.cast(pyarrow.large_string())
        elif types.is_binary_view(values.type):
            values = values.cast(pyarrow.large_binary())
        return _decoded(pyarrow, values.take(array.indices))
    if types.is_run_end_encoded(kind):
        return _decoded(pyarrow, pyarrow.compute.run_end_decode(array))
    if not _is_encoded(types, kind):
        return array
    if types.is_struct(kind):
        parts = [_decoded(pyarrow, part) for part in array.flatten()]
        fields = [field.with_type(part.type) for field, part in zip(kind, parts, strict=True)]
        return pyarrow.StructArray.from_arrays(parts, fields=fields, mask=array.is_null())
    views = types.is_list_view(kind) or types.is_large_list_view(kind)
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not views and not lists:
        raise TypeError(f"dictionaries, run ends and views of lists in {kind} are not decoded")
    lengths = pyarrow.compute.list_value_length(array).fill_null(0)
    offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(), dtype=np.int64)])
    values = _decoded(pyarrow, array.flatten())
    field = kind.value_field.with_type(values.type)
    return pyarrow.LargeListArray.from_arrays(
        offsets, values, type=pyarrow.large_list(field), mask=array.is_null()
    )
