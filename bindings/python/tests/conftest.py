"""A SHMARRAY_DIR of its own for each test, empty again at its end, and other processes."""

import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

import pytest

import shmarray

SHARED_MEMORY = Path("/dev/shm")

PEER = """
import gc, json, sys
import numpy as np
import shmarray
space = {"np": np, "shmarray": shmarray, "gc": gc}
for line in sys.stdin:
    exec(json.loads(line), space)
    print(json.dumps(space.pop("answer", None)), flush=True)
"""


def pytest_configure():
    """Resets signals as after a login. `nohup` ignores SIGHUP, and a background job SIGINT; a child
    that is to die of one of them would live.
    """
    for number in signal.valid_signals() - {
        signal.SIGPIPE,
        signal.SIGXFSZ,
    }:  # Python itself ignores it
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(
                number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            )
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def pytest_collection_finish():
    """Freezes the imported objects. They are many and no garbage, and the collector took more time
    for them after each test than the tests did.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def freeze_again():
    """Freezes the objects that a module's tests imported, after a collection of all objects."""
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def directory(monkeypatch):
    """The directory of this test's segments. Anything left there is a failure."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="shmarray-test-", dir=parent) as path:
        monkeypatch.setenv("SHMARRAY_DIR", path)
        monkeypatch.setenv(
            "SHMARRAY_POOL_BYTES", "0"
        )  # each file there is an array; test_warm tests the pool
        monkeypatch.delenv(
            "SHMARRAY_FAMILY", raising=False
        )  # an earlier test may have set it for its children
        yield Path(path)
        standard_server = getattr(
            sys.modules.get("multiprocessing.forkserver"), "_forkserver", None
        )
        if standard_server is not None:
            standard_server._stop()  # it has this test's environment
        gc.collect()
        assert files_in(path) == [], "segments or names were left"


def files_in(path):
    """Returns the files there, without the registry, which stays."""
    return sorted(name for name in os.listdir(path) if not name.startswith("shmarray-registry-"))


def allocated_bytes(directory):
    """Returns the bytes that the files there take, without the registry."""
    return sum((directory / name).stat().st_blocks for name in files_in(directory)) * 512


def listed_arrays():
    """Returns what shmarray lists, without pools and without what the dead left."""
    return [info for info in shmarray.segments() if info.kind == "array"]


@pytest.fixture
def files(directory):
    """Returns what there is in SHMARRAY_DIR now."""
    return lambda: files_in(directory)


@pytest.fixture
def small_tmpfs(tmp_path_factory, monkeypatch):
    """Makes SHMARRAY_DIR a small file system, `small_tmpfs("size=1m,nr_inodes=20")`. Returns its
    path.
    """
    mounted = []

    def mount(options):
        place = tmp_path_factory.mktemp("small")
        command = ["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        monkeypatch.setenv("SHMARRAY_DIR", str(place))
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # a registry stays mapped


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


class Peer:
    """Another process, which runs code and answers with what that sets `answer` to."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PEER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code, **values):
        """Runs code with these values as its variables."""
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        print(json.dumps("\n".join([*lines, code])), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, f"the other process died: {self.process.stderr.read()}"
        return json.loads(answer)

    def leave(self):
        """Lets it exit, and checks that it does so quietly."""
        _, errors = self.process.communicate()
        assert (self.process.returncode, errors) == (0, "")

    def kill(self):
        """Kills it by SIGKILL, and waits until the kernel has reclaimed its resources."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def peer():
    """Another process."""
    other = Peer()
    yield other
    if other.process.poll() is None:
        other.leave()


class Program:
    """A whole program in another process, which may fork. It and its children print lines of
    JSON.
    """

    def __init__(self, code, *arguments, **options):
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed by close)
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, bufsize=0, **pipes, **options)

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


@pytest.fixture
def start_python():
    """Starts a program in another process."""
    started = []

    def start(code, *arguments, **options):
        started.append(Program(code, *arguments, **options))
        return started[-1]

    yield start
    for program in started:
        program.close()


@pytest.fixture
def run_python():
    """Runs a whole program in another process and returns its output. It must be quiet."""

    def run(code, *arguments):
        command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


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


@pytest.fixture
def lets_others_run():
    """Whether other threads of Python run during a call:

    not because they take their turn, but because it lets them.
    """

    def lets(call):
        gate = threading.Lock()
        ran = threading.Event()

        def run():
            with gate:
                ran.set()

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)  # from here on a thread runs only when another one lets it
        gate.acquire()
        thread = threading.Thread(target=run)
        try:
            thread.start()
            gate.release()
            for _ in range(
                5000
            ):  # one call would do if the system always woke the thread meanwhile
                call()
                if ran.is_set():
                    return True
            return False
        finally:
            sys.setswitchinterval(interval)
            thread.join()

    return lets
