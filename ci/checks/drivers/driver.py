"""The conformance driver for Python: one command a line in, one answer a line out.

README.md says what each command does. All elements are read and written by NumPy.
"""

import json
import pathlib
import re
import sys

import numpy as np
import shmarray

FORMAT = pathlib.Path(__file__).resolve().parents[3] / "core/FORMAT.md"
ROW = re.search(r"^    (\|b1 .*)$", FORMAT.read_text(), re.M)  # as core's table: a test compares
assert ROW, f"{FORMAT} has no row of dtypes"
DTYPES = ROW[1].split()
WRITTEN = 100

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


def pattern(k, dtype):
    """The value of element k."""
    if dtype.kind == "b":
        return k % 3 == 0
    if dtype.kind in "iu":
        return wrap(7 * k + 3 - (20 if dtype.kind == "i" else 0), dtype)
    real = k / 2 - 3.25
    if dtype.kind == "f":
        return real
    if dtype.kind == "c":
        return complex(real, 2.5 - k)
    raise TypeError(f"no pattern for elements of {dtype}")


def wrap(value, dtype):
    """The integer wrapped to the bits of its type."""
    bits = 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.kind == "i" else 0
    return (value - low) % (1 << bits) + low


class Driver:
    """Holds at most one array and one channel; each method answers one command."""

    def __init__(self):
        self.array = None
        self.channel = None

    def answer(self, line):
        command, _, rest = line.partition(" ")
        names = [
            "hello",
            "dtypes",
            "create",
            "attach",
            "compare",
            "write",
            "written",
            "bytes",
            "handle",
            "publish",
            "receive",
            "close",
        ]
        if command not in names:
            raise ValueError(f"unknown command {command!r}")
        return getattr(self, command)(*([rest] if rest else []))

    def hello(self):
        return f"ok python {shmarray.__version__}"

    def dtypes(self):
        return "ok " + " ".join(DTYPES)

    def create(self, arguments):
        dtype, layout = arguments.split()
        shape, order, view = LAYOUTS[layout]
        self.array = None
        self.array = view(shmarray.empty(shape, dtype, order))
        fill(self.array)
        return self.handle()

    def attach(self, arguments):
        access, _, handle = arguments.partition(" ")
        if access not in ("rw", "ro"):
            raise ValueError(f"access {access!r} is neither rw nor ro")
        self.array = None
        self.array = shmarray.attach(handle, readonly=access == "ro")
        fields = json.loads(str(shmarray.handle(self.array)))
        lists = (",".join(map(str, fields[key])) or "-" for key in ("shape", "strides"))
        return " ".join(["ok", dtype_text(fields["dtype"]), *lists])

    def compare(self):
        return compared(self.held())

    def write(self):
        array = self.held()
        value = pattern(WRITTEN, array.dtype)
        try:
            array[last(array)] = value
        except ValueError as error:
            if array.flags.writeable:
                raise
            return f"refused {one_line(error)}"
        return "ok"

    def written(self):
        array = self.held()
        found = array[last(array)]
        if found != pattern(WRITTEN, array.dtype):
            return f"bad {array.size - 1} {found}"
        return "ok"

    def bytes(self):
        return "ok " + (self.held().tobytes("C").hex() or "-")

    def handle(self):
        return f"ok {shmarray.handle(self.held())}"

    def publish(self, arguments):
        name, dtype = arguments.split()
        self.channel = None
        self.channel = shmarray.Channel.create(name, (2, 3, 4), dtype)
        with self.channel.loan(meta=dtype.encode()) as array:
            fill(array)
        return f"ok {self.channel.handle}"

    def receive(self, handle_or_name):
        channel = shmarray.Channel.open(handle_or_name)
        with channel.receive() as array:
            return f"{compared(array)} {channel.last.meta.decode()}"

    def close(self):
        self.array = self.channel = None
        return "ok"

    def held(self):
        if self.array is None:
            raise ValueError("no array is held")
        return self.array


def fill(array):
    for k, index in enumerate(np.ndindex(array.shape)):
        array[index] = pattern(k, array.dtype)


def compared(array):
    for k, index in enumerate(np.ndindex(array.shape)):
        if array[index] != pattern(k, array.dtype):
            return f"bad {k} {array[index]}"
    return f"ok {array.size}"


def last(array):
    """The index of the last element in C order."""
    if array.size == 0:
        raise IndexError("an empty array has no last element")
    return tuple(count - 1 for count in array.shape)


def dtype_text(value):
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    )


def one_line(error):
    return " ".join(str(error).split())


def main():
    for stream in (sys.stdin, sys.stdout):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape", newline="\n")
    driver = Driver()
    for line in sys.stdin:
        try:
            answer = driver.answer(line.rstrip("\r\n"))
        except BaseException as error:  # a panic of core's is none of Exception's children
            answer = f"error {type(error).__name__} {one_line(error)}"
        print(answer, flush=True)


if __name__ == "__main__":
    main()
