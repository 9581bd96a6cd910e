"""The places of a queue: each is one byte of its file of tokens, and who puts something takes one."""

import itertools
import secrets
import time

from ._counter import Counter
from ._locks import Range
from ._tokens import Token, TokenFile

__all__ = ["Places"]

_LOOK_SECONDS = 0.1
"""Who waits looks so often: nobody wakes him when the one who had a place has died."""


class Places:
    """As one process sees them. What is counted wakes those who wait; the tokens are the truth."""

    def __init__(self, tokens: TokenFile, counter: Counter, places: int) -> None:
        self._tokens, self._counter, self._all = tokens, counter, places
        self._next = 0

    def take(self, token: Token, timeout: float | None) -> bool:
        """Whether there was one in that time; then the token has it."""
        until = None if timeout is None else time.monotonic() + timeout
        if self._take_one(token):
            self._counter.subtract()
            return True
        while True:
            self._counter.subtract()  # first, so that what is counted from now on wakes this process
            if self._take_one(token):
                return True
            left = _LOOK_SECONDS if until is None else min(until - time.monotonic(), _LOOK_SECONDS)
            if left <= 0:
                return False
            self._counter.wait(left)

    def _take_one(self, token: Token) -> bool:
        """They are left in about the order in which they were taken: so the next one is tried first."""
        place = self._next
        while not token.take(place):
            free = next(self._tokens.free(Range(0, self._all)), None)
            if free is None:
                return False
            place = free.first + secrets.randbelow(free.end - free.first)  # others may be about to take the first
        self._next = (place + 1) % self._all
        return True

    def is_full(self) -> bool:
        """Whether there is none now."""
        ahead, behind = Range(self._next, self._all), Range(0, self._next)
        return next(itertools.chain(self._tokens.free(ahead), self._tokens.free(behind)), None) is None

    def free(self) -> int:
        """How many there are now."""
        return sum(end - first for first, end in self._tokens.free(Range(0, self._all)))
