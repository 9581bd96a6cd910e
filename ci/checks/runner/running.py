"""Runs one suite: starts it afresh, watches it, counts its tests, and prints its line.

A suite fails if its command fails, if a test in it fails, or if it ran no test. No suite has a time
limit, since a slow machine is no failure. If a suite prints nothing for long, the watch shows what
its processes do. If none of them has run or used the processor for long, the suite is stuck: it is
shown, killed, and has failed.
"""

import contextlib
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import threading
import time

import launch
import processes
from counting import Count

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
LOGS = ROOT / "target/ci/logs"
LOOK_SECONDS = 20
SILENT_LOOKS = 30
STUCK_LOOKS = 45
# A suite that only polls now and then uses less processor time than this in STUCK_LOOKS.
IDLE_SECONDS = 1
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
one_speaks = threading.Lock()


class Watch:
    """Notices when a suite stays silent, and when it is stuck."""

    def __init__(self, name, pid, log):
        self.name = name
        self.pid = pid
        self.log = log
        self.ticks = self.size = self.silent = self.still = 0

    def look(self):
        """Prints what a silent suite does. Returns whether the suite is stuck."""
        ticks, runs = processes.used(self.pid)
        size = self.log.stat().st_size
        self.silent = 0 if size != self.size else self.silent + 1
        works = (
            runs or size != self.size or abs(ticks - self.ticks) > IDLE_SECONDS * TICKS_PER_SECOND
        )
        self.still = 0 if works else self.still + 1
        self.size, self.ticks = size, ticks if works else self.ticks
        stuck = self.still >= STUCK_LOOKS
        if stuck or self.silent and self.silent % SILENT_LOOKS == 0:
            self.say("waits for what does not come, and is killed" if stuck else "is still running")
        return stuck

    def say(self, words):
        last = self.log.read_text(errors="replace").splitlines()[-10:]
        with one_speaks:
            print(
                f"{self.name} {words}:", *processes.under(self.pid), *last, sep="\n  ", flush=True
            )


def expect_children():
    """Prepares for the first suite; to be called in the main thread.

    If this process ignored SIGCHLD, the kernel would forget how its children ended.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    LOGS.mkdir(parents=True, exist_ok=True)


def run(name, command, count, begin_before=float("inf")):
    """Runs a suite to its end, or skips it if that time has passed.

    Returns its count, and (seconds, processor seconds).
    """
    if time.time() > begin_before:
        return Count(skipped=1, reasons=["no time was left to begin it"]), (0, 0)
    log_path = LOGS / (re.sub(r"\W+", "-", name) + ".log")
    began = time.monotonic()
    with open(log_path, "w") as log:
        code, used = ended(*start(command, log), name, log_path)
    text = log_path.read_text(errors="replace")
    counted = count(re.sub(rf"^{launch.LEFT}.*\n", "", text, flags=re.M), code == 0)
    if counted.failed == 0 and code != 0:
        counted.failed = 1  # it ended before it could count
    if counted.passed + counted.failed + len(counted.flaky) == 0:
        counted.failed, text = 1, text + "\nThis suite ran no test.\n"
    seconds = time.monotonic() - began, used
    with one_speaks:
        say(name, counted, seconds, text, log_path)
    return counted, seconds


def start(command, log):
    """Returns the process, and the fd that must stay open while it runs."""
    other_end, lifeline = os.pipe()
    launched = [sys.executable, HERE / "launch.py", str(other_end), *map(str, command)]
    environment = os.environ | {"CARGO_TERM_COLOR": "never"}
    running = subprocess.Popen(
        launched,
        cwd=ROOT,
        stdout=log,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=environment,
        pass_fds=[other_end],
        start_new_session=True,
    )
    os.close(other_end)
    return running, lifeline


def ended(running, lifeline, name, log_path):
    """Waits for the end of a suite's process.

    Returns its exit code, and the seconds of processor time of the process and its descendants.
    """
    watch = Watch(name, running.pid, log_path)
    fd = os.pidfd_open(running.pid)
    with contextlib.closing(select.epoll()) as ending:
        ending.register(fd, select.EPOLLIN)
        while not ending.poll(LOOK_SECONDS):
            if watch.look():
                break
    os.close(fd)
    os.close(lifeline)
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    return running.returncode, usage.ru_utime + usage.ru_stime


def say(name, counted, seconds, text, log_path):
    counts = f"{counted.passed:6} passed {counted.failed:4} failed {counted.skipped:4} skipped"
    counts += f" {len(counted.flaky):4} flaky" if counted.flaky else ""
    print(f"{name:44} {counts} {seconds[0]:6.0f} s {seconds[1]:6.0f} s of processors", flush=True)
    if counted.failed:
        print("\n".join(text.splitlines()[-60:]))
        print(f"The whole output is in {os.path.relpath(log_path, ROOT)}.", flush=True)
