"""Connections that carry arrays by handle: both ends of a pipe, and listeners on this machine.

A connection carries messages of a pipe of core. Connections over TCP are the standard module's and
copy every byte of an array. A ``Connection`` that a program makes of any other fd works as the
standard class does, byte for byte.
"""

import errno
import io
import os
import pickle
import socket
import typing
from multiprocessing import connection, util
from multiprocessing.connection import answer_challenge, deliver_challenge, wait
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from .._tasks import _internals
from .._tasks._ipc import _message
from .._tasks._ipc._reducers import DupFd

__all__ = ["Client", "Listener", "Pipe", "wait"]

_standard: Any = connection
Address: TypeAlias = str | bytes | tuple[str, int]

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # the standard module's has a default since Python 3.13

    _SendT_contra = TypeVar("_SendT_contra", contravariant=True, default=Any)
    _RecvT_co = TypeVar("_RecvT_co", covariant=True, default=Any)
    _StandardConnection = connection.Connection
else:  # at runtime it cannot be subscribed
    _SendT_contra = typing.TypeVar("_SendT_contra", contravariant=True)
    _RecvT_co = typing.TypeVar("_RecvT_co", covariant=True)
    _StandardConnection = {(_SendT_contra, _RecvT_co): connection.Connection}


class Connection(_StandardConnection[_SendT_contra, _RecvT_co]):
    """One end of a pipe.

    Objects and bytes may follow one another. Raises what the standard class raises: OSError if this
    end is closed or goes only the other way, EOFError if the other end is closed and everything has
    been received, BrokenPipeError if nobody can receive any more. If shared memory is full, the
    message is sent without it, with one warning in a process. MemoryError is raised only if there
    is no memory for that either.

    >>> import numpy, shmarray.multiprocessing
    >>> here, there = shmarray.multiprocessing.Pipe()
    >>> here.send({"frame": numpy.zeros((480, 640))})
    >>> there.recv()["frame"].shape
    (480, 640)
    """

    if TYPE_CHECKING:
        _handle: int | None
        _check_closed: Any
        _check_readable: Any
        _check_writable: Any

    pipe: _internals.Pipe
    """The pipe that carries its messages."""
    _is_foreign = False
    """Whether its fd is not such a pipe's, and perhaps not open at all. Using it shows which."""

    def __init__(self, handle: int, readable: bool = True, writable: bool = True) -> None:
        super().__init__(handle, readable, writable)
        try:
            self.pipe = _internals.Pipe.from_fd(handle.__index__())
        except (ValueError, OverflowError):
            self._is_foreign = True
        except OSError as error:
            self._is_foreign = error.errno == errno.EBADF
            if not self._is_foreign:
                self._handle = None  # the fd stays the caller's
                raise

    @classmethod
    def _of(cls, pipe: _internals.Pipe, readable: bool = True, writable: bool = True) -> Self:
        self = cls.__new__(cls)
        connection.Connection.__init__(self, pipe.fileno(), readable, writable)
        self.pipe = pipe
        return self

    def _close(self) -> Any:
        if self._is_foreign:
            return _standard.Connection._close(self)
        return self.pipe.close()

    def send(self, obj: _SendT_contra) -> None:
        """Sends an object. Waits until there is room."""
        if self._is_foreign:
            return super().send(obj)
        self._check_closed()
        self._check_writable()
        if _message.send_plain(self.pipe, obj) is None:
            _message.send(self.pipe, _message.pack_special(obj))
        return None

    def recv(self) -> _RecvT_co:
        """Receives an object. Waits until there is one."""
        if self._is_foreign:
            return super().recv()
        self._check_closed()
        self._check_readable()
        _, payload, message = self.pipe.receive_object()
        obj: _RecvT_co = (
            pickle.loads(payload) if message is None else _message.unpack(payload, message)
        )
        return obj

    def _send_bytes(self, data: memoryview) -> Any:
        if self._is_foreign:
            return _standard.Connection._send_bytes(self, data)
        return _message.send(self.pipe, _message.pack_bytes(data))

    def _recv_bytes(self, most: int | None = None) -> Any:
        if self._is_foreign:
            return _standard.Connection._recv_bytes(self, most)
        data = _message.unpack_bytes(*self.pipe.receive())
        if most is not None and len(data) > most:
            return None
        stream = io.BytesIO(data)
        stream.seek(len(data))
        return stream

    def __reduce__(self) -> Any:
        return reduce_connection(self)


def rebuild_connection(df: Any, readable: bool, writable: bool) -> "Connection[Any, Any]":
    """Returns the end of an fd that travelled."""
    return Connection(df.detach(), readable, writable)


def reduce_connection(conn: "Connection[Any, Any]") -> Any:
    """Reduces an end for pickling."""
    return rebuild_connection, (DupFd(conn.fileno()), conn.readable, conn.writable)


def Pipe(  # noqa: N802 (the standard's name)
    duplex: bool = True,
) -> "tuple[Connection[Any, Any], Connection[Any, Any]]":
    """Returns the two ends of a new pipe. Unless ``duplex``, the first receives and the second
    sends.
    """
    one, other = _internals.Pipe.pair()
    return Connection._of(one, writable=duplex), Connection._of(other, readable=duplex)


class Listener(connection.Listener):
    """A listening socket. With an ``AF_UNIX`` address its connections carry arrays by handle."""

    if TYPE_CHECKING:
        _listener: Any
        _authkey: bytes | None

    def __init__(
        self,
        address: Address | None = None,
        family: str | None = None,
        backlog: int = 1,
        authkey: bytes | None = None,
    ) -> None:
        family = family or (
            _standard.address_type(address) if address else _standard.default_family
        )
        if family != "AF_UNIX":
            super().__init__(address, family, backlog, authkey)
            return
        _check_authkey(authkey)
        self._listener = SocketListener(
            address or _standard.arbitrary_address(family), family, backlog
        )
        self._authkey = authkey


class SocketListener:
    """A socket that is bound to an address of this machine and listens."""

    def __init__(self, address: Address, family: str, backlog: int = 1) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.bind(address)
            self._socket.listen(backlog)
        except OSError:
            self._socket.close()
            raise
        self._address = self._socket.getsockname()
        self._family = family
        self._last_accepted = None
        named = not _standard.util.is_abstract_socket_namespace(address)
        self._unlink = (
            util.Finalize(self, os.unlink, args=(address,), exitpriority=0) if named else None
        )

    def accept(self) -> "Connection[Any, Any]":
        """Waits for a client and returns the connection."""
        accepted, self._last_accepted = self._socket.accept()
        return Connection(accepted.detach())

    def close(self) -> None:
        """Closes the socket and removes its address."""
        self._socket.close()
        unlink, self._unlink = self._unlink, None
        if unlink is not None:
            unlink()


def Client(  # noqa: N802 (the standard's name)
    address: Address, family: str | None = None, authkey: bytes | None = None
) -> "connection.Connection[Any, Any]":
    """Connects to a ``Listener``. At an ``AF_UNIX`` address the connection carries arrays by
    handle, unless the listener is the standard module's.
    """
    if (family or _standard.address_type(address)) != "AF_UNIX":
        return connection.Client(address, family, authkey)
    _check_authkey(authkey)
    try:
        client = SocketClient(address)
    except OSError as error:
        if error.errno != errno.EPROTOTYPE:
            raise
        return connection.Client(address, family, authkey)
    if authkey is not None:
        answer_challenge(client, authkey)
        deliver_challenge(client, authkey)
    return client


def SocketClient(address: Address) -> "Connection[Any, Any]":  # noqa: N802 (the standard's name)
    """Connects to the socket of a ``SocketListener``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
        client.connect(address)
        return Connection(client.detach())


def _check_authkey(authkey: object) -> None:
    if authkey is not None and not isinstance(authkey, bytes):
        raise TypeError("authkey should be a byte string")


class XmlListener(Listener):
    """A ``Listener`` whose connections carry what XML-RPC can express."""

    def accept(self) -> Any:
        """Waits for a client and returns the connection."""
        return _xml(super().accept())


def XmlClient(*args: Any, **kwds: Any) -> Any:  # noqa: N802 (the standard's name)
    """Connects to an ``XmlListener``."""
    return _xml(Client(*args, **kwds))


def _xml(plain: "connection.Connection[Any, Any]") -> Any:
    from xmlrpc import client

    def dumps(obj: Any) -> bytes:
        return client.dumps((obj,), allow_none=True).encode()

    return _standard.ConnectionWrapper(plain, dumps, lambda data: client.loads(data.decode())[0][0])


if not TYPE_CHECKING:
    del _StandardConnection

    def __getattr__(name: str) -> Any:
        """Returns any other name of the standard module."""
        return getattr(connection, name)
