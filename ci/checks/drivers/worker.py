"""A nursery: starts a worker, as run.py describes it, for each line of its input, a seed."""

import collections
import contextlib
import os
import pathlib
import random
import signal
import sys
import threading

import shmarray
from shmarray._core import Pipe, handle_to_send

STEP = 512  # a mark on every page
SIZES = (1, 3, 25, 512, 2000, 7000, 40000, 150000)
CHANNEL_SIZE = 2000
MAIL = pathlib.Path(os.environ["SHMARRAY_DIR"]) / "mail"


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def fault(what):
    say("wrong", os.getpid(), "python:", what)
    os._exit(3)


def marks(count, seed):
    """The indices and the values of the marks."""
    indices = [count - 1, *range((count - 1) // STEP * STEP, -1, -STEP)]
    return indices, [(seed + index) % 2**63 for index in indices]


class Worker:
    def __init__(self, seed, here, there):
        self.random = random.Random(seed)
        self.here = here
        self.there = there
        self.held = collections.deque()
        self.channels = {}
        self.messages = self.checked = 0

    def live(self):
        say("up", os.getpid(), "python")
        deeds = (
            [self.send] * 42
            + [self.receive] * 42
            + [self.post] * 5
            + [self.fetch] * 5
            + [self.name] * 4
        )
        deeds += [self.fork_a_child, self.use_a_thread] + [self.use_a_channel] * 30
        while not (MAIL / "stop").exists():
            for _ in range(8):
                self.random.choice(deeds)()
            self.report()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    def report(self):
        say("did", os.getpid(), "python", self.messages, self.checked)
        self.messages = self.checked = 0

    def make(self, name=None):
        count = self.random.choice(SIZES)
        seed = self.random.randrange(1, 2**62) | 1
        array = shmarray.zeros(count, "<i8", name=name)
        # Index 0 is last: a process that finds the array by its name knows that all are there.
        for index, mark in zip(*marks(count, seed), strict=True):
            array[index] = mark
        return array, seed

    def check(self, array, seed):
        indices, expected = marks(len(array), seed)
        if array[indices].tolist() != expected:
            fault(f"{len(array)} elements")
        self.checked += 1

    def hold(self, array, seed):
        self.held.append((array, seed))
        while len(self.held) > 8:
            self.check(*self.held.popleft())

    def send(self):
        count = self.random.randrange(1, 4)
        all_of_them = [
            self.random.choice(self.held)
            if self.held and self.random.random() < 0.5
            else self.make()
            for _ in range(count)
        ]
        seeds = " ".join(str(seed) for _, seed in all_of_them).encode()
        with contextlib.suppress(TimeoutError):
            self.here.send(seeds, [array for array, _ in all_of_them], 0.005)
        if self.random.random() < 0.25:
            self.hold(*all_of_them[0])

    def receive(self):
        try:
            payload, message = self.there.receive(0.005)
        except TimeoutError:
            return
        self.messages += 1
        if self.random.random() < 0.125:
            return  # unwanted
        for index, seed in enumerate(payload.split()):
            array = message.array(index, self.random.choice(["r", "r+"]))
            self.check(array, int(seed))
            if self.random.random() < 0.3:
                self.hold(array, int(seed))

    def post(self):
        """Sends a handle out of band, in a file that any worker may take."""
        array, seed = self.make()
        aside = MAIL / f"new-{os.getpid()}"
        handle = str(handle_to_send(array))
        aside.write_text(f"{seed}\n{handle}\n")
        try:
            os.link(aside, MAIL / f"letter-{self.random.randrange(6)}")
        except FileExistsError:
            shmarray.discard(handle)  # there is one that nobody has fetched
        aside.unlink()

    def fetch(self):
        taken = MAIL / f"taken-{os.getpid()}"
        try:
            os.rename(MAIL / f"letter-{self.random.randrange(6)}", taken)
        except FileNotFoundError:
            return
        seed, handle = taken.read_text().split()
        if self.random.random() < 0.25:
            shmarray.discard(handle)
        else:
            self.check(shmarray.attach(handle), int(seed))
        taken.unlink()

    def name(self):
        name = f"soak-{self.random.randrange(4)}"
        try:
            match self.random.randrange(3):
                case 0:
                    self.hold(*self.make(name))
                case 1:
                    array = shmarray.attach(name)
                    if array[0]:  # else its maker has not come so far
                        self.check(array, int(array[0]))
                case _:
                    shmarray.unlink(name)
        except (FileExistsError, FileNotFoundError):
            pass

    def use_a_channel(self):
        """Sends or receives by a channel that all workers have: a queue or a broadcast."""
        mode = self.random.choice(("queue", "broadcast"))
        if mode not in self.channels:
            self.channels[mode] = shmarray.Channel.create(
                f"soak-{mode}",
                CHANNEL_SIZE,
                "<i8",
                slots=5,
                mode=mode,
                when_full="drop_oldest" if mode == "broadcast" else "block",
                exist_ok=True,
            )
        channel = self.channels[mode]
        seed = self.random.randrange(1, 2**62) | 1
        with contextlib.suppress(TimeoutError, EOFError):
            if self.random.random() < 0.5:
                with channel.loan(0.005, meta=str(seed).encode()) as array:
                    for index, mark in zip(*marks(CHANNEL_SIZE, seed), strict=True):
                        array[index] = mark
            else:
                with channel.receive(0.005) as array:
                    self.check(array, int(channel.last.meta))
                    self.messages += 1

    def use_a_thread(self):
        """Checks the held arrays in a thread, beside the other operations."""
        kept = list(self.held)
        threading.Thread(target=lambda: [self.check(*one) for one in kept]).start()

    def fork_a_child(self):
        """Forks a child that goes on alone, whatever its parent does, and ends in several ways."""
        if os.fork() != 0:
            return
        for rounds in range(self.random.randrange(60)):
            for array, seed in self.held:
                self.check(array, seed)
            if rounds % 8 == 0:
                self.send()
                self.use_a_channel()
        match self.random.randrange(3):
            case 0:
                os._exit(0)
            case 1:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(0)


def start(seed, here, there):
    """Starts a grandchild, so that the supervisor, which counts, becomes its parent."""
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        return
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    os.close(0)
    try:
        Worker(seed, here, there).live()
    except Exception as error:  # what it is does not matter: it is a fault
        fault(repr(error))
    sys.exit(0)


def main():
    here, there = (Pipe.from_fd(int(fd)) for fd in sys.argv[1:])
    for line in sys.stdin:
        start(int(line), here, there)


if __name__ == "__main__":
    main()
