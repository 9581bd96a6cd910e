"""A SHMARRAY_DIR of its own for each test, empty again at its end, and other processes."""

import gc
import signal
import subprocess
import sys
import threading

import pytest

from processes import Peer, Program, peers, python
from working import files_in, own_directory


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


def pytest_unconfigure():
    if peers.cache_info().currsize:
        peers().end()


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
    with own_directory(monkeypatch) as path:
        yield path


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


@pytest.fixture
def peer():
    """Another process."""
    other = Peer()
    yield other
    if other.status is None:
        other.leave()


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
    """Runs a whole program, a text or a file, in another process and returns its output. It must be
    quiet.
    """

    def run(code, *arguments):
        done = subprocess.run(python(code, *arguments), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return run


@pytest.fixture
def run_file(tmp_path, run_python):
    """Runs a text as a file, which the processes that it starts can import."""

    def run(code, *arguments):
        program = tmp_path / "program.py"
        program.write_text(code)
        return run_python(program, *arguments)

    return run


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
