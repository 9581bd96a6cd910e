"""What the processes under another one do:

for a suite that does not end, and for what it has used.
"""

import pathlib

PROC = pathlib.Path("/proc")


def under(pid):
    """A line for this process and each that descends from it:

    for each thread, what it waits for.
    """
    return list(lines(pid, children_by_parent(), ""))


def below(pid):
    """The pids of all that descend from this process; those that have ended are listed until they
    are waited for.
    """
    children, found, todo = children_by_parent(), [], [pid]
    while todo:
        todo += (more := children.get(todo.pop(), []))
        found += more
    return found


def used(pid):
    """(Ticks of processor time that all below this process have used, whether one of them runs
    now).
    """
    ticks, runs = 0, False
    for other in below(pid):
        if (fields := status_of(PROC / str(other))) is not None:
            ticks += sum(map(int, fields[11:15]))  # its own and its waited-for children's
            runs |= fields[0] == "R"
    return ticks, runs


def children_by_parent():
    children = {}
    for directory in PROC.glob("[0-9]*"):
        if (fields := status_of(directory)) is not None:
            children.setdefault(int(fields[1]), []).append(int(directory.name))
    return children


def status_of(directory):
    """What follows the name in /proc/PID/stat:

    the state, the parent, …; None when it has ended meanwhile.
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
    """Of each thread its state, and the function of the kernel that it sleeps in."""
    for thread in sorted((PROC / str(pid) / "task").glob("*")):
        try:
            yield f"{status_of(thread)[0]} {(thread / 'wchan').read_text().strip('0') or 'runs'}"
        except (OSError, TypeError):
            continue
