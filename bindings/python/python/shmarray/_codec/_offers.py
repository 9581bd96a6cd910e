"""Arrays that are born shared, and what a message takes of their memory instead of a copy.

A message is *offered* the memory of its arrays. When whoever sends it has dropped the object, NumPy
has freed the memory unless something else refers to it, such as a cache or a view. What was freed
is moved: the message has it, and then its receiver. What was not is copied, as private memory is.

An array is not offered, and copied before anything is dropped, if

* dropping it may run code of the program, which could change what was sent: something in the
  object has a finalizer or a weak reference with a callback;
* it has gaps, or is not aligned, as no copy is;
* it has elements in common with another array of the message: to a pickle they are different, and
  the receiver may write to one of them;
* the message needs less than half of the memory, which it would keep.
"""

import gc
import pickle
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from .. import _core, _shortage, _wire
from .._core import SegmentMemory
from ._copies import SEPARATE_COPIES
from ._parts import Array, OutOfBandBuffer, as_array


class _Offered(NamedTuple):
    """Stands for the memory of a part until it is known whether it is moved."""

    number: int
    """The number of the offer."""


class Offers:
    """What one message is offered. It is to be settled when its object was dropped, and withdrawn
    at the end in any case.
    """

    def __init__(self) -> None:
        self._offers = _core.Offers()
        self._is_empty = True

    def copy(self, source: Array) -> tuple[Array, str]:
        """As `Copies` of a message that one process receives."""
        _core.Offers.was_copied(source.nbytes)
        return SEPARATE_COPIES.copy(source)

    def offer(self, buffers: Sequence[OutOfBandBuffer | int]) -> dict[int, tuple[int, int]]:
        numbers = [at for at, buffer in enumerate(buffers) if not isinstance(buffer, int)]
        arrays = [as_array(cast(OutOfBandBuffer, buffers[at]).memory) for at in numbers]
        found = zip(numbers, self._offers.offer(arrays), strict=True)
        offered = {at: place for at, place in found if place is not None}
        self._is_empty = not offered
        return offered

    def refuse(self) -> None:
        """Tells that nothing is offered, since the object has a finalizer."""
        self._offers.refuse()

    def memory(self, offer: int) -> object:
        return _Offered(offer)

    def settle(
        self, payload: tuple[Any, ...], memories: Sequence[Any]
    ) -> tuple[tuple[Any, ...], Sequence[Any]]:
        """Returns the payload and the memory of an encoded object, after it was dropped."""
        if self._is_empty:
            return payload, memories
        if (held := self._offers.held_bytes()) >= _COLLECTED_BYTES:
            _collector.collect(self._offers, held)
        settled = [self._taken(one.number) if type(one) is _Offered else one for one in memories]
        inline = {at: one for at, one in enumerate(settled) if type(one) is bytearray}
        if inline:
            payload = (*payload[:-1], _with_inline(payload[-1], inline))
            settled = [one for one in settled if type(one) is not bytearray]
        return payload, settled

    def _taken(self, number: int) -> SegmentMemory | bytearray:
        """Returns the memory, or a copy, or its bytes if there is no room for a copy."""
        taken = self._offers.take(number)
        if taken is not None:
            return taken
        try:
            return self._offers.copy(number)
        except _shortage.FULL as error:
            _shortage.warn_of_shortage(error)
            return self._offers.read(number)

    @staticmethod
    def begin() -> None:
        """Called before the first message: what is young from now on is the program's."""
        gc.collect(0)

    def withdraw(self) -> None:
        """Withdraws what is not settled. What was freed meanwhile is free then."""
        self._offers.withdraw()


def _with_inline(table: bytes, inline: dict[int, bytearray]) -> bytes:
    """Returns the table of a payload with the bytes of some parts in it."""
    end = len(table) - _wire.STREAM_LENGTH.size
    parts, views, used = pickle.loads(table[:end])
    shared = [at for at, part in enumerate(parts) if type(part) is str]
    for number, data in inline.items():
        parts[shared[number]] = data
    return pickle.dumps((parts, views, used), 5) + table[end:]


class _Collector:
    """Collects young garbage, in which a result may lie that was dropped: an object that refers to
    itself, or an exception. Among 300 young objects and their dicts that takes 17 µs, and the look
    before it 22.
    """

    def __init__(self) -> None:
        self._vain = 0
        self._skipped = 0

    def collect(self, offers: _core.Offers, held: int) -> None:
        """Collects, but more and more seldom while it is in vain. Never if that may run code of the
        program, which could change what was pickled.
        """
        if self._skipped < self._vain // _MANY_VAIN:
            self._skipped += 1
            return
        self._skipped = 0
        if not _may_run_code(gc.get_objects(0)):
            gc.collect(0)
        self._vain = min(self._vain + 1, _MOST_VAIN) if offers.held_bytes() == held else 0


def _may_run_code(young: list[Any]) -> bool:
    """Returns whether collecting objects may run code of the program: one has a finalizer, or is a
    weak reference with a callback, which is no older than its object.
    """
    kinds = {*map(type, young)}
    if any(map(_has_finalizer, kinds)) or not kinds.isdisjoint(weakref.ProxyTypes):
        return True
    references = {kind for kind in kinds if issubclass(kind, weakref.ReferenceType)}
    return bool(references) and any(
        one.__callback__ is not None for one in young if type(one) in references
    )


def _has_finalizer(kind: type) -> bool:
    try:
        return hasattr(kind, "__del__")
    except Exception:  # of a metaclass
        return True


_collector = _Collector()
_COLLECTED_BYTES = 1 << 20
"""From so many bytes on it is worth a collection that they are moved."""
_MANY_VAIN = 8
"""After so many collections in vain the next is skipped, after twice as many two, and so on."""
_MOST_VAIN = 128
"""No more than 16 are skipped."""
