"""Fans images out to four workers and collects their answers, though a worker is killed.

    python fan_out.py [--images N]

Each image goes to the worker that is free first. A worker that dies takes the image with it that it
had; the parent sees which answer is missing, and sends that image once more.
"""

import argparse
import os
import signal
import time

import numpy as np
import shmarray
import shmarray.multiprocessing as mp

SHAPE = (480, 640)
WORKERS = 4


def work(images, answers):
    """Counts the grey levels of each image."""
    for message in images.messages():
        with answers.loan(meta=message.meta) as counts:
            counts[:] = np.bincount(message.array.ravel(), minlength=256)
    answers.close()


def image_of(number):
    return np.random.default_rng(number).integers(0, 256, SHAPE, "u1")


def send(images, number):
    with images.loan(meta=number.to_bytes(4, "little")) as image:
        image[:] = image_of(number)


def collect(answers, seen):
    """Takes what is there. Returns how many answers came."""
    came = 0
    while answers.poll(0.5 if came == 0 else 0):
        with answers.receive_message() as message:
            seen[int.from_bytes(message.meta, "little")] = message.copy()
        came += 1
    return came


def main(count):
    images = shmarray.Channel.create(f"images.{os.getpid()}", SHAPE, "u1", slots=8)
    answers = shmarray.Channel.create(f"answers.{os.getpid()}", 256, "i8", slots=64)
    workers = [mp.Process(target=work, args=(images, answers)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    seen = {}
    began = time.perf_counter()
    for number in range(count):
        send(images, number)
        if number == count // 2:
            os.kill(workers[0].pid, signal.SIGKILL)
        if number % 32 == 31:
            collect(answers, seen)
    again = 0
    while len(seen) < count:
        if collect(answers, seen) == 0:
            for number in sorted(set(range(count)) - set(seen)):
                send(images, number)
                again += 1
    took = time.perf_counter() - began
    images.close()
    for worker in workers:
        worker.join()
    for number in (0, count // 2, count - 1):
        expected = np.bincount(image_of(number).ravel(), minlength=256)
        np.testing.assert_array_equal(seen[number], expected)
    print(
        f"{count} images through {WORKERS} workers, one of them killed: "
        f"{count / took:.0f} a second, {again} sent once more"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=200)
    main(parser.parse_args().images)
