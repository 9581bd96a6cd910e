"""Dask on two hosts, for two users, in full memory, and when any part of a cluster is killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import dask
import pytest

import shmarray
from dask_hosts_program import sums
from processes import Life
from working import files_in, sweep_after_deaths, until

HERE = Path(__file__).parent
HOSTS = HERE / "dask_hosts_program.py"
DEATHS = HERE / "dask_deaths_program.py"
NOBODY = 65534
SCHEDULER = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--dashboard-address", ":0"]
WORKER = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard", "--nthreads", "1"]
PRELOAD = ["--preload", "shmarray.dask"]


@pytest.fixture(scope="module")
def expected():
    with dask.config.set(scheduler="synchronous"):
        return sums()


@pytest.fixture
def start(tmp_path):
    """Starts programs with their output in files, and ends them."""
    started = []
    own = {
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "DASK_DISTRIBUTED__SHMARRAY__MIN_SIZE": "64 KiB",
        "DASK_TEMPORARY_DIRECTORY": str(tmp_path),
    }

    def start(*command, **changed):
        said = open(tmp_path / f"said-{len(started)}", "w+")  # noqa: SIM115 (closed below)
        process = subprocess.Popen(
            [str(part) for part in command],
            env={**os.environ, **own, **changed},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        process.said = Path(said.name)
        started.append((process, said))
        return process

    yield start
    for process, said in reversed(started):
        process.kill()
        process.wait()
        said.close()


def wait_for(process, text):
    """Waits until a program has said something. Returns the line."""

    def is_said():
        assert process.poll() is None, process.said.read_text()
        return text in process.said.read_text()

    until(is_said)
    return next(line for line in process.said.read_text().splitlines() if text in line)


def start_scheduler(start, *prefix, host="127.0.0.1", **environment):
    """Returns a scheduler and its address."""
    scheduler = start(*prefix, *SCHEDULER, "--host", host, "--port", "0", *PRELOAD, **environment)
    line = wait_for(scheduler, "Scheduler at:")
    return scheduler, line.rpartition("Scheduler at:")[2].strip()


def run_client(start, address, workers, *prefix, **environment):
    """Runs the program. Returns what it prints."""
    client = start(*prefix, sys.executable, HOSTS, address, workers, **environment)
    client.wait()
    lines = client.said.read_text().splitlines()
    assert client.returncode == 0, "\n".join(lines[-30:])
    return json.loads(lines[-1])


def end(processes):
    for process in processes:
        process.wait()


class Namespaces:
    """Two hosts: networks that a cable joins, and mounts with a /dev/shm each."""

    ADDRESSES = ("10.77.31.1", "10.77.31.2")

    def __init__(self):
        self._inits = []

    def open(self):
        for _ in self.ADDRESSES:
            init = subprocess.Popen(
                ["unshare", "--net", "--mount", "sh", "-c", "echo; exec sleep infinity"],
                stdout=subprocess.PIPE,
            )
            self._inits.append(init)
            if not init.stdout.readline():
                return False
        one, other = (init.pid for init in self._inits)
        cable = f"ip link add shma0 netns {one} type veth peer name shma0 netns {other}"
        return self._run(cable.split()) and all(map(self._equip, range(2)))

    def _equip(self, number):
        address = f"{self.ADDRESSES[number]}/24"
        return all(
            self._run([*self.inside(number), *command.split()])
            for command in (
                "mount -t tmpfs -o size=1g tmpfs /dev/shm",
                "ip link set lo up",
                f"ip addr add {address} dev shma0",
                "ip link set shma0 up",
            )
        )

    def _run(self, command):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.said = done.stderr
        return done.returncode == 0

    def inside(self, number):
        """Returns the words that run a command on a host."""
        return ["nsenter", "-t", str(self._inits[number].pid), "--net", "--mount"]

    def shared_memory(self, number):
        """Returns the files in a host's shared memory."""
        return files_in(f"/proc/{self._inits[number].pid}/root/dev/shm")

    def close(self):
        for init in self._inits:
            init.kill()
            init.wait()
            init.stdout.close()


@pytest.fixture
def hosts():
    namespaces = Namespaces()
    try:
        try:
            if not namespaces.open():
                pytest.skip(f"no namespaces of network and mounts: {namespaces.said.strip()}")
        except FileNotFoundError as error:
            pytest.skip(f"no namespaces of network and mounts: {error}")
        yield namespaces
    finally:
        namespaces.close()


def cluster_of_two_hosts(start, hosts, preload):
    """Starts a scheduler on the first host and two workers on each. Returns them, and its
    address.
    """
    environment = {"SHMARRAY_DIR": "/dev/shm"}
    scheduler, address = start_scheduler(
        start, *hosts.inside(0), host=hosts.ADDRESSES[0], **environment
    )
    workers = [
        start(
            *hosts.inside(number),
            *WORKER,
            address,
            "--host",
            hosts.ADDRESSES[number],
            *preload,
            **environment,
        )
        for number in (0, 0, 1, 1)
    ]
    return [scheduler, *workers], address


def test_two_hosts_exchange_bytes_and_each_of_them_handles(hosts, start, expected):
    processes, address = cluster_of_two_hosts(start, hosts, PRELOAD)
    outcome = run_client(start, address, 4, *hosts.inside(0), SHMARRAY_DIR="/dev/shm")
    assert outcome["moves"] == {"within": ["handle"], "between": ["wire"]}
    assert outcome["sums"] == pytest.approx(expected, rel=1e-12)
    assert min(outcome["handle"], outcome["wire"]) > 0
    assert outcome["no_room"] == 0
    end(processes)
    assert [hosts.shared_memory(number) for number in range(2)] == [[], []]


def test_two_hosts_without_shmarray_have_the_same_results(hosts, start, expected):
    processes, address = cluster_of_two_hosts(start, hosts, [])
    outcome = run_client(start, address, 4, *hosts.inside(0), SHMARRAY_DIR="/dev/shm")
    assert outcome["moves"] == {"within": ["wire"], "between": ["wire"]}
    assert outcome["sums"] == pytest.approx(expected, rel=1e-12)
    assert (outcome["handle"], outcome["wire"]) == (0, 0)
    end(processes)


AS_NOBODY = f"""
import os, sys
import dask_tasks, dask.array, xarray, pandas, scipy, shmarray.dask
import distributed.cli.dask_worker as program, distributed.http.worker, distributed.preloading
import distributed.dashboard, numpy.random, cloudpickle, click, psutil, encodings.idna
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
os.environ["HOME"] = "/"
program.main(sys.argv[1:])
"""


def test_a_worker_of_another_user_gets_bytes(directory, start, tmp_path, expected):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    directory.chmod(0o1777)
    folder = tmp_path / "of-nobody"
    folder.mkdir()
    for parent in (folder, *folder.parents[:-1]):
        if parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o777)
    scheduler, address = start_scheduler(start)
    own = start(*WORKER, address, *PRELOAD)
    options = ["--no-nanny", "--local-directory", folder, "--no-dashboard", "--nthreads", "1"]
    other = start(sys.executable, "-c", AS_NOBODY, address, *PRELOAD, *options)
    outcome = run_client(start, address, 2)
    assert outcome["moves"] == {"within": ["wire"]}
    assert outcome["sums"] == pytest.approx(expected, rel=1e-12)
    assert (outcome["handle"], outcome["wire"] > 0) == (0, True)
    end([scheduler, own, other])


def test_a_cluster_in_full_shared_memory_has_the_same_results(small_tmpfs, start, expected):
    place = small_tmpfs("size=300k")
    scheduler, address = start_scheduler(start)
    workers = [start(*WORKER, address, *PRELOAD) for _ in range(2)]
    outcome = run_client(start, address, 2)
    assert outcome["moves"] == {"within": ["wire"]}
    assert outcome["sums"] == pytest.approx(expected, rel=1e-12)
    assert min(outcome["wire"], outcome["no_room"]) > 0
    end([scheduler, *workers])
    shmarray.sweep()
    assert files_in(place) == []


CLIENT = """
import sys
import numpy as np
import dask_tasks as tasks
import shmarray.dask
shmarray.dask.register()
from distributed import Client, wait
client = Client(sys.argv[1])
client.wait_for_workers(2)
scattered = client.scatter(np.ones(1_000_000), broadcast=True)
workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
made = [client.submit(tasks.ones, 1_000_000, workers=[one], pure=False) for one in workers]
print([client.submit(tasks.sums, scattered, *made, workers=[one]).result() for one in workers])
got = client.gather(made)
print("ready", flush=True)
while True:
    arrays = [client.submit(tasks.ones, 500_000, workers=[one], pure=False) for one in workers]
    total = [client.submit(tasks.sums, *arrays, workers=[one], pure=False) for one in workers]
    client.gather(total + arrays)
"""


@pytest.mark.parametrize("victim", ["client", "scheduler", "nanny", "worker", "all"])
def test_whatever_is_killed_nothing_is_left(victim, files, start):
    scheduler, address = start_scheduler(start)
    nannies = [start(*WORKER, address, *PRELOAD) for _ in range(2)]
    client = start(sys.executable, "-c", CLIENT, address)
    wait_for(client, "ready")
    assert files() != []
    children = [child for nanny in nannies for child in workers_of(nanny.pid)]
    lives = [Life(pid) for pid in children]
    victims = {
        "client": [client.pid],
        "scheduler": [scheduler.pid],
        "nanny": [nannies[0].pid],
        "worker": children[:1],
        "all": [client.pid, scheduler.pid, *(nanny.pid for nanny in nannies), *children],
    }[victim]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if victim == "worker":  # its nanny starts another one, and the client's tasks wait for it
        lives[0].wait()
    # The rest is told to end, as an operator would.
    for process in (client, *nannies, scheduler):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    end([client, *nannies, scheduler])
    for life in lives if victim != "worker" else lives[1:]:
        life.wait()
    sweep_after_deaths()
    assert files() == []


def workers_of(nanny):
    """Returns the pids of a nanny's worker. A thread of the nanny has started it."""
    tasks = Path(f"/proc/{nanny}/task").iterdir()
    children = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
    found = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert found, children
    return found


@pytest.mark.parametrize("count", [1_000, 10_000])
def test_a_cluster_lives_on_while_its_workers_are_killed(count, start, files):
    program = start(sys.executable, DEATHS, count, 7)
    program.wait()
    said = program.said.read_text().splitlines()
    assert program.returncode == 0, "\n".join(said[-30:])
    killed, done = map(int, said[-1].split())
    assert killed >= count // 500
    assert done >= count
    sweep_after_deaths()
    assert files() == []
