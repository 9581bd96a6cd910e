"""Encodes dtypes without Python objects as the text in a handle, and decodes them.

A plain dtype is its type string, ``<i4``. One of ``ml_dtypes``, which NumPy's type strings do not
tell apart, is its name, ``bfloat16``. A structured dtype is a JSON object, ``{"descr": X,
"itemsize": N}``, where X is

* the list that ``numpy.lib.format.dtype_to_descr`` returns, with lists for tuples, if reading it
  gives the same dtype again;
* otherwise (overlapping fields, fields out of order, alignment to be kept) an object with
  ``names``, ``formats`` and ``offsets``, and with ``titles`` and ``aligned`` where the dtype has
  them. A format is a type string, a name, an object with ``descr`` and ``itemsize``, or a list
  ``[format, shape]`` for a sub-array;
* the name of a dtype that core has no row for.

The ``metadata`` of a dtype and the class of its scalars (``numpy.record``) are not encoded, as in
an NPY file.
"""

import importlib
import json
import re
import sys
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype

Dtype = np.dtype[Any]

# Type strings without objects, and without other texts that numpy.dtype accepts: "i4,f8", "float".
_TYPESTR = re.compile(r"[<>|][biufcmMSUV][0-9]+(\[[A-Za-z0-9/]+\])?")
# The names of dtypes that core has rows for, and the package that has them.
_NAME = re.compile(r"[a-z]*(float|complex|int)[0-9]+(_[a-z0-9]+)?")
_PACKAGE = "ml_dtypes"
_DESCR_KEYS = {"descr", "itemsize"}
_FIELD_KEYS = {"names", "formats", "offsets"}
_MORE_FIELD_KEYS = {"titles", "aligned"}


def encode(dtype: Dtype) -> str:
    """Returns the text of a dtype. Raises TypeError if the dtype cannot be shared."""
    if dtype.kind == "T":
        raise TypeError(
            f"dtype {dtype} cannot be shared: its elements are pointers into this process's "
            "memory. Text of a fixed width can be shared, as dtype 'U20'; a message takes strings "
            "of any width, by value"
        )
    if dtype.hasobject:
        raise TypeError(f"dtype {dtype} cannot be shared: it holds Python objects")
    if (name := _name(dtype)) is not None:
        if dtype != np.dtype(dtype.type):
            raise TypeError(
                f"dtype {name} cannot be shared in another byte order than the machine's"
            )
        return name
    text = dtype.str if dtype.names is None else _encode_structured(dtype)
    if text is None or (dtype.names is None and not _reads_back(text, dtype)):
        raise TypeError(f"dtype {dtype} cannot be shared: its type string does not describe it all")
    return text


def _name(dtype: Dtype) -> str | None:
    """Returns the name of a dtype of ml_dtypes, which is imported if there is such a dtype."""
    package = sys.modules.get(_PACKAGE)
    name: str = dtype.type.__name__
    return name if package is not None and getattr(package, name, None) is dtype.type else None


def decode(text: str) -> Dtype:
    """Returns the dtype of a text. Raises ValueError if the text is invalid, and ImportError if the
    package that has the dtype is missing.
    """
    try:
        return _read(json.loads(text)) if text.startswith("{") else _read_plain(text)
    except ImportError:
        raise
    except Exception as error:  # NumPy may raise anything for a hostile text
        raise ValueError(f"invalid dtype: {text[:200]} is none of NumPy's: {error}") from error


def _encode_structured(dtype: Dtype) -> str | None:
    for write in (_write_list, _write_object):
        value = write(dtype)
        text = json.dumps(value, separators=(",", ":"), default=str)
        if value is not None and _reads_back(text, dtype):
            return text
    return None


def _write_list(dtype: Dtype) -> Any:
    try:
        return {"descr": dtype.descr, "itemsize": dtype.itemsize}
    except ValueError:  # NumPy: "not defined for types with overlapping or out-of-order fields"
        return None


def _write_object(dtype: Dtype) -> Any:
    """Returns the JSON value of any dtype, field by field. A plain dtype is its type string or its
    name.
    """
    if dtype.subdtype is not None:
        return [_write_object(dtype.subdtype[0]), dtype.subdtype[1]]
    if dtype.names is None:
        return _name(dtype) or dtype.str
    fields = [_field(dtype, name) for name in dtype.names]
    descr: dict[str, Any] = {
        "names": dtype.names,
        "formats": [_write_object(field) for field, _, _ in fields],
        "offsets": [offset for _, offset, _ in fields],
    }
    if any(title is not None for _, _, title in fields):
        descr["titles"] = [title for _, _, title in fields]
    if dtype.isalignedstruct:
        descr["aligned"] = True
    return {"descr": descr, "itemsize": dtype.itemsize}


def _field(dtype: Dtype, name: str) -> tuple[Dtype, int, Any]:
    assert dtype.fields is not None
    field, offset, *title = dtype.fields[name]
    return field, offset, title[0] if title else None


def _reads_back(text: str, dtype: Dtype) -> bool:
    try:
        return _same(decode(text), dtype)
    except ValueError:
        return False


def _same(one: Dtype, other: Dtype) -> bool:
    """Returns whether two dtypes are equal, also in alignment, titles and offsets of sub-arrays'
    fields, which ``==`` ignores.
    """
    if (
        one != other
        or one.itemsize != other.itemsize
        or one.isalignedstruct != other.isalignedstruct
    ):
        return False
    if one.subdtype is not None and other.subdtype is not None:
        return _same(one.subdtype[0], other.subdtype[0])
    return all(_same_field(_field(one, name), _field(other, name)) for name in one.names or ())


def _same_field(one: tuple[Dtype, int, Any], other: tuple[Dtype, int, Any]) -> bool:
    return one[1:] == other[1:] and _same(one[0], other[0])


def _parse_plain(text: str) -> Dtype:
    return _by_name(text) if _NAME.fullmatch(text) else np.dtype(_check_typestr(text))


def _by_name(name: str) -> Dtype:
    """Returns the dtype of a name. Nothing else imports the package: who has such an array, has it
    imported.
    """
    how = (
        "or see the elements as bytes: shmarray.attach(…, dtype=…) with a dtype of the same size, "
        "such as 'V1' or 'V2'"
    )
    try:
        package = importlib.import_module(_PACKAGE)
    except ImportError as error:
        raise ImportError(f"dtype {name} is one of {_PACKAGE}: install it, {how}") from error
    scalar = getattr(package, name, None)
    if not (isinstance(scalar, type) and issubclass(scalar, np.generic)):
        version = getattr(package, "__version__", "?")
        raise ValueError(f"it is not one of {_PACKAGE} {version}: install a newer one, {how}")
    return np.dtype(scalar)


# A plain dtype cannot be changed and is cached. A structured one has names that can be changed.
_read_plain = lru_cache(maxsize=256)(_parse_plain)


def _check_typestr(text: str) -> str:
    if not _TYPESTR.fullmatch(text):
        raise ValueError(f"{text!r} is not a type string of items without objects")
    return text


def _read(value: Any) -> Dtype:
    """Returns the dtype of a format: a type string, a name, [format, shape], or {"descr": …,
    "itemsize": …}.
    """
    match value:
        case str():
            return _read_plain(value)
        case [base, shape]:
            return np.dtype((_read(base), tuple(shape)))
        case {"descr": descr, "itemsize": int(itemsize)} if value.keys() == _DESCR_KEYS:
            return _check(_read_descr(descr, itemsize), itemsize)
    raise ValueError(f"{value!r} is no format")


def _read_descr(descr: Any, itemsize: int) -> Dtype:
    match descr:
        case str() if descr.isidentifier():
            return _by_name(descr)
        case list():
            return descr_to_dtype(_tuples(descr))
        case dict() if _FIELD_KEYS <= descr.keys() <= _FIELD_KEYS | _MORE_FIELD_KEYS:
            fields: Any = {
                **descr,
                "formats": [_read(value) for value in descr["formats"]],
                "itemsize": itemsize,
            }
            dtype: Dtype = np.dtype(fields)
            return dtype
    raise ValueError(
        "descr is neither a list of fields, nor an object of names, formats and offsets, nor a name"
    )


def _tuples(descr: Any) -> Any:
    """Returns the value that ``dtype_to_descr`` gave, with tuples again for JSON's lists."""
    if isinstance(descr, str):
        _read_plain(descr)  # NumPy knows a name when its package is imported
        return descr
    if _is_sub_array(descr):
        return _tuples(descr[0]), tuple(descr[1])
    return [
        (tuple(name) if isinstance(name, list) else name, _tuples(form), *map(tuple, shape))
        for name, form, *shape in descr
    ]


def _is_sub_array(descr: Any) -> bool:
    """Returns whether it is a format and its shape, and not fields, which begin with names."""
    return (
        len(descr) == 2
        and isinstance(descr[1], list)
        and all(isinstance(count, int) for count in descr[1])
    )


def _check(dtype: Dtype, itemsize: int) -> Dtype:
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if dtype.itemsize != itemsize:
        raise ValueError(f"its items have {dtype.itemsize} bytes, not {itemsize}")
    return dtype
