"""The work of workers in the tests of pools, executors and joblib's backend."""

import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

import shmarray


class Gate:
    """A gate where a task stops, tells its process, and waits to be let through: two named
    pipes.
    """

    def __init__(self, directory, name="gate"):
        self.paths = [Path(directory) / f"{name}-{end}" for end in ("arrivals", "exit")]
        for path in self.paths:
            os.mkfifo(path)

    def pass_through(self, value=None):
        """Called by tasks."""
        arrivals, way_out = self.paths
        arrivals.write_text(f"{os.getpid()}\n")
        way_out.read_text()
        return value

    def next_arrival(self):
        """Called by the test: returns the process of the task that is there, or will be."""
        return int(self.paths[0].read_text())

    def open(self):
        """Called by the test: lets one task through."""
        self.paths[1].write_text("")


class Meeting:
    """A meeting of two tasks that wait for each other, and so need a worker each: two named
    pipes.
    """

    def __init__(self, directory):
        self.paths = [Path(directory) / f"meeting-{number}" for number in range(2)]
        for path in self.paths:
            os.mkfifo(path)

    def attend(self, number):
        """Called by the tasks 0 and 1: returns the worker, and how much it has copied."""
        if number == 0:
            self.paths[0].write_text("")
            self.paths[1].read_text()
        else:
            self.paths[0].read_text()
            self.paths[1].write_text("")
        return os.getpid(), shmarray.copied_bytes()


def square(number):
    return number * number


def process():
    return os.getpid()


def process_for(_):
    return os.getpid()


def fail(text):
    raise ValueError(text)


def give_back(value):
    return value


def ends(way):
    """A task that ends its worker."""
    if way == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    elif way == "os._exit":
        os._exit(3)
    elif way == "sys.exit":
        sys.exit(4)
    else:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)


def large(number):
    """10 MB, private to the worker."""
    return np.full(1_250_000, number, "f8")


def large_shared(number):
    return shmarray.full(1_250_000, number, "f8")


def keep(size):
    """The worker has it until it ends."""
    held.append(shmarray.ones(size, "u1"))


held = []


def keep_and_end(size):
    keep(size)
    ends("SIGKILL")


def fill(row, number):
    row[:] = number


def add_one(counts, index):
    """Counts that this task was done, in place. Its result, in shared memory, tells which one."""
    counts[index] += 1
    return index, np.full(20_000, index)


def unsendable():
    return threading.Lock()


class Unwelcome:
    """Cannot be unpickled."""

    def __reduce__(self):
        return fail, ("no such thing here",)


class UnwelcomeInWorkers:
    """Can be unpickled only by the process that made it."""

    def __init__(self):
        self.process = os.getpid()

    def __reduce__(self):
        return _only_in, (self.process,)


def _only_in(process):
    if os.getpid() != process:
        raise ValueError("not in this process")


def ends_if(number):
    return ends("SIGKILL") if number else number


def pass_or_give_back(value):
    return value.pass_through() if isinstance(value, Gate) else value


def interrupts():
    raise KeyboardInterrupt


def fork_and_stay(gate, stay):
    """The worker's child lives on, with all fds of the worker."""
    if os.fork() == 0:
        stay.pass_through()
        os._exit(0)
    gate.pass_through()


def fork_and_return():
    return "child" if os.fork() == 0 else "worker"


def pass_or_sum(frame):
    return frame.pass_through(0) if isinstance(frame, Gate) else int(frame.sum())


initialized = []


def initialize(value):
    initialized.append(value)


def initialized_value():
    return list(initialized)


def mark_initialized(index):
    (array,) = initialized
    array[index] = 1


def look_at(array):
    return os.getpid(), array.flags.writeable, float(array.sum())


def interrupt_as_it_returns():
    """Has its process interrupted when the worker's call of it returns, no longer in the task."""

    def interrupt(frame, event, _):
        if (event, frame.f_code.co_name) == ("return", "perform"):
            sys.setprofile(None)
            os.kill(os.getpid(), signal.SIGINT)

    sys.setprofile(interrupt)


KEPT = []
"""What a process keeps, and its forked workers have."""


def add_to_kept(number):
    KEPT[number][:] += 1
    return KEPT[number]


def first_of(array, number=0):
    """Returns the first element, and a number."""
    return float(array[0]) + number


def sum_with(array, number):
    """Writes to all of an array. Returns the sum."""
    array += number
    return float(array.sum())


def sum_in(holder, number=0):
    """Returns the sum of the arrays in an object, and a number."""
    return float(sum(array.sum() for array in holder.arrays())) + number


class Holder:
    """An object with slots and arrays."""

    __slots__ = ("named", "rest")

    def __init__(self, first, second):
        self.named = {"first": first}
        self.rest = [second]

    def arrays(self):
        return [*self.named.values(), *self.rest]

    def add(self, number):
        return sum_in(self, number)


meeting = None
"""A barrier. Set before the workers are forked."""


def first_after_meeting(array):
    """Returns the first element when as many tasks as the barrier is for have their arrays."""
    meeting.wait()
    return float(array[0])


def first_after_meeting_or_die(array, number):
    """Does so, but the task of number 2 kills its worker."""
    first = first_after_meeting(array)
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return first


def bytes_of(value):
    """Returns type, dtype and bytes of an array, or of those in a list."""
    if isinstance(value, list):
        return [bytes_of(item) for item in value]
    data = np.asarray(value)
    return type(value).__name__, data.dtype.str, data.shape, data.tobytes()


class Reader:
    """An item that fills a buffer of all items when it is pickled."""

    buffer = np.zeros(400_000)

    def __init__(self, number):
        self.number = number

    def __getstate__(self):
        self.buffer[:] = self.number
        return {"number": self.number, "read": self.buffer}


def first_read(item, buffer=None):
    return float(item.read[0]), None if buffer is None else float(buffer[7])


def first_when_set(array):
    """Returns the first element, when the event is set."""
    meeting.wait()
    return float(array[0])
