"""What the processes of a suite do, for when it does not end: each with its parent, state and what it waits for."""

import pathlib

PROC = pathlib.Path("/proc")


def under(pid):
    """A line for each process that descends from this one, and for each thread what it waits for."""
    parents = {}
    for directory in PROC.glob("[0-9]*"):
        if (parent := parent_of(directory)) is not None:
            parents.setdefault(parent, []).append(int(directory.name))
    return list(lines(pid, parents, ""))


def lines(pid, parents, indent):
    yield f"{indent}{pid} {command_of(pid)}: {', '.join(waits_of(pid)) or 'gone'}"
    for child in sorted(parents.get(pid, [])):
        yield from lines(child, parents, indent + "  ")


def parent_of(directory):
    try:
        return int((directory / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return None


def command_of(pid):
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:150].strip()
    except OSError:
        return "?"


def waits_of(pid):
    """Of each thread its state, and the function of the kernel that it sleeps in."""
    for thread in sorted((PROC / str(pid) / "task").glob("*")):
        try:
            state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
            yield f"{state} {(thread / 'wchan').read_text().strip('0') or 'runs'}"
        except OSError:
            continue
