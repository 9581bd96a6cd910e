"""Runs one suite: starts it afresh, watches it, counts its tests, and prints its line.

The programs of a suite leave JUnit files in its folder. A suite fails if its command fails, if a
test in it fails, or if it ran no test. No suite has a time limit, since a slow machine is no
failure. If a suite prints nothing for long, the watch shows what its processes do. If none of them
has run or used the processor for long, the suite is stuck: it is shown, killed, and has failed.
"""

import contextlib
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import junit
import processes
from suite import ROOT, Suite

HERE = pathlib.Path(__file__).resolve().parent
LOGS = ROOT / "target/ci/logs"
JUNIT = ROOT / "target/ci/junit"
LAST_LINES = 60
CHECK_SECONDS = 20
SILENT_CHECKS = 30
STUCK_CHECKS = 45
# A suite that only polls now and then uses less processor time than this in STUCK_CHECKS.
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

    def check(self):
        """Prints what a silent suite does. Returns whether the suite is stuck."""
        ticks, runs = processes.used(self.pid)
        size = self.log.stat().st_size
        self.silent = 0 if size != self.size else self.silent + 1
        works = (
            runs or size != self.size or abs(ticks - self.ticks) > IDLE_SECONDS * TICKS_PER_SECOND
        )
        self.still = 0 if works else self.still + 1
        self.size, self.ticks = size, ticks if works else self.ticks
        stuck = self.still >= STUCK_CHECKS
        if stuck or self.silent and self.silent % SILENT_CHECKS == 0:
            self.print_state(
                "waits for what does not come, and is killed" if stuck else "is still running"
            )
        return stuck

    def print_state(self, words):
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


@dataclass
class Result:
    suite: Suite
    count: junit.Count
    seconds: float = 0
    used: float = 0
    """Seconds of processor time."""
    log: pathlib.Path | None = None

    def failure(self):
        """Yields the lines that say what failed: the tests, and the end of the output."""
        if self.count.failed:
            text = self.log.read_text(errors="replace")
            yield f"\n{self.suite.label}: {len(self.count.failed)} failed"
            yield from text.splitlines()[-LAST_LINES:]
            yield from (f"FAILED {test}" for test in self.count.failed)
            yield f"The whole output is in {os.path.relpath(self.log, ROOT)}.\n"


def run(suite, begin_before=float("inf")):
    """Runs a suite to its end, or skips it if it has no command or that time has passed."""
    if isinstance(suite.command, str):
        return Result(suite, junit.Count(reasons=[suite.command]))
    if time.time() > begin_before:
        return Result(suite, junit.Count(reasons=["no time was left to begin it"]))
    log_path, folder = LOGS / f"{suite.slug}.log", JUNIT / suite.slug
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    with open(log_path, "w") as log:
        code, used = ended(*start(suite.command, log, folder), suite.label, log_path)
    count = junit.count(folder)
    if suite.is_one_check and code == 0:
        count.passed += 1
    if code != 0 and not count.failed:
        count.failed.append(f"the command ended with {code}")
    if count.status and not count.failed:
        count.failed.append("this suite ran no test")
    result = Result(suite, count, time.monotonic() - began, used, log_path)
    with one_speaks:
        print_result(result)
    return result


def start(command, log, folder):
    """Returns the process, and the fd that must stay open while it runs."""
    other_end, lifeline = os.pipe()
    words = [str(word).replace("{junit}", str(folder)) for word in command]
    launched = [sys.executable, HERE / "launch.py", str(other_end), *words]
    environment = os.environ | {"CARGO_TERM_COLOR": "never", junit.VARIABLE: str(folder)}
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
        while not ending.poll(CHECK_SECONDS):
            if watch.check():
                break
    os.close(fd)
    os.close(lifeline)
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    return running.returncode, usage.ru_utime + usage.ru_stime


def print_result(result):
    count = result.count
    counts = f"{count.passed:6} passed {len(count.failed):4} failed {len(count.reasons):4} skipped"
    counts += f" {len(count.flaky):4} flaky" if count.flaky else ""
    times = f"{result.seconds:6.0f} s {result.used:6.0f} s of processors"
    print(f"{result.suite.label:48} {counts} {times}", *result.failure(), sep="\n", flush=True)
