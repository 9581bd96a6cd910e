"""Kills programs whose arrays are born shared, and their workers, as often as asked.

    python ci/checks/scenarios/born_soak.py --kills 75 [--seed N]

Each `born_program.py` hands arrays to workers and takes them back, checks every element, and stores
into what it owns. This process kills a worker, a program, or a program with all its workers, at
random moments: while memory is offered, dropped, settled, sent, attached, or freed. At the end the
programs stop by themselves, and a fresh process sweeps; then nothing may be left.

There are never more kills than checked arrays. All that is counted as a fault must be 0.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import soak
from drivers import junit, processes

PROGRAM = pathlib.Path(__file__).with_name("born_program.py")
PATIENCE_S = 120  # after so long without a checked array the programs hang


class Program:
    """A running program, and what it said so far of a line."""

    def __init__(self, seed, environment):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", str(PROGRAM), str(seed)]
        self.started = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            bufsize=0,
            start_new_session=True,
        )
        self.pid, self.said = self.started.pid, b""

    def lines(self):
        """The lines that are there, and b"" at the end of its output."""
        more = os.read(self.started.stdout.fileno(), 1 << 16)
        *lines, self.said = (self.said + more).split(b"\n")
        return [line.decode(errors="replace") for line in lines] if more else [""]


class Soak:
    def __init__(self, arguments):
        self.arguments, self.random = arguments, random.Random(arguments.seed)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shmarray-soak-", dir="/dev/shm"))
        self.environment = os.environ | {"SHMARRAY_DIR": str(self.directory)}
        self.live, self.counts, self.killed = {}, collections.Counter(), collections.Counter()
        self.faults = []

    def start(self):
        program = Program(self.random.randrange(2**31), self.environment)
        self.live[program.pid] = program

    def listen(self, seconds):
        ends = {program.started.stdout: program for program in self.live.values()}
        for end in select.select(list(ends), [], [], seconds)[0]:
            for line in ends[end].lines():
                what, _, rest = line.partition(" ")
                if what in ("checked", "moved"):
                    self.counts[what] += int(rest)
                elif line:
                    self.faults.append(line)

    def reap(self):
        """Reaps the programs that ended, and workers whose program was killed."""
        for pid, status in processes.ended_children():
            program = self.live.pop(pid, None)
            if program:
                program.started.returncode = status
                program.started.stdin.close()
                program.started.stdout.close()
                if os.waitstatus_to_exitcode(status) not in (0, -signal.SIGKILL):
                    self.faults.append(f"the program {pid} ended with {status}")

    def kill_somebody(self):
        program = self.random.choice(list(self.live.values()))
        choice = self.random.random()
        workers = processes.below(program.pid)
        if not workers:
            return  # it begins
        if choice < 0.7:
            self.kill("a worker", [self.random.choice(workers)])
        elif choice < 0.85:
            self.kill("a program", [program.pid])
        else:
            self.kill("with its workers", [program.pid, *workers])

    def kill(self, whom, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[whom] += 1

    def run(self):
        began = progress = time.monotonic()
        until = began
        while self.killed.total() < self.arguments.kills and not self.faults:
            while len(self.live) < self.arguments.programs:
                self.start()
            checked = self.counts["checked"]
            self.listen(0.005)
            self.reap()
            if self.counts["checked"] > checked:
                progress = time.monotonic()
            elif time.monotonic() > progress + PATIENCE_S:
                self.faults.append(f"nobody works: {dict(self.counts)}")
            if time.monotonic() > until and self.counts["checked"] > self.killed.total():
                until = time.monotonic() + self.random.expovariate(1 / self.arguments.pause)
                self.kill_somebody()
        self.seconds = time.monotonic() - began
        self.stop()

    def stop(self):
        """Has the programs end, and waits for the workers of those that were killed."""
        patience = time.monotonic() + PATIENCE_S
        for program in self.live.values():
            program.started.stdin.close()
        while processes.below(os.getpid()) and time.monotonic() < patience:
            self.listen(0.05)
            self.reap()
        if left := processes.under(os.getpid())[1:]:
            self.faults.append(f"still there: {left}")
            for pid in processes.below(os.getpid()):
                os.kill(pid, signal.SIGKILL)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--programs", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.05, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    born = Soak(parser.parse_args())
    processes.adopt_orphans()
    born.run()
    files, size = soak.left(born.directory, born.environment)
    wrong = sum("wrong" in fault for fault in born.faults)
    print(f"seed {born.arguments.seed}, {born.seconds:.0f} s, killed: {dict(born.killed)}")
    print(f"arrays checked {born.counts['checked']}, moved {born.counts['moved']} at the least")
    print(f"wrong {wrong}, leaked segments {files}, leaked bytes {size}")
    print("\n".join(born.faults[:20]))
    checks = {
        "so many kills": born.killed.total() >= born.arguments.kills,
        "arrays were moved": born.counts["moved"] > 0,
        "no faults": not born.faults,
        "no segments leaked": files == 0,
        "no bytes leaked": size == 0,
    }
    shutil.rmtree(born.directory, ignore_errors=True)
    outcomes = ((name, "passed" if holds else "failed") for name, holds in checks.items())
    sys.exit(junit.close("soak, born shared", outcomes))


if __name__ == "__main__":
    main()
