"""What a run left in shared memory: files that are new, and that no process has any more.

For when all processes of the run have ended: what a living one holds or keeps for its next use is
no leftover. A sweep comes first, since what dead processes held is given back at the next use of
the library.
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
    new, held = files(folder) - before, set(held_files())
    return sorted(name for name in new if identity((folder / name).stat()) not in held)


def identity(status):
    return os.major(status.st_dev), os.minor(status.st_dev), status.st_ino


def held_files():
    """What processes have mapped or open, by identity:

    a file that was linked late has no name in its mapping.
    """
    for process in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile, or is another user's
            for major, minor, inode in MAPPING.findall(
                (process / "maps").read_text(errors="replace")
            ):
                yield int(major, 16), int(minor, 16), int(inode)
            for descriptor in list((process / "fd").iterdir()):
                with contextlib.suppress(FileNotFoundError):  # it has closed it meanwhile
                    yield identity(descriptor.stat())
