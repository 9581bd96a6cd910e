"""The driver for Python: one command a line in, one answer a line out.

README.md says what each command does. All elements are read and written by NumPy.
"""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import shmarray
from shmarray._core import Pipe, handle_to_send

FORMAT = pathlib.Path(__file__).resolve().parents[3] / "core/FORMAT.md"
ROWS = re.search(r"^    (\|b1 (.+\n)+)", FORMAT.read_text(), re.M)  # core's table: a test compares
assert ROWS, f"{FORMAT} has no rows of dtypes"
DTYPES = ROWS[1].split()
try:
    import ml_dtypes  # noqa: F401 (NumPy knows its dtypes by their names)
except ImportError:  # conformance.py refuses that, and nothing else needs them
    DTYPES = [text for text in DTYPES if text[0] in "<|"]
WRITTEN = 100
WARM_UP = 100

# For each layout: the shape and order of the array in shared memory, and the slice taken of it.
LAYOUTS = {
    "c": ((2, 3, 4), "C", lambda a: a),
    "f": ((2, 3, 4), "F", lambda a: a),
    "strided": ((4, 6, 4), "C", lambda a: a[::2, ::2, :]),
    "reversed": ((2, 3, 4), "C", lambda a: a[::-1, :, ::-1]),
    "transposed": ((4, 3, 2), "C", lambda a: a.T),
    "scalar": ((), "C", lambda a: a),
    "empty": ((0, 3), "C", lambda a: a),
}

LIST_LENGTH = 5
CHARACTERS = 'é\0"😀'
ABSENT = {str: "absent", bytes: b"absent", int: 0}
FIELDS = {
    "records": {
        "text": "strings",
        "size": "maybe-<i8",
        "sample": "vectors-<f4",
        "größe": "lists-maybe-strings",
        "point": "points",
        "none": "nothing",
    },
    "points": {"x": "<f8", "flag": "|b1"},
}


def pattern(k, dtype):
    """The value of element k."""
    kind, bits = re.match(r"(bool|b?float|b?complex|u?int)([0-9]*)", dtype.name).groups()
    real = k / 2 - 3.25
    match kind:
        case "bool":
            return k % 3 == 0
        case "int":
            return wrap(7 * k + 3 - 20, int(bits), -(1 << int(bits) - 1))
        case "uint":
            return wrap(7 * k + 3, int(bits), 0)
        case "float" if dtype.itemsize == 1:
            return 1 + k % 2
        case "float" | "bfloat":
            return real
    return complex(real, 2.5 - k)


def wrap(value, bits, low):
    """The integer wrapped to the bits of its type, whose least value is given."""
    return (value - low) % (1 << bits) + low


def fill_pattern(array, first=0):
    for k, index in enumerate(np.ndindex(array.shape), first):
        array[index] = pattern(k, array.dtype)


def compared(array):
    for k, index in enumerate(np.ndindex(array.shape)):
        if array[index] != pattern(k, array.dtype):
            return f"bad {k} {array[index]}"
    return f"ok {array.size}"


def item(kind, k):
    """Item k of a list of this kind."""
    form, _, rest = kind.partition("-")
    match form:
        case "maybe":
            return None if k % 3 == 1 else item(rest, k)
        case "lists":
            return [item(rest, k + j) for j in range(k % 3)]
        case "vectors":
            return elements(rest, (k % 3,), k)
        case "images":
            return elements(rest, (k % 3, 2), k)
        case "same":
            return elements(rest, (2, 2), k)
        case "strings":
            return CHARACTERS[:k]
        case "bytes":
            return b"\x00\x55\xaa\xff"[:k]
        case "nothing":
            return None
        case "pickles":
            return CHARACTERS[:k] if k % 2 else k
        case "records" | "points":
            return {name: item(field, k) for name, field in FIELDS[form].items()}
    return elements(kind, (), k)[()]


def items_of(kind):
    return [item(kind, k) for k in range(LIST_LENGTH if kind != "empty" else 0)]


def elements(dtype, shape, first):
    array = np.empty(shape, dtype)
    fill_pattern(array, first)
    return array


def plain(item):
    """An item as JSON has it."""
    match item:
        case np.ndarray():
            return {"shape": item.shape, "elements": [plain(element) for element in item.flat]}
        case np.generic():
            return plain(item.item())
        case complex():
            return [item.real, item.imag]
        case bytes():
            return item.hex()
        case dict():
            return {name: plain(part) for name, part in item.items()}
        case list() | tuple():
            return [plain(part) for part in item]
    return item


def plain_record(fields, item):
    """A record as JSON has it, of whatever class it is."""
    values = [item[name] for name in fields] if isinstance(item, dict) else item
    return dict(zip(fields, map(plain, values), strict=True))


def last(array):
    """The index of the last element in C order."""
    if array.size == 0:
        raise IndexError("an empty array has no last element")
    return tuple(count - 1 for count in array.shape)


def fill(array, value):
    """Writes the first element last: where it is there, all are."""
    array[1:] = value
    array[:1] = value


def dtype_text(value):
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    )


def one_line(error):
    return " ".join(str(error).split())


class UncaughtError(Exception):
    """Ends the program as an error of a user's does."""


class Arrays:
    """The arrays by key, each with the value that all its elements have."""

    def __init__(self):
        self.arrays, self.values = {}, {}

    def __getitem__(self, key):
        return self.arrays[key]

    def keep(self, key, array, value=None):
        self.arrays[key], self.values[key] = array, value

    def drop(self, keys):
        for key in keys or list(self.arrays):
            self.arrays.pop(key, None)
            self.values.pop(key, None)

    def valued(self, keys=()):
        """The arrays of these keys, or all, whose value is there."""
        found = keys or self.arrays
        return [key for key in found if self.values.get(key) is not None]

    def wrong(self):
        """The keys of the arrays that do not have their value."""
        held = [(key, self.arrays[key], self.values[key]) for key in self.valued()]
        return [key for key, array, value in held if not (array == value).all()]


class Threads:
    """Threads that make, attach and drop arrays, and check those that the driver holds."""

    def __init__(self, held):
        self.held, self.stopped, self.rounds, self.threads = held, True, 0, []

    def start(self, count):
        self.stopped, self.rounds = False, 0
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def work(self):
        while not self.stopped:
            own = shmarray.full(1000, 7, "<i8")
            again = shmarray.attach(str(shmarray.handle(own)), readonly=True)
            assert again[999] == 7
            self.rounds += 1

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()
        self.threads = []


class Driver:
    """Each method answers one command; its arguments are the words of the line."""

    def __init__(self):
        self.held, self.channels, self.pipes = Arrays(), {}, ()
        self.threads = Threads(self.held)

    def answer(self, line):
        command, *words = line.split(" ")
        if command == "attach":
            words = line.split(" ", 3)[1:]
        return getattr(self, f"do_{command}")(*words)

    def do_hello(self):
        return f"ok python {shmarray.__version__}"

    def do_dtypes(self):
        return "ok " + " ".join(DTYPES)

    def do_create(self, key, dtype, layout):
        shape, order, view = LAYOUTS[layout]
        self.held.drop([key])
        self.held.keep(key, view(shmarray.empty(shape, dtype, order)))
        fill_pattern(self.held[key])
        return self.do_handle(key)

    def do_attach(self, key, access, handle):
        if access not in ("rw", "ro"):
            raise ValueError(f"access {access!r} is neither rw nor ro")
        self.held.drop([key])
        self.held.keep(key, shmarray.attach(handle, readonly=access == "ro"))
        fields = json.loads(str(shmarray.handle(self.held[key])))
        lists = (",".join(map(str, fields[name])) or "-" for name in ("shape", "strides"))
        return " ".join(["ok", dtype_text(fields["dtype"]), *lists])

    def do_compare(self, key):
        return compared(self.held[key])

    def do_write(self, key):
        array = self.held[key]
        value = pattern(WRITTEN, array.dtype)
        try:
            array[last(array)] = value
        except ValueError as error:
            if array.flags.writeable:
                raise
            return f"refused {one_line(error)}"
        return "ok"

    def do_written(self, key):
        array = self.held[key]
        found = array[last(array)]
        if found != pattern(WRITTEN, array.dtype):
            return f"bad {array.size - 1} {found}"
        return "ok"

    def do_bytes(self, key):
        return "ok " + (self.held[key].tobytes("C").hex() or "-")

    def do_handle(self, key):
        return f"ok {shmarray.handle(self.held[key])}"

    def do_publish(self, name, dtype):
        self.channels["published"] = channel = shmarray.Channel.create(name, (2, 3, 4), dtype)
        with channel.loan(meta=dtype.encode()) as array:
            fill_pattern(array)
        return f"ok {channel.handle}"

    def do_receive(self, handle_or_name):
        channel = shmarray.Channel.open(handle_or_name)
        with channel.receive_message() as message:
            return f"{compared(message.array)} {message.meta.decode()}"

    def do_list(self, key, kind):
        form, _, rest = kind.partition("-")
        if form == "dictionary":
            made = shmarray.Dict(dict(zip(items_of(rest), items_of("maybe-<i8"), strict=True)))
        else:
            made = shmarray.List(items_of(kind))
        self.held.keep(key, made)
        return self.do_handle(key)

    def do_items(self, handle, *fields):
        items = attached_list(handle, *fields)
        named = items.fields
        found = [
            plain_record(named, item) if named and item is not None else plain(item)
            for item in items
        ]
        return f"ok {json.dumps(found, ensure_ascii=False)}"

    def do_find(self, handle):
        found = attached(handle, shmarray.Dict)
        keys = [*found, ABSENT[type(next(iter(found)))]]
        return f"ok {json.dumps([plain((key, found.get(key, 'absent'))) for key in keys])}"

    def do_values(self, handle, *fields):
        return f"ok {json.dumps(plain(attached_list(handle, *fields).values))}"

    def do_offsets(self, handle, *fields):
        return f"ok {json.dumps(plain(attached_list(handle, *fields).offsets))}"

    def do_make(self, key, count, value, name="-", mode="600", persist="0"):
        options = {} if name == "-" else {"name": name, "persist": persist == "1"}
        array = shmarray.zeros(int(count), "<i8", mode=int(mode, 8), **options)
        self.held.keep(key, array, int(value) or None)
        if int(value):
            fill(array, int(value))
        return self.do_handle(key)

    def do_share(self, key, count, value):
        array = shmarray.share(np.full(2 * int(count), int(value), "<i8")[::-2])
        self.held.keep(key, array, int(value))
        return self.do_handle(key)

    def do_view(self, key, other):
        self.held.keep(key, self.held[other][1::2])
        return self.do_handle(key)

    def do_fill(self, key, value):
        fill(self.held[key], int(value))
        self.held.values[key] = int(value)
        return "ok"

    def do_is(self, key, value):
        array = self.held[key]
        wrong = np.flatnonzero(array != int(value))
        return f"bad {wrong[0]} {array[wrong[0]]}" if wrong.size else f"ok {array.size}"

    def do_get(self, key):
        return f"ok {self.held[key][0]}"

    def do_check(self):
        wrong = self.held.wrong()
        return f"bad {' '.join(wrong)}" if wrong else f"ok {len(self.held.valued())}"

    def do_drop(self, *keys):
        self.held.drop(keys)
        if not keys:
            self.channels.clear()
        return "ok"

    def do_unlink(self, name):
        shmarray.unlink(name)
        return "ok"

    def do_sweep(self):
        return f"ok {shmarray.sweep().segments}"

    def do_segments(self):
        names = [info.name or "-" for info in shmarray.segments() if info.kind == "array"]
        return " ".join(["ok", *sorted(names)])

    # Messages.

    def do_ticket(self, key):
        return f"ok {handle_to_send(self.held[key])}"

    def do_discard(self, handle):
        shmarray.discard(handle)
        return "ok"

    def do_pipes(self, out, into):
        self.pipes = tuple(Pipe.from_fd(int(fd)) for fd in (out, into))
        return "ok"

    def do_send(self, *keys):
        found = self.held.valued(keys)
        values = " ".join(str(self.held.values[key]) for key in found)
        try:
            self.pipes[0].send(values.encode(), [self.held[key] for key in found], 0.005)
        except TimeoutError:
            return "none"
        return f"ok {len(found)}"

    def do_take(self, key, access):
        try:
            payload, message = self.pipes[1].receive(0.005)
        except TimeoutError:
            return "none"
        values = bytes(payload).split()
        for index, value in enumerate(values if key != "-" else ()):
            array = message.array(index, "r" if access == "ro" else "r+")
            if not (array == int(value)).all():
                return f"bad {index}"
            self.held.keep(key, array, int(value))
        return f"ok {len(values)}"

    def do_channel(self, mode, value):
        """Sends a value, or receives one where it is 0."""
        if mode not in self.channels:
            self.channels[mode] = shmarray.Channel.create(
                f"common-{mode}",
                2000,
                "<i8",
                slots=5,
                mode=mode,
                when_full="drop_oldest" if mode == "broadcast" else "block",
                exist_ok=True,
            )
        channel = self.channels[mode]
        try:
            if int(value):
                with channel.loan(0.005, meta=value.encode()) as array:
                    fill(array, int(value))
                return "ok 0"
            with channel.receive_message(0.005) as message:
                right = (message.array == int(message.meta)).all()
                return "ok 1" if right else "bad 0"
        except (TimeoutError, EOFError):
            return "none"

    # Processes.

    def do_fork(self, into, out):
        """Forks a process that goes on alone: the host adopts it."""
        child = os.fork()
        if child:
            return "ok" if os.waitpid(child, 0)[1] == 0 else "error OSError no child"
        if os.fork():
            os._exit(0)
        os.dup2(os.open(into, os.O_RDONLY), 0)
        os.dup2(os.open(out, os.O_WRONLY), 1)
        return f"ok {os.getpid()}"

    def do_session(self):
        os.setsid()
        return "ok"

    def do_directory(self, path):
        os.environ["SHMARRAY_DIR"] = path
        return "ok"

    def do_user(self, number):
        os.setgroups([])
        os.setgid(int(number))
        os.setuid(int(number))
        return "ok"

    def do_close_fds(self, first):
        os.closerange(int(first), 4096)
        return "ok"

    def do_threads(self, count):
        self.threads.start(int(count)) if int(count) else self.threads.stop()
        return "ok"

    def do_rounds(self):
        return f"ok {self.threads.rounds}"

    def do_spawn(self, into, out):
        with open(into, "rb") as stdin, open(out, "wb") as stdout:
            return f"ok {subprocess.Popen(['cat'], stdin=stdin, stdout=stdout).pid}"

    def do_exec(self, program):
        os.execlp(program, program)

    def do_end(self, how):
        if how == "exit":
            sys.exit(0)
        if how == "raise":
            raise UncaughtError
        if how == "_exit":
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGABRT)

    # Measurements: the loops are timed here.

    def do_time_create(self, size, count):
        for times in (int(count) // 10 + 1, int(count)):
            began = time.perf_counter()
            for _ in range(times):
                shmarray.empty(int(size), "u1")
            seconds = time.perf_counter() - began
        return f"ok {seconds / int(count):.9f}"

    def do_time_attach(self, count, path):
        """Attaches the first handle before the clock starts: it pays for what is done once."""
        first, *handles = pathlib.Path(path).read_text().split()
        kept = shmarray.attach(first)
        cold, arrays = attach_all(handles)
        began = time.perf_counter()
        for _ in range(int(count)):
            shmarray.attach(handles[0])
        held = (time.perf_counter() - began) / int(count)
        del arrays, kept
        again, arrays = attach_all(handles)
        return f"ok {cold:.9f} {held:.9f} {again:.9f}"

    def do_time_ask(self, name, size, count, wait):
        there, back = (
            shmarray.Channel.create(f"{name}.{part}", int(size), "u1", slots=4)
            for part in ("there", "back")
        )
        for number in range(-WARM_UP, int(count)):
            if number == 0:
                began = time.perf_counter()
            with there.loan() as frame:
                frame[0] = number & 255
            if receive_first(back, wait) != number & 255:
                raise ValueError("another frame came back")
        return f"ok {(time.perf_counter() - began) / int(count):.9f}"

    def do_time_answer(self, name, wait):
        there, back = (
            shmarray.Channel.open(f"{name}.{part}", timeout=None) for part in ("there", "back")
        )
        with contextlib.suppress(EOFError):
            while True:
                first = receive_first(there, wait)
                with back.loan() as frame:
                    frame[0] = first
        return "ok"


def attached(handle, kind):
    found = shmarray.attach(handle)
    if not isinstance(found, kind):
        raise TypeError(f"it is no {kind.__name__}: {type(found).__name__}")
    return found


def attached_list(handle, *fields):
    return functools.reduce(shmarray.List.field, fields, attached(handle, shmarray.List))


def attach_all(handles):
    began = time.perf_counter()
    arrays = [shmarray.attach(handle) for handle in handles]
    return (time.perf_counter() - began) / len(handles), arrays


def receive_first(channel, wait):
    while wait == "poll" and not channel.poll():
        pass
    with channel.receive() as frame:
        return int(frame[0])


def main():
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    driver = Driver()
    for line in sys.stdin:
        try:
            answer = driver.answer(line.rstrip("\r\n"))
        except (SystemExit, UncaughtError):
            raise
        except BaseException as error:  # a panic of core's is none of Exception's children
            answer = f"error {type(error).__name__} {one_line(error)}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
