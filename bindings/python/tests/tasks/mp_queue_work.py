"""The work of processes in the tests of queues."""

import contextlib

from shmarray.multiprocessing.queues import Empty


def put_all(q, items):
    for item in items:
        q.put(item)


def drain(q):
    """Returns all that there is to get now."""
    got = []
    with contextlib.suppress(Empty):
        while True:
            got.append(q.get_nowait())
    return got
