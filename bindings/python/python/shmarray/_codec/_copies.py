"""Copies of private memory that several messages have, so that it is copied once for all of them.

A message has its copy alone, unless it is known that others are copies of the same bytes:

* `CallCopies`: an array stands in several tasks of one call. All that it is sent in was given
  before the call, so each task may have the array as it was when the first was packed.
* `SentCopies`: an array is sent again, and somebody still has a copy of it. The program may have
  changed it since, so a copy is used again only if its bytes are the array's.

Whoever receives such a copy maps it so that a store copies the page. Nobody stores to the copy
itself. A `SentCopies` holds nothing: a copy is freed when the last message and the last receiver
let go of it. A `CallCopies` holds its copies until the call's last task is packed.
"""

import collections
import gc
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from .. import _core, _thresholds, _wire
from .._core import Error, Handle
from ._parts import Array, address_of

Place: TypeAlias = tuple[int, int]
"""The lowest address of an array's elements, and the address behind the highest."""


class _Sent:
    """What was sent from a place."""

    def __init__(self, owner: "weakref.ref[Array]", sample: bytes) -> None:
        self.owner = owner
        """The array whose memory it is: another may have its place by now."""
        self.sample = sample
        self.handle: Handle | None = None
        """The copy that several receivers may have."""
        self.useless = 0
        """How many such copies in a row were not used again."""
        self.patience = 0
        """How often it is sent alone before there is another copy for several."""


class SentCopies:
    """The copies that messages of this process have lately been sent with."""

    def __init__(self) -> None:
        self._sent: dict[Any, _Sent] = {}

    def copy(self, source: Array) -> tuple[Array, str]:
        """Returns a copy for one receiver, the first time. The second copy of the same bytes is for
        several, and later ones are that copy, while somebody has it.
        """
        if source.nbytes < _thresholds.REUSED_LEAST_BYTES or not source.flags.forc:
            return _copied(source), _wire.OWN
        key = _key(source)
        sample = _sample(source)
        owner = _owner(source)
        sent = self._sent.get(key)
        if sent is None or sent.sample != sample or sent.owner() is not owner:
            if len(self._sent) >= _MOST_PLACES:
                self._sent = {}
            self._sent[key] = _Sent(weakref.ref(owner), sample)
        elif sent.handle is not None:
            if (copied := _attached(sent.handle)) is not None and _core.are_same_bytes(
                source, copied
            ):
                sent.useless = 0
                return copied, _FOR_SEVERAL
            sent.handle = None
            sent.useless += 1
            sent.patience = min(1 << sent.useless, _MOST_PATIENCE)
        elif sent.patience:
            sent.patience -= 1
        else:
            copied = _copied(source)
            sent.handle = _core.handle(copied)
            return copied, _FOR_SEVERAL
        return _copied(source), _wire.OWN


class CallCopies:
    """The copies of what stands in several tasks of a call, or in its function."""

    def __init__(self, function: object, tasks: Sequence[Iterable[object]]) -> None:
        """A call's tasks are made of the items of ``tasks`` at the same place."""
        self._given: tuple[object, Sequence[Iterable[object]]] | None = (function, tasks)
        self._repeated: dict[Place, Array] = {}
        self._copies: dict[Any, Array] = {}

    @classmethod
    def of(cls, function: object, tasks: Sequence[object]) -> "CallCopies | None":
        """Returns the copies of a call, or None if its items may change while tasks are packed:
        then those of other messages are compared.
        """
        if all(type(items) in _FIXED for items in tasks):
            return cls(function, tasks)  # type: ignore[arg-type]
        return None

    def copy(self, source: Array) -> tuple[Array, str]:
        """Returns the copy of the call if the array stands in several tasks."""
        if (given := self._given) is not None:
            self._repeated = _repeated(*given)
            self._given = None
        if _place(source) not in self._repeated:
            return SENT_COPIES.copy(source)
        key = _key(source)
        copied = self._copies.get(key)
        if copied is None:
            copied = self._copies[key] = _copied(source)
        return copied, _FOR_SEVERAL


def _copied(source: Array) -> Array:
    copied: Array = _core.share_copy(source, "C" if source.flags.c_contiguous else "F")
    return copied


def _key(source: Array) -> Any:
    return address_of(source), source.shape, source.strides, source.dtype.str


def _owner(array: Array) -> Array:
    """Returns the array that an array is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _sample(source: Array) -> bytes:
    """Returns some bytes of an array, to see at little cost that it was changed."""
    flat: Array = source.reshape(-1, order="A").view(np.uint8)
    return flat[:: -(-flat.size // _SAMPLE_BYTES)].tobytes()


def _attached(handle: Handle) -> Array | None:
    try:
        return _core.attach(handle, False, None)
    except (Error, OSError, MemoryError):
        return None  # nobody has it any more


def _place(array: Array) -> Place:
    address = address_of(array)
    low, high = _core.span(array)
    return address + low, address + high


def _repeated(function: object, tasks: Sequence[Iterable[object]]) -> dict[Place, Array]:
    """Returns the large arrays that stand in the function or in several tasks."""
    repeated: dict[Place, Array] = {}
    found: dict[Place, int] = {}
    met: dict[int, int] = {}
    waiting = collections.deque(_given(function, tasks))
    while waiting and len(met) < _MOST_LOOKED_AT:
        one, task = waiting.popleft()
        if issubclass(type(one), _HAVE_NO_ARRAYS):
            continue
        before = met.get(id(one))
        if before in (_ALL, task):
            continue
        task = met[id(one)] = task if before is None else _ALL
        place = None
        if issubclass(type(one), np.ndarray):
            array: Array = np.ndarray.view(cast(Array, one), np.ndarray)
            if array.nbytes >= _thresholds.REUSED_LEAST_BYTES:
                place = _place(array)
        if place is not None and (task == _ALL or found.setdefault(place, task) != task):
            repeated[place] = array
        waiting.extend((part, task) for part in _parts_of(one))
    return repeated


def _given(function: object, tasks: Sequence[Iterable[object]]) -> Iterator[tuple[object, int]]:
    """Returns what a call was given, with the number of the task that it stands in."""
    yield function, _ALL
    for items in tasks:
        if isinstance(items, itertools.repeat):
            yield items.__reduce__()[1][0], _ALL
        else:
            for number, item in enumerate(items):
                yield item, number


def _parts_of(one: object) -> Iterable[object]:
    """Returns what an object refers to, but for what a pickle of a function has not."""
    if isinstance(one, types.FunctionType):
        return (one.__closure__, one.__defaults__, one.__kwdefaults__)
    if type(one) is np.ndarray:
        return one.ravel("K") if one.dtype.kind == "O" else ()
    return gc.get_referents(one)


SENT_COPIES = SentCopies()
"""Those of this process. Its children forget nothing of it, and need not."""

_FOR_SEVERAL = "c"
_ALL = -1
"""In place of a task's number: it stands in several, or in all."""
_MOST_PLACES = 256
"""How many places a process remembers. Then it begins anew."""
_MOST_PATIENCE = 64
_SAMPLE_BYTES = 64
_MOST_LOOKED_AT = 100_000
"""The limit of objects in which repeated arrays are searched, which takes up to 0.1 s."""
_FIXED = (list, tuple, range, itertools.repeat)
"""Types whose items are what they were before."""
_HAVE_NO_ARRAYS: tuple[type, ...] = (
    *(int, float, complex, str, bytes, bytearray, type(None), type, np.generic, np.dtype),
    *(types.ModuleType, types.BuiltinFunctionType, types.CodeType, types.FrameType),
)
