"""What a run left in shared memory: files that are new, and that no process has any more.

For when all processes of the run have ended: what a living one holds or keeps for its next use is
no leftover. A sweep comes first, since what dead processes held is given back at the next use of
the library.
"""

import os
import pathlib
import re
import subprocess

SHARED = pathlib.Path("/dev/shm")
OF_THE_CONTENDERS = re.compile(r"(shmarray-(?!registry-)|bench-|psm_|torch_|iox2_|plasma).*")
PROC = pathlib.Path("/proc")


def files(folder=SHARED):
    """The names of the files there that contenders make. A registry is a file of locks, which stays."""
    return {path.name for path in folder.glob("*") if OF_THE_CONTENDERS.fullmatch(path.name) and path.is_file()}


def since(before, folder=SHARED):
    subprocess.run(["shmarray", "sweep"], env=os.environ | {"SHMARRAY_DIR": str(folder)}, check=True, stdout=2)
    return sorted(files(folder) - before - held(folder))


def held(folder):
    """The names of the files there that some process has mapped or open."""
    return {pathlib.Path(place).name for place in places() if pathlib.Path(place).parent == folder}


def places():
    for process in PROC.glob("[0-9]*"):
        try:
            yield from re.findall(r" (/\S*)$", (process / "maps").read_text(errors="replace"), re.M)
            yield from (os.readlink(descriptor) for descriptor in (process / "fd").iterdir())
        except OSError:  # it has ended, or is another user's
            continue
