"""What the programs of test_dead_workers do:

workers that hold arrays when they end, and a look at what is there.
"""

import os
import signal
import sys

import shmarray

MIB = 1 << 20
HELD = 4 * MIB
DROPPED = 6 * MIB
# What one worker holds: sizes are rounded up by an eighth at the most, and there are headers.
ONE = (HELD + DROPPED) * 9 // 8 + MIB
held = []


def work(number=0):
    """Holds an array, and has another in its pool, from now until it ends.

    Once, however many tasks it does.
    """
    if not held:
        shmarray.zeros(DROPPED, "u1")
        held.append(shmarray.zeros(HELD, "u1"))
    return number


def work_and_return(number):
    """The same, with a result that goes through shared memory."""
    work()
    return shmarray.full(MIB, number % 100, "u1")


def work_and_put(queue, number):
    """The same into a queue."""
    queue.put(work_and_return(number))


def work_until_interrupted(begun, number):
    """Says in an array that it has begun."""
    work()
    shmarray.attach(begun)[number] = 1
    while True:
        signal.pause()


def have_begun(count):
    """An array for so many to say that they have begun, and a function that waits for all of them."""
    begun = shmarray.zeros(count, "u1")

    def wait():
        while not begun.all():
            os.sched_yield()

    return str(shmarray.handle(begun)), wait


def use():
    """What a supervisor does of its own."""
    shmarray.zeros(2 * MIB, "u1")


def used():
    """Bytes of shared memory in SHMARRAY_DIR, each file once."""
    sizes = {}
    with os.scandir(os.environ["SHMARRAY_DIR"]) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            sizes[facts.st_ino] = facts.st_blocks * 512
    return sum(sizes.values())


def check(own, workers, when):
    """There is no more than the supervisor's own and what so many workers hold, one of them dead."""
    there = used()
    if there > own + workers * ONE:
        sys.exit(
            f"{there >> 20} MiB are there {when}: {own >> 20} are the supervisor's, a worker holds {ONE >> 20} at most"
        )
