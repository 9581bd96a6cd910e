"""Kills the drivers of all languages as often as asked, and counts faults and leftovers.

    python ci/checks/scenarios/soak.py --kills 300 [--seed N]

All drivers share one pipe, whose ends this process keeps open, as a supervisor with a queue does.
This process gives each driver a batch of commands at a time, chosen at random: arrays of all sizes
are made, sent, received, checked and named, handed over by handle, sent by two channels, used by
threads, and inherited by forked children. Meanwhile it kills one driver alone, one with its whole
tree, or all at once, and seldom one that waits. There are never more kills than checked arrays, so
that a machine on which drivers start slowly does not kill only idle ones. At the end the remaining
drivers stop by themselves and a fresh process sweeps; then nothing may be left.

The counts are wrong bytes and other faults (an answer that is an error, an end that is no kill),
hangs (drivers that do not answer), leaked segments, and leaked bytes. All must be 0.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from drivers import EndedError, Process, junit, processes

LANGUAGES = ("python", "ruby", "cpp", "c", "rust")
PATIENCE_S = 120  # after so long without an answer a driver hangs
SIZES = (1, 3, 25, 512, 2000, 7000, 40000, 150000)
NAMED = 1000  # the value of array soak-0; all of a name have one value, whoever made them
MISSED = re.compile(
    r"error \S*(FileExists|EEXIST|Exists|EXISTS|already_exists"
    r"|FileNotFound|ENOENT|NotFound|NOT_FOUND|not_found)"
)
DEEDS = {"send": 42, "take": 42, "post": 5, "fetch": 5, "name": 4, "threads": 1, "channel": 30}


class Worker:
    """A driver, and the commands whose answers it owes, each with what its answer leads to."""

    def __init__(self, process, leader=None, batches=None):
        self.process, self.pid, self.name = process, process.pid, process.name
        self.is_leader, self.tree = leader is None, leader or process.pid
        self.owes, self.asked, self.batches = collections.deque(), 0.0, batches

    def order(self, commands):
        self.asked = time.monotonic()
        self.owes.extend(commands)
        self.process.write(*(line for line, _ in commands))


class Soak:
    def __init__(self, arguments):
        self.arguments, self.random = arguments, random.Random(arguments.seed)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shmarray-soak-", dir="/dev/shm"))
        self.fifos = pathlib.Path(tempfile.mkdtemp(prefix="shmarray-fifos-"))
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ends = [end.detach() for end in ends]
        # All are one family, as children of one launcher are.
        family = str(2**52 + self.random.randrange(1, 2**20) * 2**32)
        self.environment = os.environ | {
            "SHMARRAY_DIR": str(self.directory),
            "SHMARRAY_FAMILY": family,
        }
        self.live, self.letters, self.named = {}, {}, 0
        self.killed = {"alone": 0, "with its tree": 0, "all at once": 0}
        self.kills = self.started = 0
        self.messages, self.arrays = collections.Counter(), collections.Counter()
        self.faults, self.hangs, self.most_files, self.most_bytes = [], 0, 0, 0

    def nursery(self, name):
        """A driver that is not killed. Its family lives as long as it does, and with it the
        tickets of letters.
        """
        nursery = Process.start(name, self.fifos, self.environment, pass_fds=self.ends)
        nursery.do("make own 1 1")
        return nursery

    def start(self, nursery):
        self.started += 1
        process = nursery.fork()
        process.do("session", "drop", f"pipes {self.ends[0]} {self.ends[1]}")
        self.live[process.pid] = Worker(process)

    def fork(self, worker):
        """Forks a child that goes on for some batches, whatever its parent does."""
        with contextlib.suppress(EndedError):
            child = worker.process.fork()
            left = self.random.randrange(8)
            self.live[child.pid] = Worker(child, worker.tree, left)

    # What a driver is to do. Each deed is a list of commands.

    def batch(self, worker):
        deeds = self.random.choices(list(DEEDS), list(DEEDS.values()), k=8)
        commands = [command for deed in deeds for command in getattr(self, deed)(worker)]
        return [*commands, ("check", self.count_checked(worker))]

    def count_checked(self, worker):
        def count(answer):
            self.arrays[worker.name] += int(answer.split()[1])

        return count

    def key(self):
        return f"h{self.random.randrange(8)}"

    def value(self):
        return self.random.randrange(NAMED + 100, 2**62)

    def make(self, key, name=""):
        value = NAMED + int(name[-1]) if name else self.value()
        return (f"make {key} {self.random.choice(SIZES)} {value}{name}", None)

    def send(self, _worker):
        keys = [self.key() for _ in range(self.random.randrange(1, 4))]
        made = [self.make(key) for key in set(keys) if self.random.random() < 0.5]
        return [*made, (f"send {' '.join(dict.fromkeys(keys))}", None)]

    def take(self, worker):
        def count(answer):
            if answer.startswith("ok "):
                self.messages[worker.name] += 1
                self.arrays[worker.name] += int(answer[3:]) if key != "-" else 0

        key = "-" if self.random.random() < 0.125 else self.key()  # unwanted
        return [(f"take {key} {self.random.choice(('ro', 'rw'))}", count)]

    def channel(self, worker):
        def count(answer):
            if answer == "ok 1":
                self.messages[worker.name] += 1
                self.arrays[worker.name] += 1

        mode = self.random.choice(("queue", "broadcast", "latest"))
        return [(f"channel {mode} {self.random.choice((0, self.value()))}", count)]

    def post(self, _worker):
        """Has a handle made that is sent out of band, as a letter that any driver may fetch."""
        value = self.value()

        def keep(answer):
            self.letters[self.random.randrange(2**32)] = (value, answer[3:])

        if len(self.letters) >= 6:
            return []  # nobody has fetched them
        return [(f"make letter 2000 {value}", None), ("ticket letter", keep), ("drop letter", None)]

    def fetch(self, worker):
        if not self.letters:
            return []
        value, handle = self.letters.pop(self.random.choice(list(self.letters)))
        if self.random.random() < 0.25:
            return [(f"discard {handle}", None)]
        checked = (f"is letter {value}", self.count_checked_one(worker))
        return [(f"attach letter rw {handle}", None), checked, ("drop letter", None)]

    def count_checked_one(self, worker):
        def count(_answer):
            self.arrays[worker.name] += 1

        return count

    def name(self, worker):
        number = self.random.randrange(4)
        self.named += 1
        # A batch may attach one name twice, and the second attach drops what its key had.
        key = f"named-{self.named}"

        def check(answer):
            if answer.startswith("ok ") and answer != "ok 0":  # else its maker is not so far
                worker.order([(f"is {key} {NAMED + number}", self.count_checked_one(worker))])
            worker.order([(f"drop {key}", None)])

        def attached(answer):
            if answer.startswith("ok "):
                worker.order([(f"get {key}", check)])

        match self.random.randrange(3):
            case 0:
                return [self.make(self.key(), f" soak-{number}")]
            case 1:
                return [(f"attach {key} rw soak-{number}", attached)]
            case _:
                return [(f"unlink soak-{number}", None)]

    def threads(self, _worker):
        return [("threads 1", None), ("check", None), ("threads 0", None)]

    # The supervisor.

    def listen(self, seconds):
        """Waits so long for answers, and takes all that are there."""
        ends = {worker.process.stdout: worker for worker in self.live.values()}
        for end in select.select(list(ends), [], [], seconds)[0]:
            with contextlib.suppress(BlockingIOError):
                ends[end].process.buffer += os.read(end, 1 << 16)
            self.take_answers(ends[end])

    def take_answers(self, worker):
        *lines, worker.process.buffer = worker.process.buffer.split(b"\n")
        for line in lines:
            answer = line.decode(errors="replace")
            command, then = worker.owes.popleft()
            if answer.split(" ", 1)[0] not in ("ok", "none") and not self.is_missed(
                command, answer
            ):
                self.faults.append(f"wrong: {worker.name} {worker.pid}: {command}: {answer}")
            elif then:
                then(answer)

    def is_missed(self, command, answer):
        """Whether a name was there already, or was not there."""
        return "soak-" in command and MISSED.match(answer)

    def give_work(self):
        """Gives a batch to each driver that has answered."""
        for worker in list(self.live.values()):
            if worker.owes:
                if time.monotonic() > worker.asked + PATIENCE_S:
                    self.faults.append(f"{worker.name} {worker.pid} hangs at {worker.owes[0][0]}")
                    self.hangs += 1
                continue
            with contextlib.suppress(BrokenPipeError, EndedError):
                self.give_batch(worker)

    def give_batch(self, worker):
        if worker.batches == 0:
            how = self.random.choice(("exit", "_exit", "kill"))
            worker.order([(f"end {how}", None)])
        elif self.random.random() < 0.1 and len(self.live) < 3 * self.arguments.processes:
            self.fork(worker)
        else:
            worker.batches = worker.batches and worker.batches - 1
            worker.order(self.batch(worker))

    def reap(self):
        """Reaps all that ended, and returns how many leaders did."""
        leaders = 0
        for pid, status in processes.ended_children():
            how = os.waitstatus_to_exitcode(status)
            worker = self.live.pop(pid, None)
            if how not in (0, -signal.SIGKILL) or worker is None:
                name = worker.name if worker else "a nursery"
                self.faults.append(f"{name} {pid} ended with {how}")
            if worker:
                os.close(worker.process.stdin)
                os.close(worker.process.stdout)
                leaders += worker.is_leader
        return leaders

    def kill(self, worker, tree):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if tree else os.kill)(worker.pid, signal.SIGKILL)
            self.kills += 1
            self.killed["with its tree" if tree else "alone"] += 1

    def kill_somebody(self):
        choice = self.random.random()
        if choice < 0.01:
            for worker in self.live.values():
                self.kill(worker, tree=worker.is_leader)
            self.killed["all at once"] += 1
            return
        works = [worker for worker in self.live.values() if worker.owes]
        worker = self.random.choice(works or list(self.live.values()))
        self.kill(worker, tree=choice < 0.2 and worker.is_leader)

    def measure(self):
        sizes = {}
        for path in self.directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                facts = path.stat()
                sizes[facts.st_ino] = facts.st_blocks * 512
        self.most_files = max(self.most_files, len(sizes))
        self.most_bytes = max(self.most_bytes, sum(sizes.values()))

    def run(self):
        self.nurseries = [self.nursery(name) for name in LANGUAGES]
        turn, missing = 0, self.arguments.processes
        began = progress = time.monotonic()
        until = began
        while self.kills < self.arguments.kills and not self.faults:
            for _ in range(missing):
                self.start(self.nurseries[turn % len(LANGUAGES)])
                turn += 1
            self.give_work()
            self.listen(0.005)
            missing = self.reap()
            if time.monotonic() < until:
                continue
            # Some live for an instant, some for long.
            until = time.monotonic() + self.random.expovariate(1 / self.arguments.pause)
            if self.live and self.has_worked():
                self.kill_somebody()
                progress = time.monotonic()
            elif time.monotonic() > progress + PATIENCE_S:
                self.faults.append(f"nobody works: {dict(self.arrays)} arrays checked")
            if self.kills % 16 == 0:
                self.measure()
        self.seconds = time.monotonic() - began
        self.stop()

    def has_worked(self):
        """Whether the killed drivers had work, in each language and on average."""
        return (
            all(self.messages[language] for language in LANGUAGES)
            and self.arrays.total() > self.kills
        )

    def stop(self):
        patience = time.monotonic() + PATIENCE_S
        while any(worker.owes for worker in self.live.values()) and time.monotonic() < patience:
            self.listen(0.05)
            self.reap()
        for worker in self.live.values():
            os.close(worker.process.stdin)  # the input ends
            worker.process.stdin = os.dup(worker.process.stdout)
        while self.live and time.monotonic() < patience:
            select.select([], [], [], 0.01)
            self.reap()
        self.hangs += len(self.live)
        for worker in self.live.values():
            os.kill(worker.pid, signal.SIGKILL)
        for nursery in self.nurseries:
            if nursery.leave() != 0:
                self.faults.append(f"the nursery of {nursery.name} failed")
        for end in self.ends:
            os.close(end)


def left(directory, environment):
    """The number of files, and of bytes, that a fresh process could not give back."""
    subprocess.run(["shmarray", "sweep"], env=environment, check=True, stdout=subprocess.DEVNULL)
    files = [
        path
        for path in directory.iterdir()
        if not re.fullmatch(r"shmarray-registry-\d+", path.name)
    ]
    sizes = {path.stat().st_ino: path.stat().st_blocks * 512 for path in files}
    return len(files), sum(sizes.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.03, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    soak = Soak(parser.parse_args())
    processes.adopt_orphans()
    soak.run()
    files, size = left(soak.directory, soak.environment)
    wrong = sum("wrong" in fault for fault in soak.faults)
    print(f"seed {soak.arguments.seed}, {soak.seconds:.0f} s, {soak.started} drivers")
    print(f"kills: {soak.killed}")
    work = (
        f"{soak.messages[language]} and {soak.arrays[language]} in {language}"
        for language in LANGUAGES
    )
    print(f"messages received and arrays checked, at the least: {', '.join(work)}")
    print(f"at most {soak.most_files} files and {soak.most_bytes >> 20} MiB at once")
    leaked = f"leaked segments {files}, leaked bytes {size}"
    print(f"kills {soak.kills}, wrong bytes {wrong}, {leaked}, hangs {soak.hangs}")
    print("\n".join(soak.faults[:20]))
    worked = soak.kills >= soak.arguments.kills
    checks = {
        "so many kills": worked,
        "no faults": not soak.faults,
        "no segments leaked": files == 0,
        "no bytes leaked": size == 0,
        "no hangs": soak.hangs == 0,
    }
    for folder in (soak.directory, soak.fifos):
        shutil.rmtree(folder, ignore_errors=True)
    outcomes = ((name, "passed" if holds else "failed") for name, holds in checks.items())
    sys.exit(junit.close("soak", outcomes))


if __name__ == "__main__":
    main()
