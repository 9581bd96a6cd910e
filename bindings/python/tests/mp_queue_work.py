"""What the tests of queues have processes do."""

import contextlib

from shmarray.multiprocessing.queues import Empty


def put_all(q, items):
    for item in items:
        q.put(item)


def drain(q):
    """All that there is to get now."""
    got = []
    with contextlib.suppress(Empty):
        while True:
            got.append(q.get_nowait())
    return got
