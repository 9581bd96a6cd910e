"""Channels: bounded queues of arrays between processes of any language."""

from __future__ import annotations

import operator
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import _core
from ._core import Arrays, Deliveries, Delivery, Handle

if TYPE_CHECKING:
    import asyncio

_OURS_ALONE = 0o600
# An event loop's other tasks wait no longer than this for one that receives without waiting.
_LONGEST_TURN_SECONDS = 0.0005
# As a process that sleeps at a channel does.
_LOOK_SECONDS = 0.1

_T = TypeVar("_T")


class Channel(_core.Channel):
    """A bounded queue of arrays in shared memory. Any process opens it by its name or its handle.

    A sender takes a slot on ``loan``, fills it in place and publishes it; a receiver looks at the
    slot itself. Nothing is copied. Programs in other languages open the same channel.

    ``Channel.create`` makes one and ``Channel.open`` opens one. Each message goes to one receiver
    (``mode="queue"``) or to all (``"broadcast"``), in the order of each sender; or the last one is
    there for all (``"latest"``). A process that is killed costs the others the message that it had,
    and nothing else.

    A channel lives while anyone has it open. Several threads may use one; once it has sent, it
    counts as a sender for all of them, so a process that reads its own channel to the end opens it
    twice. A channel that a ``multiprocessing.Process`` is given, or that is sent to a process,
    counts as one that is open there from then on: close yours, and the other still sends. One that
    ``os.fork`` copies is opened anew at its first use.

    >>> import numpy, shmarray
    >>> camera = shmarray.Channel.create("frames", (2, 3), "f4", slots=4)
    >>> viewer = shmarray.Channel.open("frames")  # in another process
    >>> with camera.loan(meta=b"left") as frame:
    ...     frame[:] = 0.5
    >>> camera.close()
    >>> for message in viewer.messages():
    ...     print(message.array.sum(), message.meta)
    3.0 b'left'

    A received array lies in its slot, so it is valid in its ``with``, or until the loop's next
    message; afterwards it is empty. ``Delivery.keep`` keeps its slot, ``numpy.copy`` copies it.
    """

    __slots__ = ()

    def __new__(cls, *_arguments: Any, **_keywords: Any) -> Self:
        raise TypeError("a channel is made by Channel.create, and opened by Channel.open")

    @classmethod
    def create(
        cls,
        name: str,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: DTypeLike,
        *,
        slots: int = 8,
        mode: Literal["queue", "broadcast", "latest"] = "queue",
        when_full: Literal["block", "drop_oldest", "error"] = "block",
        exist_ok: bool = False,
        varying: bool = False,
        persist: bool = False,
        file_mode: int = _OURS_ALONE,
        ends: int = 128,
    ) -> Self:
        """Makes a channel whose messages are arrays of this shape and dtype, in C order.

        Parameters
        ----------
        name : str
            1 to 64 of the characters ``A-Z a-z 0-9 . _ -``.
        shape : int or sequence of int
            The number of elements along each dimension.
        dtype : anything that ``numpy.dtype`` takes
            The type of an element, without Python objects in it.
        slots : int, default 8
            How many messages can be under way, on loan or looked at, at most 1023. Their memory is
            reserved now.
        mode : "queue", "broadcast" or "latest"
            Whether a message goes to one receiver, or to each from when that joined; or whether
            only the last one is there, which any number of receivers read as often as they like,
            and each sender overwrites without waiting for them. Then there are at least 3 slots:
            half of them can be looked at in place, and a value in the other half is copied when it
            is received.
        when_full : "block", "drop_oldest" or "error"
            What a sender does when all slots are taken: it waits; it drops the oldest message, and
            receivers are told how many they missed; or it raises ``shmarray.Full``.
        exist_ok : bool, default False
            Opens an existing channel of the same description instead. One that differs, also in
            ``persist`` or ``file_mode``, is a ValueError that says in what.
        varying : bool, default False
            Each message has a shape of its own, of at most 8 dimensions. ``shape`` is the largest.
        persist : bool, default False
            The channel outlives its processes, until ``shmarray.unlink(name)``.
        file_mode : int, default 0o600
            Permission bits. With 0o644 processes of other users can follow a broadcast or the
            latest value: they get copies of it, and no sender waits for them.
        ends : int, default 128
            How many processes and threads can have it open, at most 1023.

        Raises FileExistsError if the name is taken, MemoryError if shared memory is full,
        ValueError for an impossible argument, TypeError for a dtype that cannot be shared.

        >>> import shmarray
        >>> shmarray.Channel.create("frames", (480, 640), "u1").shape
        (480, 640)
        """
        _prepare()
        options = _options(slots, mode, when_full, exist_ok, varying, persist, file_mode, ends)
        of = (_dimensions(shape), np.dtype(dtype))
        return super().__new__(cls, name, *of, options, None, None)

    @classmethod
    def create_by_handle(
        cls,
        name: str,
        *,
        slots: int = 8,
        mode: Literal["queue", "broadcast", "latest"] = "queue",
        when_full: Literal["block", "drop_oldest", "error"] = "block",
        exist_ok: bool = False,
        ends: int = 128,
    ) -> Self:
        """Makes a channel whose messages are shared arrays outside of the channel.

        ``send`` sends a shared array itself, of any shape and dtype, and a shared copy of any other
        array. A message holds its array until it is received; a received array stays as long as
        anybody has it. Such a channel has no loans, and does not outlive its processes. The
        parameters are those of ``create``.

        >>> import shmarray
        >>> arrays = shmarray.Channel.create_by_handle("arrays")
        >>> arrays.send(shmarray.ones((2, 3)))
        >>> with arrays.receive() as a:
        ...     a.shape
        (2, 3)
        """
        _prepare()
        options = _options(slots, mode, when_full, exist_ok, False, False, _OURS_ALONE, ends)
        return super().__new__(cls, name, None, None, options, None, None)

    @classmethod
    def open(
        cls,
        name: Handle | str,
        *,
        receive: bool = True,
        history: int = 0,
        timeout: float | None = 0,
    ) -> Self:
        """Opens the channel that has a name, or a handle: ``Channel.handle`` or its text.

        A broadcast is received from now on, or with ``receive=False`` from the first ``receive``
        on. Pass that where you only send: a receiver that never receives stops every sender of a
        broadcast, and itself. With a ``history`` it first receives so many earlier messages: the
        last ones of which the slots have not been needed for others.

        If there is no such channel it raises FileNotFoundError at once; with a ``timeout`` it waits
        for one so many seconds and raises TimeoutError, with None it waits without a limit.
        A broadcast of another user that was made with ``file_mode=0o644`` is followed: each message
        is copied, and ``is_follower`` is True.

        Raises ValueError if the name or the handle is an array's, if all ends of the channel are in
        use, or for a history of what is no broadcast. Raises FileNotFoundError if the channel of a
        handle has ended, and StaleHandleError if its segment has something else by now.

        >>> import numpy, shmarray
        >>> channel = shmarray.Channel.create("frames", (480, 640), "u1")
        >>> shmarray.Channel.open("frames").dtype
        dtype('uint8')
        >>> scores = shmarray.Channel.create("scores", (), "i8", mode="broadcast")
        >>> for score in [3, 5, 8]:
        ...     scores.send(numpy.array(score))
        >>> late = shmarray.Channel.open("scores", history=2)
        >>> scores.close()
        >>> [int(score) for score in late]
        [5, 8]
        """
        _prepare()
        if operator.index(history) and not receive:
            raise ValueError("invalid history: without receive there is none")
        if not 0 <= operator.index(history) < 1 << 32:
            raise ValueError(f"invalid history: {history} is not a number of messages")
        earlier = operator.index(history) if receive else None
        return super().__new__(cls, name, None, None, None, earlier, timeout)

    def close(self) -> None:
        """Ends this process's part in the channel, also in a wait of another thread.

        Messages that were kept stay valid. When all have closed the channel, its name is free, and
        its memory with the last kept message.

        >>> import shmarray
        >>> shmarray.Channel.create("frames", 3, "i8").close()
        >>> shmarray.Channel.create("frames", (2, 2), "f4").close()
        """
        super().close()
        _let_go_of_started()

    def __iter__(self) -> Arrays:
        _let_go_of_started()
        return super().__iter__()

    def __aiter__(self) -> AsyncGenerator[NDArray[Any], None]:
        """Iterates over the messages in an event loop of asyncio, each valid until the next; of the
        latest value over each that is newer.

        A ``send`` or ``loan`` that waits stops the loop: give it ``timeout=0`` there, or enough
        slots.
        """
        if self.mode == "latest":
            return _received(self, self.receive_message, operator.attrgetter("array"))
        return _received(self, self.receive, _itself)

    def messages(self) -> Messages:
        """Returns the messages, for ``for`` and ``async for``, each valid until the next.

        >>> import numpy, shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> numbers.send(numpy.arange(3), meta=b"first")
        >>> for message in numbers.messages():
        ...     print(message.array, message.meta, message.sequence)
        ...     break
        [0 1 2] b'first' 0
        """
        return Messages(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, (type(self), self.handle, self.receives)

    def __repr__(self) -> str:
        return f"<shmarray.Channel {self.name!r}>"


_core.give_methods(Channel)


class Messages:
    """The messages of a channel, for ``for`` and ``async for``."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def __iter__(self) -> Deliveries:
        _let_go_of_started()
        return self._channel._deliveries()

    def __aiter__(self) -> AsyncGenerator[Delivery, None]:
        return _received(self._channel, self._channel.receive_message, _itself)


def _prepare() -> None:
    # Milliseconds, of what a program that starts processes has already.
    from . import _handed_over

    _handed_over.prepare(Channel)


def _let_go_of_started() -> None:
    from . import _handed_over

    _handed_over.close_started()


def _options(
    slots: int,
    mode: str,
    when_full: str,
    exist_ok: bool,
    varying: bool,
    persist: bool,
    file_mode: int,
    ends: int,
) -> dict[str, Any]:
    return {
        "slots": operator.index(slots),
        "mode": mode,
        "when_full": when_full,
        "varying": varying,
        "exist_ok": exist_ok,
        "persist": persist,
        "file_mode": operator.index(file_mode),
        "ends": operator.index(ends),
    }


def _dimensions(shape: SupportsIndex | Sequence[SupportsIndex]) -> list[int]:
    if isinstance(shape, SupportsIndex):
        return [operator.index(shape)]
    return [operator.index(count) for count in shape]


def _opened(cls: type[Channel], handle: Handle, receives: bool) -> Channel:
    return cls.open(handle, receive=receives)


def _itself(received: _T) -> _T:
    return received


async def _received(
    channel: Channel,
    receive: Callable[[float], AbstractContextManager[Any]],
    of: Callable[[Any], _T],
) -> AsyncGenerator[_T, None]:
    # A sixth of the time of this package's import. A program with an event loop has it already.
    import asyncio

    loop = asyncio.get_running_loop()
    fd = os.dup(channel.fileno())  # stays open, and is this task's alone, if another task closes
    turn_ends = loop.time() + _LONGEST_TURN_SECONDS
    is_latest = channel.mode == "latest"
    last = None
    try:
        while True:
            if loop.time() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = loop.time() + _LONGEST_TURN_SECONDS
            context = receive(0)
            try:
                if is_latest and not channel.wait_newer(last, 0):
                    # Whoever else receives by this channel makes the fd unreadable.
                    await _readable(loop, fd, _LOOK_SECONDS)
                    continue
                received = context.__enter__()
            except TimeoutError:
                await _readable(loop, fd, None)
                continue
            except EOFError:
                return
            last = received.sequence if is_latest else None
            try:
                yield of(received)
            finally:
                context.__exit__(None, None, None)
    finally:
        os.close(fd)


async def _readable(loop: asyncio.AbstractEventLoop, fd: int, seconds: float | None) -> None:
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fd, set_ready)
    timer = None if seconds is None else loop.call_later(seconds, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(fd)
        if timer is not None:
            timer.cancel()
