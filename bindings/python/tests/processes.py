"""Other processes: their ends, code that they run, and Ctrl-C."""

import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

WATCHDOG_SECONDS = 120
PEERS = Path(__file__).with_name("peers_program.py")


def run_forked(body, *arguments):
    """Runs `body` in a child, where a bus error ends nothing else. Its exceptions go to stderr."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body(*arguments)
            gc.collect()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Life:
    """A process that need not be our child, to wait for its end. Create this while it lives."""

    def __init__(self, pid):
        self.pid = pid
        self.fd = os.pidfd_open(pid)

    def has_ended(self):
        return bool(select.select([self.fd], [], [], 0)[0])

    def wait(self):
        """Waits until it has ended and the kernel has reclaimed its resources."""
        select.select([self.fd], [], [])
        os.close(self.fd)


class Peers:
    """The program that forks the other processes."""

    def __init__(self):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.program = subprocess.Popen(
                [sys.executable, "-W", "error", PEERS, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def ask(self, request, fds=()):
        socket.send_fds(self.control, [json.dumps(request).encode()], fds)
        answer = self.control.recv(100)
        assert answer, "the program that forks other processes has ended"
        return json.loads(answer)

    def end(self):
        self.control.close()
        self.program.wait()


@functools.cache
def peers():
    return Peers()


class Peer:
    """Another process, which runs code and answers with what that sets `answer` to."""

    def __init__(self):
        theirs = []
        self.stdin, self.stdout, self.stderr = self._pipes(theirs)
        self.pid = peers().ask(dict(os.environ), theirs)
        self.status = None
        for fd in theirs:
            os.close(fd)

    @staticmethod
    def _pipes(theirs):
        """Yields our ends of its standard files."""
        for mode in "wrr":
            reader, writer = os.pipe()
            ours, other = (writer, reader) if mode == "w" else (reader, writer)
            theirs.append(other)
            yield open(ours, mode)  # noqa: SIM115 (closed at its end)

    def run(self, code, **values):
        """Runs code with these values as its variables."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        print(json.dumps("\n".join([*lines, code])), file=self.stdin, flush=True)
        answer = self.stdout.readline()
        assert answer, f"the other process died: {self.stderr.read()}"
        return json.loads(answer)

    def leave(self):
        """Lets it exit, and checks that it does so quietly."""
        status, errors = self._end()
        assert (status, errors) == (0, ""), errors

    def kill(self):
        """Kills it by SIGKILL, and waits until the kernel has reclaimed its resources."""
        os.kill(self.pid, signal.SIGKILL)
        self._end()

    def _end(self):
        """Waits for its end. Returns its exit status, and what it wrote to stderr."""
        self.stdin.close()
        errors = self.stderr.read()
        self.status = peers().ask(self.pid)
        self.stdout.close()
        self.stderr.close()
        return self.status, errors


def python(code, *arguments):
    """Returns the command that runs a program, a text or a file."""
    program = [code] if isinstance(code, Path) else ["-c", code]
    return [sys.executable, "-W", "error", *program, *map(str, arguments)]


class Program:
    """A whole program in another process, which may fork. It and its children print lines of
    JSON.
    """

    def __init__(self, code, *arguments, **options):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(python(code, *arguments), bufsize=0, **pipes, **options)

    def hear(self):
        """Returns the next line that one of them prints."""
        line = self.process.stdout.readline()
        assert line, f"they have ended: {self.said_on_stderr()}"
        return json.loads(line)

    def go(self):
        """Lets one of those go on that wait for a byte."""
        self.process.stdin.write(b".")

    def status(self):
        """Returns the exit status of the first of them, which has ended or is about to."""
        return self.process.wait()

    def said_on_stderr(self):
        self.errors.seek(0)
        return self.errors.read().decode()

    def close(self):
        """Ends them: they no longer wait."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def started(code, *arguments):
    """Starts a program. It and those that it starts are a group of their own."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(python(code, *arguments), text=True, start_new_session=True, **pipes)


def end_of(program, what):
    """Returns how it ended, and its output. One that hangs is killed with its children."""
    try:
        said, errors = program.communicate(timeout=WATCHDOG_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        said, errors = program.communicate()
        pytest.fail(f"the watchdog waited {WATCHDOG_SECONDS} s for {what}: {said} {errors}")
    return program.returncode, said, errors


def run_to_the_end(code, *arguments):
    """Runs a program, which must succeed and be quiet."""
    status, said, errors = end_of(started(code, *arguments), code)
    assert (status, said + errors) == (0, ""), said + errors


def interrupt(program):
    """Ctrl-C, again when that came where nobody notices it:

    between a look for signals and a wait.
    """
    for _ in range(WATCHDOG_SECONDS // 10):
        os.killpg(program.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert program.wait(10) != 0
            break
    end_of(program, "the end of a program after Ctrl-C")


# Ctrl-C once: a signal that is sent again is ignored, also while the interpreter ends, which sets a
# handler in Python back to the system's. It is also for a program begun with SIGINT ignored.
INTERRUPTED_ONCE = """
import signal

def interrupt_once(number, frame):
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt_once)
"""


def interrupted(code, *arguments):
    """Sends Ctrl-C to a program that waits. Returns its output after "waiting" and how it ended."""
    child = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED_ONCE + code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout.readline() == "waiting\n"
    while child.poll() is None:  # a signal between the line and the wait may be missed
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
    return child.communicate()[0], child.returncode
