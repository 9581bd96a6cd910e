"""Kills producers and consumers as often as asked, and counts faults and leftovers.

    python ci/checks/scenarios/soak.py --kills 300 --workers DIRECTORY [--seed N]

Workers in Python, Ruby and C++ share one pipe. This process keeps both ends open, as a supervisor
with a queue does. Each worker makes arrays of all sizes, sends them, receives and checks arrays of
others, names some, hands some over by files, forks children that go on alone, and holds a few.
Meanwhile this process kills one worker alone, one with its whole tree, or all at once. There are
never more kills than checked arrays, so that a machine on which workers start slowly does not kill
only idle ones. At the end the remaining workers stop by themselves and a fresh process sweeps; then
nothing may be left.

The counts are wrong bytes and other faults (a worker reports them and ends with a status of its
own), hangs (workers that do not stop when told), leaked segments, and leaked bytes. All must be 0.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import random
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CHECKS = pathlib.Path(__file__).resolve().parent.parent
DRIVERS = CHECKS / "drivers"
sys.path.append(str(CHECKS / "runner"))
import junit  # noqa: E402 (of a folder that is no package)
import processes  # noqa: E402

# After so long it hangs: a worker looks many times a second whether it shall stop.
PATIENCE_S = 120
LANGUAGES = ("python", "ruby", "c++")


class Language:
    """A nursery: forks a worker for each line, which this process then adopts."""

    def __init__(self, name, command, soak):
        self.name = name
        self.soak = soak
        self.nursery = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=soak.says_w,
            pass_fds=soak.ends,
            env=soak.environment,
            text=True,
        )

    def start(self, seed):
        self.nursery.stdin.write(f"{seed}\n")
        self.nursery.stdin.flush()


class Soak:
    def __init__(self, arguments):
        self.arguments = arguments
        self.random = random.Random(arguments.seed)
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="shmarray-soak-", dir="/dev/shm"))
        (self.directory / "mail").mkdir()
        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ends = [end.detach() for end in ends]
        says_r, self.says_w = os.pipe()
        self.says = says_r
        self.said = b""
        os.set_blocking(says_r, False)
        # All workers are one family, as children of one launcher are.
        family = str(2**52 + self.random.randrange(1, 2**20) * 2**32)
        self.environment = os.environ | {
            "SHMARRAY_DIR": str(self.directory),
            "SHMARRAY_FAMILY": family,
        }
        self.live = {}
        self.orphans = []
        self.killed = {"alone": 0, "with its tree": 0, "all at once": 0}
        self.kills = self.started = 0
        self.messages = collections.Counter()
        self.arrays = collections.Counter()
        self.faults = []
        self.hangs = 0
        self.most_files = 0
        self.most_bytes = 0

    def languages(self):
        ends = [str(end) for end in self.ends]
        built = pathlib.Path(self.arguments.workers)
        commands = {
            "python": [sys.executable, str(DRIVERS / "worker.py")],
            "ruby": ["ruby", str(DRIVERS / "worker.rb")],
            "c++": [str(built / "worker")],
        }
        return [Language(name, [*commands[name], *ends], self) for name in LANGUAGES]

    def start(self, language):
        self.started += 1
        language.start(self.random.randrange(1, 2**31))

    def listen(self):
        """Reads the workers' lines: `up PID LANGUAGE`, `wrong PID …`, and every few operations
        `did PID LANGUAGE MESSAGES ARRAYS`: how many it received and checked since its last line.
        """
        with contextlib.suppress(BlockingIOError):
            while more := os.read(self.says, 1 << 16):
                self.said += more
        *lines, self.said = self.said.split(b"\n")
        for line in (line.decode(errors="replace") for line in lines):
            word, pid, *rest = line.split()
            if word == "up":
                self.live[int(pid)] = rest[0]
            elif word == "did":
                self.messages[rest[0]] += int(rest[1])
                self.arrays[rest[0]] += int(rest[2])
            else:
                self.faults.append(line)

    def reap(self):
        """Reaps children and orphans. One that ended and was not told to has failed."""
        ended = []
        for pid, status in processes.ended_children():
            how = os.waitstatus_to_exitcode(status)
            if how not in (0, -signal.SIGKILL):
                self.faults.append(f"{self.live.get(pid, 'a child')} {pid} ended with {how}")
            if self.live.pop(pid, None):
                ended.append(pid)
        return ended

    def kill(self, pid, tree):
        try:
            (os.killpg if tree else os.kill)(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.kills += 1
        self.killed["with its tree" if tree else "alone"] += 1
        if not tree:
            self.orphans.append(pid)  # its children go on for a while

    def kill_somebody(self):
        choice = self.random.random()
        pids = sorted(self.live)
        if choice < 0.01:
            for pid in pids:
                self.kill(pid, tree=True)
            self.killed["all at once"] += 1
        else:
            self.kill(self.random.choice(pids), tree=choice < 0.2)
        while len(self.orphans) > 6:
            orphan = self.orphans.pop(self.random.randrange(len(self.orphans)))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(orphan, signal.SIGKILL)
                self.kills += 1

    def measure(self):
        files = [path for path in self.directory.iterdir() if path.is_file()]
        sizes = {}
        for path in files:
            try:
                facts = path.stat()
                sizes[facts.st_ino] = facts.st_blocks * 512
            except FileNotFoundError:
                continue
        self.most_files = max(self.most_files, len(files))
        self.most_bytes = max(self.most_bytes, sum(sizes.values()))

    def run(self):
        languages = self.languages()
        nurseries = {language.nursery.pid for language in languages}
        turn = 0
        for _ in range(self.arguments.processes):
            self.start(languages[turn % 3])
            turn += 1
        began = progress = time.monotonic()
        while self.kills < self.arguments.kills and not self.faults:
            self.wait_for_word(0.02)
            for pid in self.reap():
                if pid in nurseries:
                    self.faults.append("a nursery ended")
                self.start(languages[turn % 3])
                turn += 1
            # Some live for an instant, some for long.
            self.wait_for_word(self.random.expovariate(1 / self.arguments.pause))
            if self.live and self.has_worked():
                self.kill_somebody()
                progress = time.monotonic()
            elif time.monotonic() > progress + PATIENCE_S:
                self.faults.append(f"nobody works: {dict(self.arrays)} arrays checked")
            if turn % 16 == 0:
                self.measure()
        self.seconds = time.monotonic() - began
        self.stop(languages)

    def has_worked(self):
        """Whether the killed workers had work, in each language and on average."""
        return (
            all(self.messages[language] for language in LANGUAGES)
            and self.arrays.total() > self.kills
        )

    def wait_for_word(self, seconds):
        with selectors.DefaultSelector() as selector:
            selector.register(self.says, selectors.EVENT_READ)
            selector.select(seconds)
        self.listen()

    def stop(self, languages):
        (self.directory / "mail/stop").touch()
        for language in languages:
            language.nursery.stdin.close()
        for orphan in self.orphans:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(orphan, signal.SIGKILL)
        patience = time.monotonic() + PATIENCE_S
        while self.has_children() and time.monotonic() < patience:
            self.wait_for_word(0.05)
            self.reap()
        self.listen()
        self.hangs = len(self.live)
        for pid in list(self.live):
            os.killpg(pid, signal.SIGKILL)
        for end in self.ends:
            os.close(end)

    def has_children(self):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
        except ChildProcessError:
            return False

    def left(self):
        """The number of files, and of bytes, that a fresh process could not give back."""
        shutil.rmtree(self.directory / "mail")
        subprocess.run(
            ["shmarray", "sweep"], env=self.environment, check=True, stdout=subprocess.DEVNULL
        )
        files = [
            path
            for path in self.directory.iterdir()
            if not re.fullmatch(r"shmarray-registry-\d+", path.name)
        ]
        sizes = {path.stat().st_ino: path.stat().st_blocks * 512 for path in files}
        return len(files), sum(sizes.values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--workers", required=True, help="the folder with the C++ worker")
    parser.add_argument("--processes", type=int, default=9)
    parser.add_argument("--pause", type=float, default=0.03, help="mean seconds between kills")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    soak = Soak(parser.parse_args())
    processes.adopt_orphans()
    soak.run()
    files, left = soak.left()
    wrong = sum("wrong" in fault for fault in soak.faults)
    print(f"seed {soak.arguments.seed}, {soak.seconds:.0f} s, {soak.started} workers")
    print(f"kills: {soak.killed}")
    work = (
        f"{soak.messages[language]} and {soak.arrays[language]} in {language}"
        for language in LANGUAGES
    )
    print(f"messages received and arrays checked, at the least: {', '.join(work)}")
    print(f"at most {soak.most_files} files and {soak.most_bytes >> 20} MiB at once")
    leaked = f"leaked segments {files}, leaked bytes {left}"
    print(f"kills {soak.kills}, wrong bytes {wrong}, {leaked}, hangs {soak.hangs}")
    print("\n".join(soak.faults[:20]))
    worked = soak.kills >= soak.arguments.kills
    checks = {
        "so many kills": worked,
        "no faults": not soak.faults,
        "no segments leaked": files == 0,
        "no bytes leaked": left == 0,
        "no hangs": soak.hangs == 0,
    }
    shutil.rmtree(soak.directory, ignore_errors=True)
    outcomes = ((name, "passed" if holds else "failed") for name, holds in checks.items())
    sys.exit(junit.close("soak", outcomes))


if __name__ == "__main__":
    main()
