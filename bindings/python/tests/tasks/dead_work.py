"""What the programs of test_dead_workers do:

workers that hold arrays when they end, and a look at what is there.
"""

import os
import signal
import sys
import time

import shmarray

MIB = 1 << 20
HELD = 4 * MIB
DROPPED = 6 * MIB
# The most that one worker holds: sizes are rounded up by an eighth at the most, and there are
# headers.
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
    """Does the same, with a result that goes through shared memory."""
    work()
    return shmarray.full(MIB, number % 100, "u1")


def work_and_put(queue, number):
    """Does the same, with a result that goes into a queue."""
    queue.put(work_and_return(number))


def work_until_interrupted(begun, number):
    """Counts itself in an array. It cannot miss the first Ctrl-C:

    a second one would end the parent's wait for its workers, whose memory it takes back.
    """
    work()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    shmarray.attach(begun)[number] = 1
    signal.sigwait({signal.SIGINT})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    raise KeyboardInterrupt


def have_begun(count):
    """Returns an array in which workers count themselves, and a function that waits for all."""
    begun = shmarray.zeros(count, "u1")

    def wait():
        while not begun.all():
            time.sleep(0.001)  # leaves the processors to those for whom it waits

    return str(shmarray.handle(begun)), wait


def use():
    """The supervisor's own work."""
    shmarray.zeros(2 * MIB, "u1")


def used():
    """Returns the bytes of shared memory in SHMARRAY_DIR, each file once."""
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
    """Asserts that only the supervisor and these workers, one of them dead, hold memory."""
    there = used()
    if there > own + workers * ONE:
        sys.exit(
            f"{there >> 20} MiB are there {when}: {own >> 20} are the supervisor's, a worker "
            f"holds {ONE >> 20} at most"
        )
