import sys
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence
from os import PathLike
from pickle import PickleBuffer
from types import GenericAlias
from typing import Any, Literal, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer, disjoint_base

__all__ = [
    "QUEUE_SLOT_BYTES",
    "Archive",
    "ArrayContext",
    "Arrays",
    "BufferMemory",
    "Channel",
    "Deliveries",
    "Delivery",
    "DeliveryContext",
    "Dict",
    "Error",
    "FileMemory",
    "ForeignTensor",
    "Full",
    "Handle",
    "List",
    "Loan",
    "Message",
    "Offers",
    "Pipe",
    "QueueSlots",
    "QueueTasks",
    "Reducer",
    "SegmentMemory",
    "StaleHandleError",
    "Stream",
    "__version__",
    "_error_classes",
    "allocator_stats",
    "are_same_bytes",
    "attach",
    "begin_message",
    "check_dtype",
    "copied_bytes",
    "count_down",
    "create",
    "create_permuted",
    "dict_of_bytes",
    "dict_of_file",
    "discard",
    "encode_plain",
    "end_message",
    "family",
    "free_idle",
    "give_methods",
    "handle",
    "handle_to_send",
    "has_borrowed",
    "in_band_bytes",
    "is_family_alive",
    "is_in_message",
    "is_plain",
    "is_shared",
    "leave_channels",
    "limit_pool",
    "list_of_bytes",
    "list_of_file",
    "load_batch",
    "load_npy",
    "locate",
    "memory_by_handle",
    "memory_identity",
    "move_in_use",
    "npy_header",
    "npy_header_size",
    "outgoing_fds",
    "prepare_pool",
    "run_command",
    "save_bytes",
    "save_npy",
    "save_npz",
    "segments",
    "sent_array",
    "sent_memory",
    "set_allocator",
    "share",
    "share_copy",
    "small_payload",
    "span",
    "sweep",
    "sweep_dead",
    "trim_pool",
    "unlink",
    "without_gaps",
]

QUEUE_SLOT_BYTES: int
"""The bytes of a queue slot at the start of a message."""
__version__: str
"""The version of core."""

_Array = TypeVar("_Array")  # an ndarray, which keeps its type
_Scalar = TypeVar("_Scalar", bound=np.generic)
_Item = TypeVar("_Item", covariant=True)
_Key = TypeVar("_Key")

class _DataSet(Protocol[_Item]):
    """What has a length and items alone."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> _Item: ...

class _ArrowArray(Protocol):
    """An array of Arrow, as its C data interface has it, in capsules."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...

class _ArrowStream(Protocol):
    """Arrays of Arrow of one schema, one after another."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class Error(Exception):
    """An error of shared memory that no built-in exception fits."""

class StaleHandleError(Error):
    """The handle belongs to an earlier life of its segment."""

class Full(Error):  # noqa: N818 (the name is the same in every language)
    """No slot of the channel is free, and it was created with ``when_full="error"``."""

@final
class Loan:
    """A slot that is filled in a ``with``, and published at its end."""

    def __call__(self, /, *args: object, **kwargs: object) -> Any: ...  # what `with` calls
    def __enter__(self) -> NDArray[Any]: ...
    def __exit__(self, error: object = None, _2: object = None, _3: object = None, /) -> None: ...

@final
class Delivery:
    """A received message: its array, and what is known of it.

    The array is valid inside the ``with``, or until the loop's next message. Then it is emptied,
    since its slot gets other messages. A view that was taken of it keeps the slot.
    """

    @property
    def array(self) -> NDArray[Any]:
        """The elements, in the slot itself."""

    @property
    def sequence(self) -> int:
        """The number of the message: 0 for the first of the channel, 1 more for each after it."""

    @property
    def time_ns(self) -> int:
        """When it was published, in nanoseconds since 1970."""

    @property
    def age(self) -> float:
        """The seconds since it was published, by the system's clock."""

    @property
    def meta(self) -> bytes:
        """The bytes that were sent beside the array."""

    @property
    def missed(self) -> int:
        """How many were dropped since the one before. In a queue one receiver is told of each."""

    def keep(self) -> NDArray[Any]:
        """Lets the array keep its slot, for as long as the array or a view of it lives.

        Senders have a slot less meanwhile. Raises ValueError if the slot was given back before.

        >>> import numpy, shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> numbers.send(numpy.arange(3))
        >>> with numbers.receive_message() as message:
        ...     kept = message.keep()
        >>> kept.tolist()
        [0, 1, 2]
        """

    def copy(self) -> NDArray[Any]:
        """Returns a private copy of the array. Raises ValueError if the slot was given back."""

@final
class ArrayContext:
    """The array of a message, for a ``with``."""

    def __call__(self, /, *args: object, **kwargs: object) -> Any: ...  # what `with` calls
    def __enter__(self) -> NDArray[Any]: ...
    def __exit__(
        self, _error: object = None, _value: object = None, _traceback: object = None, /
    ) -> None: ...

@final
class DeliveryContext:
    """A message, for a ``with``."""

    def __call__(self, /, *args: object, **kwargs: object) -> Any: ...  # what `with` calls
    def __enter__(self) -> Delivery: ...
    def __exit__(
        self, _error: object = None, _value: object = None, _traceback: object = None, /
    ) -> None: ...

@final
class Arrays:
    """The arrays of a channel's messages, each valid until the next."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> NDArray[Any]: ...

@final
class Deliveries:
    """The messages of a channel, each valid until the next."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Delivery: ...

def give_methods(class_: type[Channel]) -> None:
    """Gives a class of channels its own methods of messages: those that it inherits are slower."""

@disjoint_base
class Channel:
    """A bounded queue of arrays between processes. ``shmarray.Channel`` documents it."""

    def __new__(
        cls,
        name: Handle | str,
        shape: Sequence[int] | None,
        dtype: np.dtype[Any] | None,
        options: dict[str, Any] | None,
        history: int | None,
        timeout: float | None,
    ) -> Self: ...
    def loan(
        self,
        timeout: float | None = None,
        *,
        shape: Sequence[SupportsIndex] | None = None,
        meta: bytes | None = None,
    ) -> Loan:
        """Returns a context manager: the array of a free slot, which is published at its end.

        The array's elements are what the slot's last message left. After the ``with`` it is empty,
        since receivers read the slot. If the program still has a view of it then, which could write
        to the message, a copy in another slot is published; ValueError if no other is free. If the
        body raises, the slot is given back and nobody receives anything. ``shape`` is that of this
        message, in a channel of varying shapes. ``meta`` are at most 64 bytes for the receiver.

        Entering raises TimeoutError if no slot was free in so many seconds, ``shmarray.Full`` if
        none is and the channel was created with ``when_full="error"``, PermissionError if the
        channel is another user's, ValueError if the shape does not fit or the channel is closed.

        >>> import shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> with numbers.loan() as a:
        ...     a[:] = [1, 2, 3]
        >>> with numbers.receive() as a:
        ...     a.tolist()
        [1, 2, 3]
        """

    def send(
        self, array: NDArray[Any], *, timeout: float | None = None, meta: bytes | None = None
    ) -> None:
        """Sends a copy of an array; in a channel of handles the array itself if it is shared.

        It has the dtype and, unless shapes vary, the shape of the channel. Raises what ``loan``
        raises, and TypeError for another dtype.

        >>> import numpy, shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> numbers.send(numpy.arange(3), meta=b"first")
        >>> numbers.poll()
        True
        """

    def _hand_over(self) -> tuple[str, int]: ...
    def _adopt(self, handle: str) -> None: ...
    def receive(self, timeout: float | None = None) -> ArrayContext:
        """Returns a context manager: the array of the next message, in its slot.

        After the ``with`` the array is empty, since its slot gets other messages; a view that was
        taken of it keeps the slot. Entering raises TimeoutError if no message came in so many
        seconds, and EOFError if no process sends any more and all was received; ``sender_died``
        says how it ended. Of the latest value it is the value as it is now, whether it was received
        before or not: ``wait_newer`` waits for the next.

        >>> import numpy, shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> numbers.send(numpy.arange(3))
        >>> with numbers.receive(timeout=1) as a:
        ...     total, copy = int(a.sum()), a.copy()
        >>> total, copy.tolist(), a.tolist()
        (3, [0, 1, 2], [])
        """

    def receive_message(self, timeout: float | None = None) -> DeliveryContext:
        """Returns a context manager: the next message, with its metadata. Entering raises what
        ``receive`` raises.

        >>> import numpy, shmarray
        >>> numbers = shmarray.Channel.create("numbers", 3, "i8")
        >>> numbers.send(numpy.arange(3), meta=b"first")
        >>> with numbers.receive_message() as message:
        ...     int(message.array.sum()), message.meta, message.sequence, message.missed
        (3, b'first', 0, 0)
        """

    def __iter__(self) -> Arrays:
        """Iterates until every sender has closed or died, which ``sender_died`` tells apart. Each
        array is valid until the next.
        """

    def _deliveries(self) -> Deliveries: ...
    def wait_newer(self, sequence: int | None = None, timeout: float | None = None) -> bool:
        """Waits until the latest value is newer than the one with a sequence number.

        With None it waits until there is a value. Returns False if none came in so many seconds.
        Raises EOFError if no process sends any more, and ValueError if the channel's mode is not
        ``"latest"``.

        >>> import numpy, shmarray
        >>> pose = shmarray.Channel.create("pose", 3, "f8", mode="latest")
        >>> pose.send(numpy.zeros(3))
        >>> with pose.receive_message() as message:
        ...     sequence = message.sequence
        >>> pose.wait_newer(sequence, timeout=0)
        False
        >>> pose.send(numpy.ones(3))
        >>> pose.wait_newer(sequence)
        True
        """

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Returns whether a receive would not wait, after at most so many seconds. Of the latest
        value: whether this channel has not received it yet. So it is for ``fileno``, too.
        """

    def fileno(self) -> int:
        """Returns an fd for ``select`` and event loops, readable while a receive would not wait.

        A receive that finds nothing makes it unreadable, so receive until nothing is left. The
        channel owns the fd. A thread of the library sets it.
        """

    def close(self) -> None:
        """Ends this process's part. The other side sees the end of the stream after what was sent.
        Calls of other threads that wait here raise ValueError.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    @property
    def name(self) -> str:
        """The name of the channel."""

    @property
    def handle(self) -> Handle:
        """The handle by which any process opens this channel, ``Channel.open(handle)`` or its text.

        It leads to no other channel, also if the name was removed and taken again. It does not keep
        the channel: some process must have it open until another has opened it.

        >>> import shmarray
        >>> frames = shmarray.Channel.create("frames", (480, 640), "u1")
        >>> text = str(frames.handle)  # for another process, in a pipe or a file
        >>> shmarray.Channel.open(text).name
        'frames'
        """

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of a message, or the largest; None in a channel of handles."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of a message; None in a channel of handles."""

    @property
    def slots(self) -> int:
        """The number of slots."""

    @property
    def mode(self) -> Literal["queue", "broadcast", "latest"]:
        """Who receives a message."""

    @property
    def receives(self) -> bool:
        """Whether it was opened to receive a broadcast from then on."""

    @property
    def sender_died(self) -> bool:
        """Whether the stream, when its end was seen, had ended because the last sender died without
        closing.
        """

    @property
    def is_follower(self) -> bool:
        """Whether the channel is another user's, whose messages are copied."""

@final
class Handle:
    """The position of an array, for any process of this machine. ``str(handle)`` is one line of
    text.
    """

    def __new__(cls, text: str) -> Handle: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def offset(self) -> int: ...
    @property
    def segment(self) -> str: ...
    @property
    def generation(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[type[Handle], tuple[str]]: ...

@final
class List(Sequence[_Item]):
    """An immutable sequence in shared memory: one data set for all workers."""

    def __new__(
        cls,
        iterable: Iterable[_Item] | _DataSet[_Item] | None = None,
        *,
        name: str | None = None,
        persist: bool = False,
        mode: int = 0o600,
        writeable: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> List[_Item]: ...
    @property
    def kind(self) -> str:
        """What the items are: ``"numbers"``, ``"arrays"``, ``"strings"``, ``"bytes"``,
        ``"records"``, ``"lists"``, ``"pickles"`` or ``"nothing"``.
        """

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The dtype of numbers and arrays. ``None`` for anything else."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields of records. Empty for anything else."""

    @property
    def nbytes(self) -> int:
        """The bytes of shared memory of the whole list, of which this may be a part."""

    @property
    def values(self) -> NDArray[Any]:
        """The values of the items one after another: the numbers, the elements of all arrays, or
        the bytes of strings.
        """

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where each item begins in the values, and last where they end."""

    def field(self, name: str) -> Any:
        """Returns a field of records: an ndarray of numbers or of arrays of one shape without None,
        and otherwise a list.
        """

    def view(self, *, writeable: bool) -> List[_Item]:
        """Returns the same list, whose arrays can be written to or not."""

    def save(self, path: str | PathLike[str], /) -> None:
        """Saves the list to a file, or the part that this is."""

    @staticmethod
    def open(
        path: str | PathLike[str], /, *, check: bool = False, writeable: bool = False
    ) -> List[Any]:
        """Opens a list in a file that ``save`` wrote."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _Item: ...
    @overload
    def __getitem__(self, index: slice, /) -> List[_Item]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_Item]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def index(
        self,
        value: object,
        start: SupportsIndex | None = None,
        stop: SupportsIndex | None = None,
        /,
    ) -> int: ...
    def count(self, value: object, /) -> int: ...
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> NDArray[Any]: ...
    @staticmethod
    def from_arrow(
        obj: _ArrowArray | _ArrowStream,
        *,
        name: str | None = None,
        persist: bool = False,
        mode: int = 0o600,
    ) -> List[Any]:
        """Returns a list of the items of an array, a table, a series or a stream of Arrow."""

    def to_arrow(self) -> Any:
        """Returns the list, or the part of one, as an array of pyarrow of the same memory."""

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]: ...
    def __reduce__(self) -> tuple[Callable[..., List[Any]], tuple[Any, ...]]: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

@final
class Dict(Mapping[_Key, _Item]):
    """A frozen mapping in shared memory."""

    def __new__(
        cls,
        mapping: Mapping[_Key, _Item] | Iterable[tuple[_Key, _Item]] | None = None,
        *,
        name: str | None = None,
        persist: bool = False,
        mode: int = 0o600,
        writeable: bool = False,
        progress: Callable[[int], object] | None = None,
    ) -> Dict[_Key, _Item]: ...
    @property
    def nbytes(self) -> int:
        """The bytes of shared memory that it takes."""

    def __getitem__(self, key: Any, /) -> _Item: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_Key]: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def get(self, key: object, default: Any = None, /) -> Any: ...
    def keys(self) -> KeysView[_Key]: ...
    def values(self) -> List[_Item]: ...  # type: ignore[override]
    def items(self) -> ItemsView[_Key, _Item]: ...
    def view(self, *, writeable: bool) -> Dict[_Key, _Item]: ...
    def save(self, path: str | PathLike[str], /) -> None: ...
    @staticmethod
    def open(
        path: str | PathLike[str], /, *, check: bool = False, writeable: bool = False
    ) -> Dict[Any, Any]: ...
    def __reduce__(self) -> tuple[Callable[..., Dict[Any, Any]], tuple[Any, ...]]: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...

def dict_of_bytes(bytes: NDArray[np.uint8], writeable: bool) -> Dict[Any, Any]: ...
def dict_of_file(file: tuple[str, tuple[int, int, int]], writeable: bool) -> Dict[Any, Any]: ...
def list_of_bytes(
    bytes: NDArray[np.uint8], part: tuple[int, int, int, int], writeable: bool
) -> List[Any]: ...
def list_of_file(
    file: tuple[str, tuple[int, int, int]], part: tuple[int, int, int, int], writeable: bool
) -> List[Any]: ...

@final
class ForeignTensor:
    """A tensor of another framework: the base of an ndarray that shows it."""

    def __new__(cls, capsule: object) -> ForeignTensor: ...
    @staticmethod
    def exchanged(object: object) -> ForeignTensor | None: ...
    @property
    def dtype(self) -> str: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class SegmentMemory:
    """Keeps a segment mapped: the ``base`` of the arrays in it."""

    @property
    def nbytes(self) -> int: ...
    @property
    def readonly(self) -> bool: ...
    def own(self) -> bool: ...

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Pipe:
    """One end of a pipe that carries arrays and bytes in both directions."""

    @staticmethod
    def pair() -> tuple[Pipe, Pipe]: ...
    @staticmethod
    def from_fd(fd: int) -> Pipe: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def send(
        self,
        payload: Buffer | tuple[Buffer | str, ...] | list[bytes | memoryview | str],
        arrays: Sequence[NDArray[Any] | SegmentMemory],
        timeout: float | None = None,
        fds: Sequence[int] = ...,
        tasks: QueueTasks | None = None,
    ) -> None: ...
    def receive(self, timeout: float | None = None) -> tuple[bytes | memoryview, Message]: ...
    def send_plain(
        self,
        object: object,
        text_bytes: int,
        reducers: tuple[dict[type, Callable[[Any], Any]], ...],
        front: bytes = ...,
        timeout: float | None = None,
    ) -> bool | None: ...
    def receive_object(
        self,
        front_bytes: int = 0,
        timeout: float | None = None,
        tasks: QueueTasks | None = None,
    ) -> tuple[bytes, bytes | memoryview, Message | None]: ...

@final
class Message:
    """Holds the arrays that were received. An array that was taken out lives on by itself."""

    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

    def __len__(self) -> int: ...
    def take_fds(self) -> list[int]: ...
    def array(self, index: int, mode: str = "r+") -> NDArray[Any]: ...
    def memory(self, index: int, mode: str) -> Any: ...
    def read(self, index: int) -> bytes: ...

@final
class QueueSlots:
    """The slots of a bounded queue. No slot is lost when a process dies."""

    def __new__(cls, count: int) -> QueueSlots: ...
    @staticmethod
    def from_fd(fd: int) -> QueueSlots: ...
    def fileno(self) -> int: ...
    def take(self, reader: Pipe, timeout: float | None) -> bytes | None: ...
    def set_waiting(self, slot: Buffer) -> None: ...
    def set_sending(self, slot: Buffer) -> None: ...
    def set_in_pipe(self, slot: Buffer) -> None: ...
    def free(self, slot: Buffer) -> None: ...
    def count_taken(self, reader: Pipe) -> int: ...
    def add_to_count(self, change: int) -> None: ...
    def count(self) -> int: ...

@final
class QueueTasks:
    """The tasks of a queue that are not done, and the entry of this process."""

    def __new__(cls) -> QueueTasks: ...
    @staticmethod
    def from_fd(fd: int) -> QueueTasks: ...
    def fileno(self) -> int: ...
    def claim(self, entry: int) -> None: ...
    def forget(self) -> None: ...
    def put(self) -> None: ...
    def set_in_pipe(self) -> None: ...
    def set_lost(self) -> None: ...
    def set_done(self) -> bool: ...
    def entries(self) -> tuple[list[int], list[int]]: ...
    def unfinished(self) -> int: ...
    def wakeups(self) -> int: ...
    def wait(self, seen: int, seconds: float) -> None: ...

@final
class Stream:
    """The stream of a pickle, in this process's memory or in segments of shared memory."""

    def __new__(cls, rest_most: int) -> Stream: ...
    def write(self, data: Buffer | str, /) -> int: ...
    def tell(self) -> int: ...
    def segments(self) -> list[tuple[SegmentMemory, int]]: ...
    def payload(self, table: bytes) -> tuple[bytes, ...]: ...
    def getvalue(self) -> bytes: ...
    def failure(self) -> Exception | None: ...
    def clear(self) -> None: ...

@final
class Reducer:
    """Says how objects are pickled."""

    def __new__(
        cls,
        ask: Callable[[Any], Any],
        others: Sequence[dict[type, Callable[[Any], Any]]],
        ask_take: Callable[[PickleBuffer], bool],
        fixed: Callable[..., Any],
        small_bytes: int,
        takes_views: bool,
        read_only: int,
    ) -> Reducer: ...
    def reduce(self, object: object, /) -> Any: ...
    def take(self, buffer: PickleBuffer, /) -> bool: ...
    def begin(self, small_bytes: int) -> None: ...
    is_offered: bool
    @property
    def has_finalizers(self) -> bool: ...

@final
class Offers:
    """The memory that one message is offered."""

    def __new__(cls) -> Offers: ...
    def offer(self, arrays: list[NDArray[Any]], /) -> list[tuple[int, int] | None]: ...
    @staticmethod
    def refuse() -> None: ...
    def held_bytes(self) -> int: ...
    def withdraw(self) -> None: ...
    def take(self, number: int, /) -> SegmentMemory | None: ...
    def copy(self, number: int, /) -> SegmentMemory: ...
    def read(self, number: int, /) -> bytearray: ...
    @staticmethod
    def was_copied(count: int, /) -> None: ...

def set_allocator(least_bytes: int | None, /) -> None: ...
def free_idle() -> None: ...
def move_in_use(array: NDArray[Any], /) -> tuple[SegmentMemory, int] | None: ...
def allocator_stats() -> dict[str, Any]: ...
def begin_message(name: object, /) -> None: ...
def end_message(name: object, /) -> Any: ...
def is_in_message() -> bool: ...
def outgoing_fds(make: Callable[[], Any], /) -> Any: ...
def small_payload(
    stream: Stream, reducer: Reducer, buffers: list[Any], /
) -> tuple[tuple[bytes, ...], bool] | None: ...
def create(
    shape: Sequence[SupportsIndex],
    dtype: np.dtype[Any],
    order: str,
    is_zero: bool,
    name: str | None,
    persist: bool,
    mode: int,
) -> NDArray[Any]: ...
def create_permuted(
    shape: Sequence[SupportsIndex],
    dtype: np.dtype[Any],
    axes: Sequence[int],
    is_zero: bool,
    mode: int,
) -> NDArray[Any]: ...
def share(array: _Array) -> _Array: ...
def share_copy(
    source: NDArray[_Scalar],
    order: str,
    name: str | None = None,
    persist: bool = False,
    mode: int = 0o600,
) -> NDArray[_Scalar]: ...
def without_gaps(array: NDArray[Any]) -> tuple[int, list[int]] | None: ...
def span(array: NDArray[Any]) -> tuple[int, int]: ...
def memory_identity() -> tuple[str, int, int, int]: ...
def are_same_bytes(one: NDArray[Any], other: NDArray[Any]) -> bool: ...
def attach(
    handle_or_name: Handle | str, readonly: bool, dtype: np.dtype[Any] | None = None
) -> NDArray[Any]: ...
def memory_by_handle(array: NDArray[Any]) -> SegmentMemory | None: ...
def in_band_bytes() -> int: ...
def count_down(text: str) -> int: ...
def is_family_alive(text: str) -> bool: ...
def sent_array(text: str, mode: str) -> NDArray[Any]: ...
def sent_memory(text: str, mode: str) -> Any: ...
def locate(array: NDArray[Any]) -> tuple[SegmentMemory, int, bool, int] | None: ...
def handle(array: NDArray[Any] | SegmentMemory) -> Handle: ...
def handle_to_send(array: NDArray[Any] | SegmentMemory) -> Handle: ...
def has_borrowed() -> bool: ...
def leave_channels() -> None: ...
def discard(data: Handle | str) -> bool: ...
def run_command(arguments: Sequence[str]) -> int: ...
def is_plain(object: object, reducers: tuple[dict[type, Callable[[Any], Any]], ...], /) -> bool: ...
def encode_plain(
    object: object, text_bytes: int, reducers: tuple[dict[type, Callable[[Any], Any]], ...], /
) -> tuple[bytes | str, ...] | None: ...
def is_shared(array: object) -> bool: ...
def unlink(name: str) -> None: ...
def sweep() -> tuple[int, int]: ...
def prepare_pool(bytes: int) -> bool: ...
def limit_pool(bytes: int) -> None: ...
def trim_pool(all: bool) -> None: ...
def sweep_dead() -> None: ...
def family() -> tuple[int, int]: ...
def segments() -> list[
    tuple[
        str,
        str | None,
        Literal["array", "pool", "remains"],
        bool,
        int,
        str,
        tuple[int, ...],
        tuple[int, ...],
        int,
        int,
        int,
    ]
]: ...
def copied_bytes() -> int: ...
def _error_classes() -> list[tuple[str, type[BaseException] | None]]: ...

_Header: TypeAlias = tuple[np.dtype[Any] | None, tuple[int, ...], Literal["C", "F"]]
_Member: TypeAlias = NDArray[Any] | bytes | None
_Npy: TypeAlias = tuple[NDArray[Any] | None, int] | None
_Place: TypeAlias = tuple[int | None, str | None]

@final
class Archive:
    """An NPZ file, of which the directory was read."""

    def __new__(
        cls, source: object, max_bytes: int | None, how: tuple[str, bool, bool], place: _Place
    ) -> Self: ...
    def names(self) -> list[str]: ...
    def descriptor(self) -> int | None: ...
    def load(self, index: int, most: int | None) -> _Member: ...
    def load_all(self, members: list[int], threads: int, most: int | None) -> list[_Member]: ...
    def read(self, index: int) -> bytes: ...

@final
class BufferMemory:
    """The exported buffer of an object: the ``base`` of the arrays in it."""

@final
class FileMemory:
    """The memory of a mapped file, copy on write: the ``base`` of the arrays in it."""

def load_npy(source: object, shared: bool, offset: int, most: int | None) -> _Npy: ...
def npy_header_size(start: bytes, name: str | None) -> int: ...
def npy_header(bytes: bytes, most: int | None, name: str | None) -> _Header: ...
def load_batch(
    sources: list[Any], shared: bool, threads: int, progress: Callable[[int, int], object] | None
) -> NDArray[Any]: ...
def check_dtype(dtype: np.dtype[Any]) -> None: ...
def save_bytes(path: str, bytes: bytes) -> None: ...
def save_npy(to: object, array: NDArray[Any]) -> int: ...
def save_npz(
    to: object, members: list[tuple[str, NDArray[Any] | bytes]], options: tuple[bool, int, int]
) -> int: ...
