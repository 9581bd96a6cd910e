"""The worker's side: it performs one task after the other, until its parent lets it go."""

import abc
import contextlib
import os
import pickle
import signal
from collections.abc import Callable
from typing import Any

from ... import use_allocator
from .. import _internals, _wire
from .._ipc import _main_missing, _message
from .._ipc._message import OutgoingMessage
from . import _pipe
from ._ends import End

_IDLE_SECONDS = 1.0
"""How long a worker keeps the idle memory of its allocator while it waits."""


class WorkerProtocol(abc.ABC):
    """How the workers of a pool or an executor perform their tasks. Used as a class, without
    instances.
    """

    @staticmethod
    def pack(obj: object, copies: _internals.Copies | None = None) -> OutgoingMessage:
        """Packs what a worker receives or sends. Raises what pickling raises."""
        return _message.pack(obj, copies)

    @staticmethod
    def initialize(initializer: Callable[..., object], initargs: Any) -> Exception | None:
        """Runs the initializer. If this raises, the worker ends. If it returns an exception, all
        workers end.
        """
        initializer(*initargs)
        return None

    @staticmethod
    @abc.abstractmethod
    def perform(function: Callable[..., object], args: Any, kwargs: Any) -> tuple[bool, Any]:
        """Makes a call. Returns whether it succeeded, and its result or the exception to raise
        instead.
        """

    @staticmethod
    @abc.abstractmethod
    def explain(error: BaseException, value: object) -> Any:
        """Returns the exception to raise instead of a value that cannot be sent."""


def work(
    end: End,
    protocol: type[WorkerProtocol],
    initializer: Callable[..., object] | None,
    initargs: Any,
    allocator: bool,
) -> None:
    """The target of a worker's process. With an allocator, NumPy's arrays are born shared there."""
    if allocator:
        use_allocator()
    with contextlib.suppress(_pipe.Gone):
        worker = _Worker(end.pipe, protocol)
        end.let_signals_in()
        if worker.is_initialized(initializer, initargs):
            while True:
                worker.do_one()


class _Worker:
    """The loop of a worker. SIGINT interrupts a task and nothing else: an idle worker waits for its
    parent, which decides what happens next.
    """

    def __init__(self, pipe: _internals.Pipe, protocol: type[WorkerProtocol]) -> None:
        self._pipe = pipe
        self._protocol = protocol
        self._pid = os.getpid()
        self._may_be_interrupted = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._interrupt)

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._may_be_interrupted:
            signal.default_int_handler(number, frame)

    def is_initialized(self, initializer: Callable[..., object] | None, initargs: Any) -> bool:
        """Runs the initializer and reports the outcome. Returns whether the worker is ready."""
        self._may_be_interrupted = initializer is not None
        refusal = None if initializer is None else self._protocol.initialize(initializer, initargs)
        self._may_be_interrupted = False
        if _internals.is_in_use():
            _internals.Offers.begin()
        if refusal is None:
            _pipe.send(self._pipe, _wire.READY, 0, _pipe.NOTHING)
        else:
            _pipe.send(self._pipe, _wire.REFUSED, 0, self._protocol.pack(refusal))
        return refusal is None

    def do_one(self) -> None:
        """Receives a task, performs it and answers. Raises Gone when the parent has closed its
        end.
        """
        number, call = self._receive()
        try:
            self._may_be_interrupted = True
            outcome = [self._protocol.perform(*call)]
        except KeyboardInterrupt as interrupt:  # as the task returned: it has no result
            outcome = [(False, self._protocol.explain(interrupt, None))]
        finally:
            self._may_be_interrupted = False
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the task forked, and that should not have returned
        if not outcome[0][0]:
            _make_arrive(outcome[0][1])
        held = [call]
        del call
        try:
            self._answer(number, outcome, held)
        except BaseException as error:
            value = outcome[0][1] if outcome else None
            self._answer(number, [(False, self._protocol.explain(error, value))], held)

    def _receive(self) -> tuple[int, tuple[Any, Any, Any]]:
        """Receives the next task. If it cannot be unpickled, its result raises that error."""
        received = self._next()
        try:
            return received.number, received.unpack()
        except Exception as error:
            _main_missing.add_hint(error)
            return received.number, (_raise, (error,), {})

    def _next(self) -> _pipe.WorkerMessage:
        """Waits for the next task. A worker that waits long gives its idle memory back."""
        if _internals.is_in_use():
            received = _pipe.receive_within(self._pipe, _IDLE_SECONDS)
            if received is not None:
                return received
            _internals.free_idle()
        return _pipe.receive(self._pipe)

    def _answer(self, number: int, outcome: list[tuple[bool, Any]], held: list[Any]) -> None:
        """Sends the one item of a list, and drops what is ``held`` until it is pickled: arguments
        may have finalizers.

        If arrays are born shared both lists are emptied, so that the memory of arrays that nothing
        else refers to is freed, and moved. But an exception has frames, whose locals may have
        finalizers.
        """
        if not (outcome[0][0] and _internals.is_in_use()):
            # The parent alone receives it.
            packed = self._protocol.pack(outcome[0], _internals.SEPARATE_COPIES)
            held.clear()
            _pipe.send(self._pipe, _wire.ANSWER, number, packed)
            return
        offers = _internals.Offers()
        try:
            packed = self._protocol.pack(outcome[0], offers)
            outcome.clear()
            held.clear()
            payload, arrays = offers.settle(packed.payload, packed.arrays)
            packed = packed._replace(payload=payload, arrays=arrays)
            _pipe.send(self._pipe, _wire.ANSWER, number, packed)
        finally:
            offers.withdraw()


def _raise(error: Exception) -> None:
    raise error


def _make_arrive(raised: Any) -> None:
    """Replaces an exception that can be pickled and not unpickled. The parent would raise what
    unpickling raises, which says neither what was raised nor where.

    ``raised`` is the standard modules' wrapper of an exception and of its traceback as text.
    """
    error = getattr(raised, "exc", None)
    try:
        data = pickle.dumps(error)
    except Exception:
        return  # reported when it is sent
    try:
        pickle.loads(data)
    except Exception as failure:
        kind = type(error)
        name = f"{kind.__module__}.{kind.__qualname__}"
        why = f"it cannot be unpickled here ({type(failure).__name__}: {failure})"
        raised.exc = pickle.UnpicklingError(f"the task raised {name}: {error}; {why}")
