"""Arrays of a channel's slots that tasks get: each task sees its own, though the slot goes back."""

import concurrent.futures
import sys
import threading

import numpy as np
import pytest

import shmarray
import shmarray.multiprocessing as mp
from shmarray import Channel
from shmarray.concurrent import ProcessPoolExecutor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has channels")

FRAMES = 40
SIZE = 20_000


def ends(number, frame):
    return number, int(frame[0]), int(frame[-1])


def first(frame):
    return int(frame[0])


EXPECTED = [(number, number, number) for number in range(FRAMES)]


@pytest.fixture
def frames():
    """A channel of two slots, into which a thread sends."""
    channel = Channel.create("frames", SIZE, "i8", slots=2)
    sends = Channel.open("frames")

    def feed():
        for number in range(FRAMES):
            sends.send(np.full(SIZE, number))
        sends.close()

    thread = threading.Thread(target=feed)
    thread.start()
    yield channel
    thread.join()
    channel.close()


def pooled(call):
    def run(frames):
        with mp.get_context("fork").Pool(2) as pool:
            return call(pool, frames)

    return run


def executed(call):
    def run(frames):
        with ProcessPoolExecutor(2, mp.get_context("fork")) as executor:
            return call(executor, frames)

    return run


@pytest.mark.parametrize(
    "run",
    [
        pooled(
            lambda pool, frames: [
                result.get()
                for result in [pool.apply_async(ends, pair) for pair in enumerate(frames)]
            ]
        ),
        pooled(lambda pool, frames: pool.starmap(ends, enumerate(frames))),
        executed(
            lambda executor, frames: [
                future.result()
                for future in [executor.submit(ends, *pair) for pair in enumerate(frames)]
            ]
        ),
    ],
    ids=["apply_async", "starmap", "submit"],
)
def test_each_task_sees_its_own_frame(run, frames):
    assert run(frames) == EXPECTED


@pytest.mark.parametrize(
    "run",
    [
        pooled(lambda pool, frames: pool.map(first, frames)),
        pooled(lambda pool, frames: list(pool.imap(first, frames))),
        pooled(lambda pool, frames: list(pool.imap(first, frames, 7))),
        pooled(lambda pool, frames: sorted(pool.imap_unordered(first, frames, 7))),
        executed(lambda executor, frames: list(executor.map(first, frames))),
        executed(lambda executor, frames: list(executor.map(first, frames, chunksize=7))),
    ],
    ids=["map", "imap", "imap in chunks", "imap_unordered in chunks", "Executor.map", "in chunks"],
)
def test_each_item_of_a_channel_is_seen(run, frames):
    assert run(frames) == list(range(FRAMES))


def test_what_is_put_into_a_queue_or_dumped_is_the_frame(frames):
    queue = mp.get_context("fork").Queue()
    dumped = []
    for frame in frames:
        queue.put(frame)
        dumped.append(shmarray.dumps(frame))
        if len(dumped) == 4:
            break
    del frame
    assert [first(queue.get()) for _ in range(4)] == [0, 1, 2, 3]
    assert [first(shmarray.loads(data)) for data in dumped] == [0, 1, 2, 3]
    for _ in frames:  # the rest, for the thread
        pass


def test_what_cannot_be_copied_fails_loudly_in_the_standard_library(frames):
    with concurrent.futures.ThreadPoolExecutor(1) as threads:
        futures = [threads.submit(first, frame) for frame in frames]
    outcomes = {type(future.exception()) for future in futures}
    assert outcomes <= {IndexError, type(None)}
    for number, future in enumerate(futures):
        if future.exception() is None:
            assert future.result() == number


def test_a_task_that_cannot_be_pickled_says_so(frames):
    with ProcessPoolExecutor(1, mp.get_context("fork")) as executor:
        for frame in frames:
            future = executor.submit(lambda array: array, frame)
            with pytest.raises(Exception, match=r"lambda|pickle"):
                future.result()
