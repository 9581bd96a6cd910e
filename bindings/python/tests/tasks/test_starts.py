"""Starts: multiprocessing's three methods, exec, spawned programs, daemons.

Handles and forks hold; exec lets go.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import shmarray
from processes import Life
from working import METHODS

PROGRAM = Path(__file__).with_name("multiprocessing_program.py")


@pytest.fixture(params=METHODS)
def under(request, run_python):
    """Runs a scenario of multiprocessing_program.py under a start method."""
    return lambda scenario: json.loads(run_python(PROGRAM, request.param, scenario))


def test_a_worker_changes_what_its_starter_holds(under, files):
    assert under("in_place") == [0, [[0, 1, 2, 3], [8, 5, 12, 7], [16, 9, 20, 11]]]
    assert files() == []


def test_an_array_of_a_worker_outlives_it_with_its_starter(under, files):
    assert under("handed_back") == [0, 0, True]
    assert files() == []


def test_memory_that_only_a_killed_worker_held_is_given_back(under, files):
    assert under("killed") == [-9, 3, [50, 3]]
    assert files() == []


def test_a_terminated_pool_leaves_nothing(under, files):
    assert under("pool") == [False, True, list(range(10))]
    shmarray.sweep()
    assert files() == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ending", ["killed", "os._exit"])
def test_a_worker_holds_on_when_its_starter_is_gone(method, ending, tmp_path, files):
    question = tmp_path / "question"
    answer = tmp_path / "answer"
    os.mkfifo(question)
    os.mkfifo(answer)
    command = [
        sys.executable,
        "-W",
        "error",
        PROGRAM,
        method,
        "starter_first",
        question,
        answer,
        ending,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as starter:
        worker = Life(int(starter.stdout.readline()))
        starter.stdin.close()
        assert starter.wait() == {"killed": -9, "os._exit": 0}[ending]
        assert shmarray.sweep().segments == 0
        question.write_text("50")
        assert json.loads(answer.read_text()) == [[0, 1, 2], [3, 4, 50]]
        worker.wait()
    shmarray.sweep()
    assert files() == []


def dup_and_exec(fds, _options):
    child = os.fork()
    if child == 0:
        os.dup2(fds[0], 0)
        os.dup2(fds[1], 1)
        os.execvp("cat", ["cat"])
    return child


def posix_spawned(fds, _options):
    actions = [(os.POSIX_SPAWN_DUP2, fds[end], end) for end in (0, 1)]
    return os.posix_spawnp("cat", ["cat"], os.environ, file_actions=actions)


def by_subprocess(fds, options):
    return subprocess.Popen(["cat"], stdin=fds[0], stdout=fds[1], **options)


STARTS = {
    "subprocess": (by_subprocess, {}),
    "subprocess with every fd": (by_subprocess, {"close_fds": False}),
    "subprocess with a function before exec": (by_subprocess, {"preexec_fn": lambda: None}),
    "subprocess in a new session": (by_subprocess, {"start_new_session": True}),
    "posix_spawn": (posix_spawned, {}),
    "fork and exec": (dup_and_exec, {}),
}


@pytest.mark.parametrize(("start", "options"), STARTS.values(), ids=STARTS)
def test_a_started_program_holds_nothing_and_takes_nothing(start, options, files):
    a = shmarray.array(np.arange(5))
    before = files()
    (theirs_in, ours_out) = os.pipe()
    (ours_in, theirs_out) = os.pipe()
    program = start((theirs_in, theirs_out), options)
    os.close(theirs_in)
    os.close(theirs_out)
    os.write(ours_out, b"here")
    assert os.read(ours_in, 4) == b"here"  # the new program runs, and the old memory is gone
    assert (shmarray.sweep().segments, files(), a.tolist()) == (0, before, [0, 1, 2, 3, 4])
    del a
    assert files() == []
    os.close(ours_out)
    assert os.read(ours_in, 1) == b""
    os.close(ours_in)
    assert (program.wait() if start is by_subprocess else os.waitpid(program, 0)[1]) == 0


EXECS = """
import json, os, sys
import numpy as np
import shmarray
a = shmarray.array(np.arange(6))
named = shmarray.full(3, 7, name="series")
os.write(1, json.dumps([str(shmarray.handle(a)), str(shmarray.handle(named))]).encode() + b"\\n")
os.read(0, 1)
arguments = ["-W", "error", "-c", sys.argv[1], str(shmarray.handle(a))]
os.execv(sys.executable, [sys.executable, *arguments])
"""
STAYS = "import os; os.write(1, b'true\\n'); os.read(0, 1)"


def test_a_process_that_execs_holds_no_longer_though_it_lives(start_python, files):
    shmarray.sweep()
    program = start_python(EXECS, STAYS)
    texts = program.hear()
    before = files()
    assert (shmarray.sweep().segments, files()) == (0, before)
    program.go()
    assert program.hear() is True
    assert shmarray.sweep().segments > 0
    assert (files(), program.process.poll()) == ([], None)
    for text in texts:
        with pytest.raises(FileNotFoundError):
            shmarray.attach(text)
    program.go()
    assert program.status() == 0


ATTACHES = """
import os, sys
import shmarray
a = shmarray.attach(sys.argv[1])
a += 10
os.write(1, b"true\\n")
os.read(0, 1)
"""


def test_a_handle_goes_through_exec_while_somebody_holds_its_array(start_python, files):
    program = start_python(EXECS, ATTACHES)
    a = shmarray.attach(program.hear()[0])
    program.go()
    assert program.hear() is True
    assert a.tolist() == [10, 11, 12, 13, 14, 15]
    del a
    left = files()
    assert (shmarray.sweep().segments, files()) == (0, left)
    assert left != []  # the new program holds what it attached
    program.go()
    assert program.status() == 0
    assert files() == []


def test_an_exec_that_fails_loses_nothing(run_python, files):
    code = """
import os, shmarray
a = shmarray.full(3, 7)
try:
    os.execv("/there/is/no/such/program", ["program"])
except FileNotFoundError:
    print(shmarray.attach(str(shmarray.handle(a))).tolist(), shmarray.sweep().segments)
"""
    assert run_python(code) == "[7, 7, 7] 0\n"
    assert files() == []


DAEMON = """
import json, os, sys
import shmarray
before = shmarray.full(3, 7, name="before")
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    sys.exit(0)
os.chdir("/")
nothing = os.open(os.devnull, os.O_RDWR)
for standard in range(3):
    os.dup2(nothing, standard)
after = shmarray.full(3, 8)
with open(sys.argv[1], "w") as said:
    handles = [str(shmarray.handle(before)), str(shmarray.handle(after))]
    json.dump([os.getpid(), os.getsid(0), *handles], said)
with open(sys.argv[2]) as heard:
    before[0] = after[0] = int(heard.read())
with open(sys.argv[1], "w") as said:
    json.dump([before.tolist(), after.tolist()], said)
with open(sys.argv[2]) as heard:
    heard.read()
"""


@pytest.mark.parametrize("ending", ["exit", "killed"])
def test_a_daemon_holds_when_its_starters_are_gone_and_gives_back_at_its_end(
    ending, tmp_path, run_python, files
):
    report = tmp_path / "says"
    hears = tmp_path / "hears"
    os.mkfifo(report)
    os.mkfifo(hears)
    run_python(DAEMON, report, hears)  # ends when its starters have
    pid, session, *texts = json.loads(report.read_text())
    daemon = Life(pid)
    assert session not in (pid, os.getsid(0))
    before = files()
    assert (shmarray.sweep().segments, files()) == (0, before)
    assert [shmarray.attach(text).tolist() for text in texts] == [[7] * 3, [8] * 3]
    hears.write_text("9")
    assert json.loads(report.read_text()) == [[9, 7, 7], [9, 8, 8]]
    if ending == "killed":
        os.kill(pid, signal.SIGKILL)
    else:
        hears.write_text("")
    daemon.wait()
    assert (ending, shmarray.sweep().segments > 0) in [("killed", True), ("exit", False)]
    assert files() == []
