"""Runs a command as a fresh login would, with default signal handling and in its own session.

    python ci/checks/runner/launch.py LIFELINE COMMAND …

A signal that is ignored or blocked stays so in every child. `nohup` ignores SIGHUP, and a shell
ignores SIGINT in background commands. A test that expects such a signal to kill its child would
wait for ever.

LIFELINE is an fd. When its other end closes, the starter has ended, and the command is killed with
all its descendants. Orphans become children of this process, so that none is lost. Descendants that
are left when the command has ended are killed and named.
"""

import contextlib
import os
import select
import signal
import sys

import processes

LEFT = "left running, and killed: "


def start(command):
    changeable = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
    return os.posix_spawnp(
        command[0], command, os.environ, setsid=True, setsigdef=changeable, setsigmask=()
    )


def wait_for(child, lifeline):
    """Returns the child's exit status, or None if the lifeline closed first.

    Orphans are waited for too.
    """
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # Python writes to the fd only with a handler
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    while True:
        for pid, status in processes.ended_children():
            if pid == child:
                return status
        ready, _, _ = select.select([woken, lifeline], [], [])
        if lifeline in ready:
            return None
        with contextlib.suppress(BlockingIOError):
            while os.read(woken, 1 << 10):
                pass


def kill_the_rest():
    """Kills every descendant of this process. Returns their commands by pid."""
    found = {}
    list(processes.ended_children())
    while left := processes.below(os.getpid()):
        for pid in left:
            found.setdefault(pid, processes.command_of(pid))
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(-1, 0)
    return found


def main():
    lifeline = int(sys.argv[1])
    command = sys.argv[2:]
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.set_inheritable(lifeline, False)
    processes.adopt_orphans()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the kernel forgets how the child ended
    status = wait_for(start(command), lifeline)
    for pid, words in kill_the_rest().items():
        print(f"{LEFT}{pid} {words}", file=sys.stderr)
    if status is None:
        return 128 + signal.SIGTERM
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
