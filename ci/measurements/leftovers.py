"""Finds what a run left in shared memory: new files that no process holds.

To be called when all processes of the run have ended: memory that a living process holds or pools
is no leftover. A sweep comes first, since the library gives back what dead processes held at its
next use.
"""

import contextlib
import os
import pathlib
import re
import subprocess

SHARED = pathlib.Path("/dev/shm")
OF_THE_CONTENDERS = re.compile(r"(shmarray-(?!registry-)|bench-|psm_|torch_|iox2_|plasma).*")
PROC = pathlib.Path("/proc")
MAPPING = re.compile(r"^\S+ \S+ \S+ (\w+):(\w+) (\d+)", re.M)


def files(folder=SHARED):
    """The names of the files there that contenders make.

    A registry is a file of locks, which stays.
    """
    return {
        path.name
        for path in folder.glob("*")
        if OF_THE_CONTENDERS.fullmatch(path.name) and path.is_file()
    }


def since(before, folder=SHARED):
    subprocess.run(
        ["shmarray", "sweep"], env=os.environ | {"SHMARRAY_DIR": str(folder)}, check=True, stdout=2
    )
    new = files(folder) - before
    held = set(held_files())
    return sorted(name for name in new if identity((folder / name).stat()) not in held)


def identity(status):
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def held_files():
    """The files that processes have mapped or open, by device and inode.

    A file that was linked after it was mapped has no name in its mapping.
    """
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
            for major, minor, inode in MAPPING.findall(
                (process / "maps").read_text(errors="replace")
            ):
                yield int(major, 16), int(minor, 16), int(inode)
            for fd in list((process / "fd").iterdir()):
                with contextlib.suppress(FileNotFoundError):  # it has closed it meanwhile
                    yield identity(fd.stat())
