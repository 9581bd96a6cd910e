"""Runs the programs here with little shared memory: a /dev/shm of its own, which nobody else sees.

    python small_memory.py                              what ci/test --release runs
    python small_memory.py SIZE PROGRAM [ARGUMENT …]    one program

SIZE is that of a tmpfs, such as 64m; "full" is one that has 256 KiB left, for semaphores. Nothing
is run where this user may not mount, and that is said.
"""

import os
import subprocess
import sys
from pathlib import Path

from differences import junit

QUEUES_AND_POOLS = (
    "*TestQueue.*",
    "*.WithProcessesTestConnection.*",
    "*TestPoolW*.*",
    "*.WithProcessesTestPool.*",
)
"""The tests of CPython under each start method."""
SUITES = [
    *(("64m", "pickling.py", package) for package in ("numpy", "pandas")),
    *(("full", "pickling.py", package) for package in ("numpy", "pandas", "xarray")),
    *(
        (size, "cpython_multiprocessing.py", *(f"--only={name}" for name in QUEUES_AND_POOLS))
        for size in ("64m", "full")
    ),
    ("64m", "joblib_suite.py"),
]
FULL_BYTES = 16 << 20
LEFT_BYTES = 256 << 10
MOUNTED = """
set -e
mount --make-rprivate / && mount -t tmpfs -o "mode=1777,size=$0" tmpfs /dev/shm
[ "$1" = 0 ] || fallocate --length "$1" /dev/shm/of-others
shift
exec "$@"
"""
"""Arguments: the size, how much of it is taken, the command."""


def run(size, program, *arguments):
    """Returns its exit status."""
    is_full = size == "full"
    sizes = [str(FULL_BYTES), str(FULL_BYTES - LEFT_BYTES)] if is_full else [size, "0"]
    command = [sys.executable, str(Path(__file__).with_name(program)), *arguments]
    print(f"{program} with a /dev/shm that {'is full' if is_full else f'has {size}'}", flush=True)
    command = ["unshare", "--mount", "bash", "-c", MOUNTED, *sizes, *command]
    environment = {**os.environ, "SHMARRAY_DIR": "/dev/shm"}
    return subprocess.run(command, env=environment, check=False).returncode


def may_mount():
    """Returns whether this user may mount."""
    script = "mount --make-rprivate / && mount -t tmpfs tmpfs /dev/shm"
    asked = ["unshare", "--mount", "bash", "-c", script]
    return not subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode


def main(*suite):
    if not may_mount():
        return junit.close(
            "little shared memory",
            [("/dev/shm", "skipped: a /dev/shm of its own cannot be mounted here")],
        )
    ran = [run(*one) for one in ([suite] if suite else SUITES)]
    return int(any(ran))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
