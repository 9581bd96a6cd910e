"""Items of an iterable that lie in a channel's slots: each is valid until the next is asked for."""

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from .. import dumps, loads
from . import _internals

_T = TypeVar("_T")


def own(iterable: Iterable[_T]) -> Iterable[_T]:
    """Returns the items of an iterable to gather several of. Those that come while this process
    has an array in a slot are copied. What has a length was gathered before.
    """
    return iterable if isinstance(iterable, Sized) else _owned(iterable)


def _owned(iterable: Iterable[_T]) -> Iterator[_T]:
    for item in iterable:
        yield _copied(item) if _internals.has_borrowed() else item


def _copied(item: _T) -> _T:
    try:
        copied: _T = loads(dumps(item))
    except Exception:  # the task that gets it tells why it cannot be pickled
        return item
    return copied
