"""The messages in golden.json, which WIRE.md explains, and the functions that write them today.

python bindings/python/tests/tasks/golden_messages.py --write
writes them again, after a change of the format with a new `VERSION`.
"""

import json
import pathlib
import sys
from unittest import mock

import numpy as np

import shmarray
import shmarray.multiprocessing as mp
from shmarray import _core, _dumps
from shmarray._codec import _pickler
from shmarray._codec._copies import CallCopies
from shmarray._core import Pipe
from shmarray._tasks import _wire
from shmarray._tasks._ipc import _message
from shmarray._tasks._workers import _pipe
from shmarray._wire import VERSION

GOLDEN = pathlib.Path(__file__).with_name("golden.json")
HANDLE = (
    '{{"shmarray":1,"segment":"{:a<24}","generation":{},"offset":0,'
    '"dtype":"<f8","shape":[3],"strides":[8],"ticket":{}}}'
)
HANDLES = [
    HANDLE.format(f"golden{which}", number, 100 + number) for number, which in enumerate("bcd")
]
PLAIN = {"None": None, "numbers": [1, -2.5, True], "text": "naïve", "bytes": b"\0\1", "t": (1, ())}


class AllOutOfBand(_pickler.ArrayPickler):
    """Puts no array into the stream, and none into shared memory."""

    SMALL_BYTES = 0
    LARGE_BYTES = 1 << 40


def frame():
    return np.arange(6, dtype="<i4").reshape(2, 3)


def readonly():
    array = frame()
    array.flags.writeable = False
    return array


def views():
    """Returns views of one array: all of it, a column, and its rows in reverse."""
    array = frame()
    return [array, array[:, 1], array[::-1]]


def fixed(array):
    """Returns the same shared array, mapped read-only."""
    return shmarray.attach(shmarray.handle(array), readonly=True)


def shared_views(array):
    return [array, array[::-2]]


def payload(message):
    """Returns the bytes of a message, whose pieces may be texts."""
    pieces = (piece.encode() if isinstance(piece, str) else bytes(piece) for piece in message[0])
    return b"".join(pieces)


def encoded(obj, pickler):
    return payload(_pickler.encode(obj, pickler))


def dumped(obj, **options):
    """Returns what `dumps` writes if the handles are `HANDLES`."""
    with mock.patch.object(_dumps._core, "handle_to_send", side_effect=HANDLES):
        return shmarray.dumps(obj, **options)


def sent(send):
    """Returns the payload that a function sends into a pipe."""
    here, there = Pipe.pair()
    send(here)
    return bytes(there.receive()[0])


def by_worker(kind, number, message):
    return sent(lambda pipe: _pipe.send(pipe, kind, number, message))


def queued(queue, obj):
    """Returns the payload of the first message of a queue."""
    queue.put(obj)
    return bytes(queue._reader.pipe.receive()[0])


def in_two_tasks(array):
    """Returns the array and the copies of a call with two tasks."""
    return array, CallCopies(print, [[array, array]], compares=False)


def connection():
    here, _there = mp.Pipe()
    return payload(_message.pack(here))


MESSAGES = {
    "plain": lambda: payload(_message.pack(PLAIN)),
    "text": lambda: payload(_message.pack("text that is long enough " * 4)),
    "text_of_bytes": lambda: payload(_message.pack(b"bytes that are an object")),
    "bytes": lambda: payload(_message.pack_bytes(memoryview(b"bytes that are no object"))),
    "array_in_band": lambda: payload(_message.pack(frame())),
    "small_array": lambda: payload(_message.pack({"frame": frame()})),
    "small_readonly_array": lambda: encoded([readonly()], _pickler.ArrayPickler),
    "parts": lambda: encoded(views(), AllOutOfBand),
    "array": lambda: payload(_message.pack(shmarray.ones(3))),
    "array_readonly": lambda: payload(_message.pack(fixed(shmarray.ones(3)))),
    "array_private": lambda: payload(_message.pack(np.ones(40_000))),
    "array_private_several": lambda: payload(_message.pack(*in_two_tasks(np.ones(1 << 17)))),
    "shared_views": lambda: payload(_message.pack(shared_views(shmarray.ones(5)))),
    "connection": connection,
    "dumps": lambda: dumped({"number": 7}),
    "dumps_arrays": lambda: dumped([shmarray.zeros(3), shmarray.ones(3)]),
    "dumps_counted": lambda: dumped([shmarray.zeros(3), shmarray.ones(3)], loads=5),
    "dumps_persistent": lambda: dumped([shmarray.zeros(3), shmarray.ones(3)], persist=True),
    "worker_ready": lambda: by_worker(_wire.READY, 0, _pipe.NOTHING),
    "worker_refused": lambda: by_worker(_wire.REFUSED, 0, _message.pack(ValueError("refused"))),
    "worker_task": lambda: by_worker(_wire.TASK, 7, _message.pack((pow, (2, 10), {}))),
    "worker_answer": lambda: by_worker(_wire.ANSWER, 7, _message.pack((True, 1024))),
    "queue": lambda: queued(mp.Queue(), PLAIN),
    "queue_with_slots": lambda: queued(mp.Queue(4), PLAIN),
}
"""The functions that write the messages, by name."""


def golden(name):
    return bytes.fromhex(json.loads(GOLDEN.read_text())[name])


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    made = {name: write().hex() for name, write in MESSAGES.items()}
    GOLDEN.write_text(json.dumps({"version": VERSION, **made}, indent=0) + "\n")
    print(f"{len(MESSAGES)} golden messages, core {_core.__version__}")
