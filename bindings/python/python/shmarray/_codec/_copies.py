"""Copies of private memory that several messages have, so that it is copied once for all of them.

A message has its copy alone, unless others carry the same bytes:

* `CallCopies`: an array stands in several tasks of one call. The call has one copy of it, until the
  last task is packed.
* `SentCopies`: an array is sent again, while somebody has the copy of the last time. The process
  keeps no copy for that.

A program may change an array between two messages, so a copy is used again only if its bytes are
the array's. A pool's blocking call compares only a sample of them: nothing of the program runs
between its tasks but what pickling calls, and arrays behind such code are not among its copies.

Whoever receives such a copy maps it so that a store copies the page. Nobody stores to the copy
itself.
"""

import copyreg
import functools
import gc
import itertools
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from .. import _core, _thresholds, _wire
from .._core import Error, Handle, are_same_bytes
from ._parts import Array, address_of

Place: TypeAlias = tuple[int, int]
"""The lowest address of an array's elements, and the address behind the highest."""


class SeparateCopies:
    """A copy for each message."""

    def copy(self, source: Array) -> tuple[Array, str]:
        return _copied(source), _wire.OWN


class _Sent(NamedTuple):
    """What was last sent from a place."""

    sample: int
    handle: Handle
    is_common: bool
    """Whether several receivers may have the copy. Else one has, and may store to it."""


class SentCopies:
    """The copies that messages of this process were lately sent with."""

    def __init__(self) -> None:
        self._sent: dict[Any, _Sent] = {}

    def copy(self, source: Array) -> tuple[Array, str]:
        """Returns a copy for one receiver. If somebody still has the last one, and as far as a
        sample tells it was of the same bytes: a copy for several, or that copy.
        """
        if source.nbytes < _thresholds.REUSED_LEAST_BYTES or not source.flags.forc:
            return _copied(source), _wire.OWN
        key = _key(source)
        sample = _sample(source)
        is_common = False
        sent = self._sent.get(key)
        if sent is not None and sent.sample == sample:
            copied = _attached(sent.handle)
            if copied is not None and sent.is_common and are_same_bytes(source, copied):
                return copied, _FOR_SEVERAL
            is_common = copied is not None and not sent.is_common
            del copied
        if len(self._sent) >= _MOST_PLACES:
            self._sent = {}
        copied = _copied(source)
        self._sent[key] = _Sent(sample, _core.handle(copied), is_common)
        return copied, _FOR_SEVERAL if is_common else _wire.OWN


class CallCopies:
    """The copies of what stands in several tasks of a call, or in its function."""

    def __init__(
        self, function: object, tasks: Sequence[Iterable[object]], *, compares: bool
    ) -> None:
        """A call's tasks are made of the items of ``tasks`` at the same place. Without ``compares``
        the caller waits until the last is packed.
        """
        self._given: tuple[object, Sequence[Iterable[object]]] | None = (function, tasks)
        self._compares = compares
        self._repeated: dict[Place, Array] = {}
        self._copies: dict[Any, tuple[int | None, Array | None]] = {}

    @classmethod
    def of(
        cls, function: object, tasks: Sequence[object], *, compares: bool
    ) -> "CallCopies | None":
        """Returns the copies of a call. None if getting its items runs code, which may change the
        arrays of earlier ones.
        """
        if all(type(items) in _FIXED for items in tasks):
            return cls(function, cast(Sequence[Iterable[object]], tasks), compares=compares)
        return None

    def copy(self, source: Array) -> tuple[Array, str]:
        """Returns the copy of the call if the array stands in several tasks, or was sent in another
        one. Else it may be in one alone.
        """
        if (given := self._given) is not None:
            self._repeated = _repeated(*given)
            self._given = None
        is_repeated = _place(source) in self._repeated
        compares = self._compares or not is_repeated
        if source.nbytes < _thresholds.REUSED_LEAST_BYTES or (compares and not source.flags.forc):
            return _copied(source), _wire.OWN
        key = _key(source)
        sample = _sample(source)
        taken, copied = self._copies.get(key, (None, None))
        if not is_repeated and taken != sample:
            self._copies[key] = sample, None
            return SENT_COPIES.copy(source)
        is_same = taken == sample and copied is not None
        if copied is None or not is_same or (compares and not are_same_bytes(source, copied)):
            copied = _copied(source)
            self._copies[key] = sample, copied
        return copied, _FOR_SEVERAL


def _copied(source: Array) -> Array:
    is_f_order = source.flags.f_contiguous and not source.flags.c_contiguous
    copied: Array = _core.share_copy(source, "F" if is_f_order else "C")
    return copied


def _key(source: Array) -> Any:
    return address_of(source), source.shape, source.strides, source.dtype.str


def _sample(source: Array) -> int:
    """Returns the hash of some elements of an array, to see at little cost that it was changed."""
    return hash(source.flat[:: -(-source.size // _SAMPLE_ELEMENTS)].tobytes())


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
    waiting = [_given(function, tasks)]
    for _ in range(_MOST_LOOKED_AT):
        try:
            one, task = next(waiting[-1])
        except (StopIteration, RuntimeError):  # another thread may change a dict meanwhile
            waiting.pop()
            if not waiting:
                break
            continue
        kind = type(one)
        if issubclass(kind, np.ndarray):
            array: Array = np.ndarray.view(cast(Array, one), np.ndarray)
            if array.nbytes >= _thresholds.REUSED_LEAST_BYTES:
                place = _place(array)
                if task == _ALL or found.setdefault(place, task) != task:
                    repeated[place] = array
        elif kind not in _ATOMS and len(waiting) < _MOST_DEPTH:
            before = met.get(id(one))
            if before not in (_ALL, task):
                met[id(one)] = inside = task if before is None else _ALL
                waiting.append(zip(_parts_of(one), itertools.repeat(inside)))
    return repeated


def _given(function: object, tasks: Sequence[Iterable[object]]) -> Iterator[tuple[object, int]]:
    """Returns what a call was given, with the number of the task that it stands in."""
    yield function, _ALL
    for items in tasks:
        if isinstance(items, itertools.repeat):
            yield from ((item, _ALL) for item in gc.get_referents(items))
    listed = [items for items in tasks if type(items) in (list, tuple)]
    for number, task in enumerate(itertools.zip_longest(*listed)):
        yield from ((item, number) for item in task)


def _parts_of(one: object) -> Iterator[object]:
    """Returns what the pickle of an object has, if no code of a program makes it."""
    kind = type(one)
    if kind is list or kind is tuple:
        return iter(cast(Sequence[object], one))
    if kind is dict:
        return iter(cast(dict[object, object], one).values())
    if kind is functools.partial:
        partial = cast("functools.partial[object]", one)
        return iter((partial.func, partial.args, partial.keywords))
    if kind is types.MethodType:
        return iter((cast(types.MethodType, one).__self__,))
    if kind in copyreg.dispatch_table or any(
        getattr(kind, name, None) is not getattr(object, name, None) for name in _PICKLING
    ):
        return iter(())
    slots: Iterable[str] = copyreg._slotnames(kind)  # type: ignore[attr-defined]
    attributes = [_attribute(one, name) for name in ("__dict__", *slots)]
    return iter(attributes)


def _attribute(one: object, name: str) -> object:
    """Returns an attribute without running code of the class."""
    try:
        return object.__getattribute__(one, name)
    except AttributeError:
        return None


SENT_COPIES = SentCopies()
"""Those of this process."""
SEPARATE_COPIES = SeparateCopies()

_FOR_SEVERAL = "c"
_ALL = -1
"""In place of a task's number: it stands in several, or in all."""
_MOST_PLACES = 256
"""How many places a process remembers. Then it begins anew."""
_SAMPLE_ELEMENTS = 64
_MOST_LOOKED_AT = 100_000
"""The limit of objects among which repeated arrays are searched, for which it takes 20 ms."""
_MOST_DEPTH = 16
_FIXED = (list, tuple, range, itertools.repeat)
"""Types that give their items without running code."""
_ATOMS = frozenset((int, float, complex, str, bytes, bytearray, bool, type(None), type))
_PICKLING = "__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__", "__getnewargs_ex__"
