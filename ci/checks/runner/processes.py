"""The descendants of a process: what they wait for, how much processor time they have used, and
their ends.
"""

import contextlib
import ctypes
import os
import pathlib

PROC = pathlib.Path("/proc")
PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def ended_children():
    """Yields (pid, status) of each child that has ended, and reaps it."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            yield ended


def under(pid):
    """A line for this process and each of its descendants, with what each thread waits for."""
    return list(lines(pid, children_by_parent(), ""))


def below(pid):
    """The pids of all descendants of a process, also of those that ended and are not reaped."""
    children = children_by_parent()
    found = []
    todo = [pid]
    while todo:
        todo += (more := children.get(todo.pop(), []))
        found += more
    return found


def used(pid):
    """(Ticks of processor time that all descendants have used, whether one of them runs now or
    waits for another suite's build).
    """
    ticks = 0
    runs = False
    for other in below(pid):
        if (fields := status_of(PROC / str(other))) is not None:
            ticks += sum(map(int, fields[11:15]))  # its own and its waited-for children's
            runs |= fields[0] == "R" or waits_for_a_build(other)
    return ticks, runs


def waits_for_a_build(pid):
    """Whether it is a cargo that waits for the lock of a target folder, in which another suite
    builds.
    """
    try:
        waits = (PROC / str(pid) / "wchan").read_text() == "locks_lock_inode_wait"
        return waits and (PROC / str(pid) / "comm").read_text() == "cargo\n"
    except OSError:
        return False


def children_by_parent():
    children = {}
    for directory in PROC.glob("[0-9]*"):
        if (fields := status_of(directory)) is not None:
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    return children


def status_of(directory):
    """The fields after the name in /proc/PID/stat: the state, the parent, …

    None if the process has ended.
    """
    try:
        return (directory / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def lines(pid, children, indent):
    yield f"{indent}{pid} {command_of(pid)}: {', '.join(waits_of(pid)) or 'gone'}"
    for child in sorted(children.get(pid, [])):
        yield from lines(child, children, indent + "  ")


def command_of(pid):
    try:
        return (
            (PROC / str(pid) / "cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode(errors="replace")[:150]
            .strip()
        )
    except OSError:
        return "?"


def waits_of(pid):
    """The state of each thread, and the kernel function in which it sleeps."""
    for thread in sorted((PROC / str(pid) / "task").glob("*")):
        try:
            yield f"{status_of(thread)[0]} {(thread / 'wchan').read_text().strip('0') or 'runs'}"
        except (OSError, TypeError):
            continue
