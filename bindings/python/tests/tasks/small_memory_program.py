"""What works with the standard library in 64 MB of shared memory, or without any, works here, too:

`small_memory_program.py METHOD WARNING MB [born]`, with words of the one warning that it expects,
the bytes of what it calls a megabyte, and whether arrays are born shared. Without shared memory
less than 64 MB need go through it.
"""

import contextlib
import sys
import warnings

import numpy as np

import shmarray
import shmarray.multiprocessing as mp
from shmarray.concurrent import ProcessPoolExecutor

MB = int(sys.argv[3])
BORN = sys.argv[4:] == ["born"]


def same(value):
    return value


def forty(number):
    return np.full(10 * MB, number, np.uint8)


def answer(questions, answers):
    while (value := questions.get()) is not None:
        answers.put(value)


def is_same(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            np.array_equal(one[key], other[key]) for key in one
        )
    return one == other


def objects():
    """Each larger than all of 64 MB of shared memory, or than most of it."""
    yield bytes(range(250)) * (100 * MB // 250)
    yield "xyzü" * (25 * MB)
    yield [b"a" * (30 * MB)] * 3
    yield {"a": np.arange(20 * MB // 2), "b": np.ones(7)}


def through_everything(pool, executor, value):
    assert all(is_same(value, one) for one in pool.map(same, [value, value]))
    assert is_same(value, executor.submit(same, value).result())
    here, there = mp.Pipe()
    for sent in range(2):
        here.send(value)
        assert is_same(value, there.recv()), sent
    assert is_same(value, shmarray.loads(shmarray.dumps(value)))


def through_queues(value):
    questions = mp.Queue()
    answers = mp.Queue(2)
    process = mp.Process(target=answer, args=(questions, answers))
    process.start()
    questions.put(value)
    assert is_same(value, answers.get())
    questions.put(None)
    process.join()
    assert process.exitcode == 0


def forty_kept(pool):
    results = list(pool.imap(forty, range(40)))
    assert all(
        (array == number).all() and array.flags.writeable for number, array in enumerate(results)
    )
    results[3][:] = 7


def main():
    mp.set_start_method(sys.argv[1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with (
            shmarray.allocator() if BORN else contextlib.nullcontext(),
            mp.Pool(2, allocator=BORN) as pool,
            ProcessPoolExecutor(2, allocator=BORN) as executor,
        ):
            for value in objects():
                through_everything(pool, executor, value)
            forty_kept(pool)
        for value in objects():
            through_queues(value)
    caught = [one for one in caught if one.category is RuntimeWarning]
    assert len(caught) == 1, caught
    assert sys.argv[2] in str(caught[0].message)
    assert "--shm-size" in str(caught[0].message)
    assert shmarray.in_band_bytes() > 100 * MB
    print("all is well")


if __name__ == "__main__":
    main()
