"""A program that ends with messages that nobody has received leaves no memory.

Nothing uses shared memory between its end and the look at what it left. With the standard package
some of these programs never end, because a queue waits for its reader.
"""

import pytest

PROGRAM = """
import os, sys, warnings
warnings.filterwarnings("ignore", "unclosed running multiprocessing pool", ResourceWarning)
import shmarray
import shmarray.multiprocessing as mp
import numpy as np

fork = mp.get_context("fork")
array = np.ones(100_000)

def put(queue):
    queue.put(array)

def send(end):
    end.send(array)

if __name__ == "__main__":
"""

PROGRAMS = {
    "a queue": "queue = mp.Queue(); put(queue); put(queue)",
    "a queue that is not joined": "queue = mp.Queue(); queue.cancel_join_thread(); put(queue)",
    "a joinable queue": "queue = mp.JoinableQueue(); put(queue)",
    "a simple queue": "queue = mp.SimpleQueue(); put(queue)",
    "a pipe": "one, two = mp.Pipe(); send(one); send(two)",
    "a pipe in one direction": "receives, sends = mp.Pipe(duplex=False); send(sends)",
    "a pipe whose fd stays open": "one, two = mp.Pipe(); send(one); os.dup(two.fileno())",
    "a pipe in a pipe": "one, two = mp.Pipe(); a, b = mp.Pipe(); send(a); one.send(b); del b",
    "a pipe from a child": (
        "one, two = mp.Pipe(); child = fork.Process(target=send, args=(two,));"
        "child.start(); child.join()"
    ),
    "a queue from a child": (
        "queue = mp.Queue(); child = fork.Process(target=put, args=(queue,));"
        "child.start(); child.join()"
    ),
    "a parent of a forked program": (
        "one, two = mp.Pipe(); send(one)\n"
        "    if os.fork() == 0: sys.exit()\n"
        "    os.wait(); assert two.recv().sum() == 100_000; send(one)"
    ),
    "results of a pool": (
        "pool = fork.Pool(2); results = [pool.apply_async(np.ones, (100_000,)) for _ in range(4)];"
        "pool.close(); pool.join()"
    ),
    "a pool that goes on": (
        "pool = fork.Pool(2); results = [pool.apply_async(np.ones, (100_000,)) for _ in range(4)];"
        "results[0].get()"
    ),
    "bytes": "kept = [shmarray.dumps(array) for _ in range(4)]",
    "bytes to be loaded again": "kept = shmarray.dumps(array, loads=2); shmarray.loads(kept)",
    "bytes from a child": (
        "child = fork.Process(target=shmarray.dumps, args=(array,)); child.start(); child.join()"
    ),
    "bytes from a program that was started": (
        "child = mp.get_context('spawn').Process(target=shmarray.dumps, args=(array,));"
        "child.start(); child.join()"
    ),
    "bytes of a parent, and a child that is the last": (
        "reads, writes = os.pipe(); kept = shmarray.dumps(array)\n"
        "    if os.fork() == 0: os.close(writes); os.read(reads, 1); sys.exit()"
    ),
    "a manager": "manager = mp.Manager(); queue = manager.Queue(); put(queue)",
}


@pytest.mark.parametrize("pool_bytes", ["0", ""], ids=["no pool", "pool"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_ends_with_unread_messages_leaves_no_memory(
    name, pool_bytes, files, run_file, monkeypatch
):
    monkeypatch.setenv("SHMARRAY_POOL_BYTES", pool_bytes)
    run_file(f"{PROGRAM}    {PROGRAMS[name]}\n")  # its output ends with the last process
    assert files() == []
