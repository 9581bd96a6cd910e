"""Measures creating and attaching in Python: prints the seconds of one call as a line of JSON.

python paths.py create BYTES COUNT
python paths.py attach COUNT < handles, one a line
"""

import json
import sys
import time

import shmarray


def create(size_bytes, count):
    for _ in range(count):
        shmarray.empty(size_bytes, "u1")


def attach_all(handles):
    began = time.perf_counter()
    arrays = [shmarray.attach(handle) for handle in handles]
    return (time.perf_counter() - began) / len(handles), arrays


def attach_held(handle, count):
    began = time.perf_counter()
    for _ in range(count):
        shmarray.attach(handle)
    return (time.perf_counter() - began) / count


def attach_rows(count):
    """Attaches the first handle before the clock starts: it pays for what a process does once."""
    first, *handles = sys.stdin.read().split()
    kept = shmarray.attach(first)
    cold, arrays = attach_all(handles)
    held = attach_held(handles[0], count)
    del arrays, kept
    again, arrays = attach_all(handles)
    return {"cold": cold, "held": held, "again": again}


def create_row(size_bytes, count):
    create(size_bytes, count // 10 + 1)
    began = time.perf_counter()
    create(size_bytes, count)
    return (time.perf_counter() - began) / count


if __name__ == "__main__":
    row = {"create": create_row, "attach": attach_rows}[sys.argv[1]]
    print(json.dumps(row(*map(int, sys.argv[2:]))))
