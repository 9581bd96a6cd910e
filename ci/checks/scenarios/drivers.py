"""The drivers of all languages as processes, which answer one command a line."""

import itertools
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile

CHECKS = pathlib.Path(__file__).resolve().parent.parent
SOURCES = CHECKS / "drivers"
BUILT = CHECKS.parent.parent / "target/ci/drivers"
sys.path.append(str(CHECKS / "runner"))
import junit  # noqa: E402, F401 (of a folder that is no package)
import processes  # noqa: E402, F401

COMMANDS = {
    "rust": [BUILT / "rust"],
    "musl": [BUILT / "musl"],  # Rust again, over another C library
    "c": [BUILT / "c"],
    "cpp": [BUILT / "cpp"],
    "python": [sys.executable, "-W", "ignore::DeprecationWarning", SOURCES / "driver.py"],
    "ruby": ["ruby", SOURCES / "driver.rb"],
    "numo": ["ruby", SOURCES / "driver_numo.rb"],
}
NUMO_ABSENT = "neither numo-narray nor numo-narray-alt is installed, and no gem source answers"


def has_numo():
    asked = ["ruby", "-e", "require 'numo/narray'"]
    return subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode == 0


class EndedError(Exception):
    """The driver has ended in place of an answer."""


class Process:
    """A process that runs a driver."""

    numbers = itertools.count()

    def __init__(self, name, pid, stdin, stdout, fifos, errors):
        self.name, self.pid, self.errors = name, pid, errors
        self.stdin, self.stdout, self.fifos, self.buffer = stdin, stdout, fifos, b""
        self.exit_status = self.ended_as = None

    @classmethod
    def start(cls, name, fifos, environment=None, **options):
        """Starts a driver as a program. `fifos` is the folder of those of the processes that it
        forks.
        """
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        started = subprocess.Popen(
            list(map(str, COMMANDS[name])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment,
            bufsize=0,
            **options,
        )
        started.returncode = 0  # this class waits for it
        stdin, stdout = (os.dup(end.fileno()) for end in (started.stdin, started.stdout))
        started.stdin.close()
        started.stdout.close()
        return cls(name, started.pid, stdin, stdout, fifos, errors)

    def write(self, *lines):
        os.write(self.stdin, "".join(f"{line}\n" for line in lines).encode("utf-8"))

    def read(self):
        """Returns the next line of the driver; raises EndedError if it has ended."""
        while b"\n" not in self.buffer:
            select.select([self.stdout], [], [])
            more = os.read(self.stdout, 1 << 16)
            if not more:
                raise EndedError(f"{self.name} has ended: {self.said_on_stderr()}")
            self.buffer += more
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line.decode("utf-8", "surrogateescape")

    def ask(self, *lines):
        """Returns the answer of the last of these commands; all others must succeed."""
        for line in lines[:-1]:
            self.do(line)
        try:
            self.write(lines[-1])
        except BrokenPipeError:
            raise EndedError(f"{self.name} has ended: {self.said_on_stderr()}") from None
        return self.read()

    def do(self, *lines):
        """Runs commands that succeed. Returns what the last answers after its `ok`."""
        for line in lines:
            answer = self.ask(line)
            assert answer.split(" ", 1)[0] == "ok", f"{self.name}: {line}: {answer}"
        return answer[3:]

    def fork(self):
        """Returns a child of this process, which has what this one holds."""
        ends = [self.fifos / f"{next(self.numbers)}.{end}" for end in ("in", "out")]
        for end in ends:
            os.mkfifo(end, 0o666)
        # This end can write at once, and its reader sees the end when it closes.
        stdin = os.open(ends[0], os.O_RDWR | os.O_CLOEXEC)
        stdout = os.open(ends[1], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        child = Process(self.name, 0, stdin, stdout, self.fifos, self.errors)
        self.do(f"fork {ends[0]} {ends[1]}")
        child.pid = int(child.read().removeprefix("ok "))
        for end in ends:
            end.unlink()
        return child

    def status(self):
        """Waits for the end and returns the exit status, negative for a signal."""
        if self.exit_status is None:
            self.exit_status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.stdin)
            os.close(self.stdout)
        return self.exit_status

    def end(self, how):
        self.ended_as = how
        self.write(f"end {how}")
        return self.status()

    def kill(self, number=signal.SIGKILL):
        self.ended_as = signal.Signals(number).name
        os.kill(self.pid, number)
        return self.status()

    def leave(self):
        """Lets it end in the ordinary way: its input ends. Returns its status."""
        if self.exit_status is None:
            os.close(self.stdin)
            self.exit_status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.stdout)
        return self.exit_status

    def said_on_stderr(self, start=0):
        """What this process and those that it forks have written there, from this byte on."""
        return os.pread(self.errors.fileno(), 1 << 20, start).decode(errors="replace")

    def stderr_bytes(self):
        return os.fstat(self.errors.fileno()).st_size
