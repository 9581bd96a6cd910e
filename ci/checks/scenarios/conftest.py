"""Each scenario runs over every driver, in a SHMARRAY_DIR of its own that is empty at its end."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from drivers import COMMANDS, NUMO_ABSENT, Process, has_numo, processes

# The ways in which a process ends, with its status; some leave the memory to a sweep.
ENDINGS = {"exit": 0, "_exit": 0, "kill": -9, "abort": -6}
# Interpreters write to stderr at an exception and at other signals than SIGKILL.
SILENT = {*ENDINGS, "quick_exit", "SIGKILL"}
RAISED = {"python": 1, "ruby": 1, "numo": 1, "rust": 101, "musl": 101, "cpp": -6}


class Language:
    """A driver that has not used the library, and forks the processes of scenarios."""

    def __init__(self, name, fifos):
        self.name = name
        environment = os.environ | {"SHMARRAY_POOL_BYTES": "0", "SHMARRAY_DIR": "/nowhere"}
        environment.pop("SHMARRAY_FAMILY", None)
        self.nursery = Process.start(name, fifos, environment)

    def endings(self):
        raised = {"raise": RAISED[self.name]} if self.name in RAISED else {}
        return ENDINGS | raised | ({"quick_exit": 0} if self.name == "c" else {})


def pytest_sessionstart():
    """Resets signals as after a login: a job in the background ignores some, and so do drivers."""
    processes.adopt_orphans()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="session", params=COMMANDS)
def language(request):
    if request.param == "numo" and not has_numo():
        pytest.skip(NUMO_ABSENT)
    with tempfile.TemporaryDirectory(prefix="shmarray-fifos-") as fifos:
        fifos = pathlib.Path(fifos)
        fifos.chmod(0o777)
        found = Language(request.param, fifos)
        yield found
        assert found.nursery.leave() == 0


def files_in(path):
    """Returns the files there, without the registry, which stays."""
    return sorted(name for name in os.listdir(path) if not name.startswith("shmarray-registry-"))


@pytest.fixture
def directory():
    """The SHMARRAY_DIR of a scenario, with the mode of /dev/shm. Nothing may be left there."""
    with tempfile.TemporaryDirectory(prefix="shmarray-test-", dir="/dev/shm") as path:
        os.chmod(path, 0o1777)
        yield pathlib.Path(path)
        assert files_in(path) == []


@pytest.fixture
def files(directory):
    return lambda: files_in(directory)


class Scenario:
    """The processes of one scenario."""

    def __init__(self, language, directory):
        self.language, self.name, self.directory = language, language.name, directory
        self.started = []
        self.stderr_bytes = language.nursery.stderr_bytes()
        self.is_silent = True

    def start(self):
        """Starts a process that has not used the library."""
        process = self.language.nursery.fork()
        process.do(f"directory {self.directory}")
        self.started.append(process)
        return process

    def fork(self, parent):
        self.started.append(parent.fork())
        return self.started[-1]

    def endings(self):
        return self.language.endings()

    def sweep(self):
        """Sweeps by a process of its own, and returns how many segments it gave back."""
        sweeper = self.start()
        count = int(sweeper.do("sweep"))
        assert sweeper.end("exit") == 0
        return count

    def swept_after(self, *endings):
        """Asserts that orderly ends leave nothing, and that a sweep gives back all else."""
        if not all(self.is_orderly(how) for how in endings):
            self.sweep()
        assert files_in(self.directory) == []

    def is_orderly(self, how):
        return how == "exit" or (how == "raise" and RAISED[self.name] >= 0)

    def close(self):
        """Ends what lives. Nothing writes to stderr but programs that tell of their own end."""
        for process in self.started:
            assert process.exit_status is not None or process.end("exit") == 0
        if self.is_silent and all(process.ended_as in SILENT for process in self.started):
            assert self.language.nursery.said_on_stderr(self.stderr_bytes) == ""


@pytest.fixture
def scenario(language, directory):
    """Starts processes of the driver; those that live at the end of the test exit."""
    made = Scenario(language, directory)
    yield made
    made.close()


@pytest.fixture
def small(language):
    """Makes scenarios in a small file system, `small("size=4m")`."""
    mounted = []

    def mount(options):
        place = tempfile.mkdtemp(prefix="shmarray-small-")
        command = ["mount", "-t", "tmpfs", "-o", f"mode=1777,{options}", "tmpfs", place]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            os.rmdir(place)
            pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(Scenario(language, pathlib.Path(place)))
        return mounted[-1]

    yield mount
    for made in mounted:
        made.close()
        left = files_in(made.directory)
        subprocess.run(["umount", "--lazy", str(made.directory)], check=True)
        shutil.rmtree(made.directory)
        assert left == []
