"""Two containers share one memory directory: other users, other pids, limits of their own.

A container here is a process in new namespaces of pids, mounts, IPC, host names and network, in a
group of its own with a limit of memory. It reaches the directory, and nothing else in common.
"""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

MIB = 1 << 20
GROUPS = pathlib.Path("/sys/fs/cgroup")
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--ipc", "--uts", "--net"]
# Imports as root, since another user may not read the interpreter's folders.
SERVES = """
import json, multiprocessing.connection, multiprocessing.util, os, sys
import numpy as np, shmarray
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
for line in sys.stdin:
    try:
        exec(json.loads(line))
    except Exception as error:
        answer = type(error).__name__
    print(json.dumps(answer), flush=True)
"""


class Container:
    def __init__(self, directory, uid, group=None):
        join = f"echo $$ > {group}/cgroup.procs && " if group else ""
        serves = [sys.executable, "-W", "error", "-c", SERVES, str(uid)]
        self.process = subprocess.Popen(
            ["sh", "-c", f'{join}exec "$@"', "sh", *NAMESPACES, *serves],
            env=os.environ | {"SHMARRAY_DIR": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if group else None,
            text=True,
        )

    def run(self, code, **values):
        lines = [f"{name} = {value!r}" for name, value in values.items()]
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps("\n".join([*lines, code])), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        return json.loads(line) if line else "killed"

    def kill(self):
        """Kills it as a container is killed: the first process of its namespace of pids."""
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        (first,) = pathlib.Path(children).read_text().split()
        os.kill(int(first), signal.SIGKILL)
        self.end()

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def directory():
    """A file system in memory, as a volume that two containers of a pod mount."""
    if os.geteuid() != 0:
        pytest.skip("only root can make namespaces for other users")
    place = pathlib.Path(tempfile.mkdtemp(prefix="shmarray-volume-"))
    options = ["mount", "-t", "tmpfs", "-o", "mode=1777,size=512m", "tmpfs", str(place)]
    done = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True)
    done = done if done.returncode else subprocess.run(options, capture_output=True, text=True)
    if done.returncode:
        place.rmdir()
        pytest.skip(f"no namespaces or mounts here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def group():
    """Makes groups of processes with a limit of memory, of either version of control groups."""
    made = []

    def make(limit_bytes):
        first, limit = GROUPS / "memory", "memory.limit_in_bytes"
        if not first.is_dir():
            first, limit = GROUPS, "memory.max"
        place = first / f"shmarray-test-{os.getpid()}-{len(made)}"
        try:
            place.mkdir()
            made.append(place)
            (place / limit).write_text(str(limit_bytes))
        except OSError as error:
            pytest.skip(f"no group with a limit of memory can be made here: {error}")
        return place

    yield make
    for place in made:
        place.rmdir()


@pytest.fixture
def container(directory, group):  # noqa: ARG001 (groups outlive the containers in them)
    """Starts containers; they end with the test."""
    started = []

    def start(uid, group=None):
        started.append(Container(directory, uid, group))
        return started[-1]

    yield start
    for each in started:
        each.end()


def test_containers_of_one_user_have_the_same_arrays_by_handle_and_name(container):
    maker, reader = container(1001), container(1001)
    text = maker.run("a = shmarray.ones(3, name='shared'); answer = str(shmarray.handle(a))")
    assert maker.run("answer = os.getpid()") == reader.run("answer = os.getpid()") == 1
    assert (
        reader.run("b = shmarray.attach(text); b += 1; answer = b.tolist()", text=text) == [2] * 3
    )
    assert reader.run("answer = shmarray.attach('shared').tolist()") == [2] * 3
    assert maker.run("answer = a.tolist()") == [2] * 3


def test_another_user_reads_what_was_made_for_others_and_nothing_else(container):
    maker, reader = container(1001), container(1002)
    maker.run("made = []; answer = None")
    make = "made.append(shmarray.ones(3, mode={})); answer = str(shmarray.handle(made[-1]))"
    private, readable, writable = (maker.run(make.format(m)) for m in ("0o600", "0o644", "0o666"))
    attach = "b = shmarray.attach(text, readonly={}); answer = b.tolist()"
    assert reader.run(attach.format(True), text=private) == "PermissionError"
    assert reader.run(attach.format(True), text=readable) == [1] * 3
    assert reader.run(attach.format(False), text=readable) == "PermissionError"
    assert reader.run(attach.format(False), text=writable) == [1] * 3


def test_a_broadcast_goes_to_another_user(container):
    maker, reader = container(1001), container(1002)
    create = (
        "c = shmarray.Channel.create('frames', 3, 'f8', mode='broadcast', file_mode=0o644); "
        "answer = str(c.handle)"
    )
    text = maker.run(create)
    assert reader.run("r = shmarray.Channel.open(text); answer = r.name", text=text) == "frames"
    maker.run("c.send(np.arange(3.0)); answer = None")
    receive = "with r.receive(timeout=60) as frame: answer = frame.tolist()"
    assert reader.run(receive) == [0, 1, 2]


def test_what_a_killed_container_held_is_freed_by_the_other_one(container):
    maker, reader = container(1001), container(1001)
    text = maker.run("a = shmarray.ones(1_000_000); answer = str(shmarray.handle(a))")
    assert reader.run("b = shmarray.attach(text); answer = b[-1]", text=text) == 1
    maker.run("more = shmarray.ones(2_000_000); answer = None")
    maker.kill()
    assert reader.run("shmarray.sweep(); answer = b[-1], len(shmarray.segments())") == [1, 1]
    reader.kill()
    last = container(1001)
    assert last.run("shmarray.sweep(); answer = shmarray.segments()") == []


def test_memory_counts_in_the_container_that_wrote_it(container, group):
    """A reader with a small limit reads what is larger than the limit."""
    maker, reader = container(1001), container(1001, group(120 * MIB))
    text = maker.run(f"a = shmarray.ones({200 * MIB}, 'u1'); answer = str(shmarray.handle(a))")
    read = "b = shmarray.attach(text, readonly=True); answer = int(b.sum())"
    assert reader.run(read, text=text) == 200 * MIB


def test_the_kernel_ends_a_container_that_writes_more_than_its_limit(container, group):
    small, other = container(1001, group(120 * MIB)), container(1001)
    assert other.run("answer = shmarray.ones(3).tolist()") == [1] * 3
    assert small.run(f"a = shmarray.ones({200 * MIB}, 'u1'); answer = int(a.sum())") == "killed"
    assert other.run("shmarray.sweep(); answer = shmarray.segments()") == []
